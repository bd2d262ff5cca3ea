"""Submeshes of a file, one for each material."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Rgb = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Submesh:
    """Mesh of one material; the image takes precedence over vertex colours, these over the colour.

    Attributes:
        vertices: Positions (n, 3).
        faces: Vertex indices (m, 3).
        normals: Vertex normals (n, 3); None without.
        uvs: Texture coordinates (n, 2), v up; None without.
        image: Pillow image; None without, or without uvs.
        vertex_colors: sRGB (n, 3); None without.
        color: sRGB; None without.
    """

    vertices: Floats
    faces: Indices
    normals: Floats | None = None
    uvs: Floats | None = None
    image: Any = None
    vertex_colors: NDArray[np.uint8] | None = None
    color: Rgb | None = None

    def transform(self, matrix: Floats) -> Submesh:
        """Apply a matrix (4, 4); reflections flip the faces to keep them outward."""
        linear = matrix[:3, :3]
        a, b, c = linear
        with np.errstate(all="ignore"):  # files may hold any numbers
            cofactors = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)])
            sign = -1.0 if (a * cofactors[0]).sum() < 0 else 1.0
            normals = self.normals
            if normals is not None:
                transformed = normals @ (sign * cofactors).T
                length = np.linalg.norm(transformed, axis=1, keepdims=True)
                normals = np.where(length > 0, transformed / length, normals)
            vertices = self.vertices @ linear.T + matrix[:3, 3]
        faces = self.faces[:, ::-1] if sign < 0 else self.faces
        return replace(self, vertices=vertices, faces=faces, normals=normals)

    def with_default_color(self, color: Rgb) -> Submesh:
        """Set the colour if the mesh has no image and no colours."""
        has_own = self.image is not None or self.vertex_colors is not None or self.color is not None
        return self if has_own else replace(self, color=color)

    def drop_unused_vertices(self) -> Submesh:
        """Remove the vertices that no face uses."""
        is_used = np.zeros(len(self.vertices), bool)
        is_used[self.faces] = True
        if is_used.all():
            return self
        new_index = np.cumsum(is_used) - 1
        return self.select_vertices(is_used, new_index[self.faces])

    def select_vertices(self, index: NDArray[Any], faces: Indices) -> Submesh:
        """Return a mesh of the vertices at an index (k,) or mask (n,), with new faces (m, 3)."""
        names = ("vertices", "normals", "uvs", "vertex_colors")
        values = {name: getattr(self, name) for name in names}
        selected = {name: v[index] for name, v in values.items() if v is not None}
        return replace(self, faces=faces, **selected)
