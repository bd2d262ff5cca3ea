"""Scene descriptions: bodies, materials, lights and cameras as dataclasses with JSON conversion."""
