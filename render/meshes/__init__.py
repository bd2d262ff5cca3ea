"""Shapes and surfaces made here: meshes, printed faces, textures, the table."""
