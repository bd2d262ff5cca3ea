"""Kinds of objects: shape, mesh and texture of each."""
