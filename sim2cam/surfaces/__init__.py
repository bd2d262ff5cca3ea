"""Meshes and their surfaces: textures, UV charts, printing, decals, wear."""
