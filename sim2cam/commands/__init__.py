"""Commands of the CLI, one module per verb."""
