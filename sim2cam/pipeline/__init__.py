"""Pipeline stages over whole datasets: recipes, scene sampling, generation and translation."""
