"""Meshes as files have them, one for each material, before they become one."""

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
    """A mesh of one material; an image goes before colours of vertices, and these before its colour.

    Attributes:
        vertices: (n, 3).
        faces: (m, 3).
        normals: (n, 3); None without.
        uvs: (n, 2), v upwards; None without.
        image: as Pillow opened it; None without, and without uvs.
        vertex_colors: sRGB (n, 3) of the vertices; None without.
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
        """Return the mesh elsewhere, by a matrix (4, 4); a mirrored one keeps its outside outside."""
        linear = matrix[:3, :3]
        a, b, c = linear
        with np.errstate(all="ignore"):  # files may hold any numbers
            cofactors = np.stack([np.cross(b, c), np.cross(c, a), np.cross(a, b)])
            sign = -1.0 if (a * cofactors[0]).sum() < 0 else 1.0
            normals = self.normals
            if normals is not None:
                turned = normals @ (sign * cofactors).T
                length = np.linalg.norm(turned, axis=1, keepdims=True)
                normals = np.where(length > 0, turned / length, normals)
            vertices = self.vertices @ linear.T + matrix[:3, 3]
        faces = self.faces[:, ::-1] if sign < 0 else self.faces
        return replace(self, vertices=vertices, faces=faces, normals=normals)

    def with_default_color(self, color: Rgb) -> Submesh:
        """Return the mesh in a colour, if its file gives it none."""
        has_own = self.image is not None or self.vertex_colors is not None or self.color is not None
        return self if has_own else replace(self, color=color)

    def drop_unused_vertices(self) -> Submesh:
        """Return the mesh without the vertices that none of its faces names."""
        used = np.zeros(len(self.vertices), bool)
        used[self.faces] = True
        if used.all():
            return self
        number = np.cumsum(used) - 1
        return replace(
            self,
            vertices=self.vertices[used],
            faces=number[self.faces],
            normals=None if self.normals is None else self.normals[used],
            uvs=None if self.uvs is None else self.uvs[used],
            vertex_colors=None if self.vertex_colors is None else self.vertex_colors[used],
        )
