"""Public Python API; ``sim2cam`` exports it lazily."""
