"""Meshes and textures of rendered objects."""
