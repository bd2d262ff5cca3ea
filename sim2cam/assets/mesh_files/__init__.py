"""Readers of mesh files: OBJ, PLY, STL, glTF, COLLADA."""
