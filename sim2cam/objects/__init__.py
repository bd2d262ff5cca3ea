"""Object kinds: mesh and texture of each."""
