"""Meshes and their surfaces: textures, texel layouts, printing, decals and wear."""
