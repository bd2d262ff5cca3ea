"""Triangle meshes with normals, tangents, uvs and parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Mesh:
    """A triangle mesh, counter-clockwise viewed from outside.

    Attributes:
        vertices_m: (n, 3) positions.
        normals: (n, 3) unit vectors.
        tangents: (n, 3) unit vectors in the direction of u.
        uvs: (n, 2), in metres for shapes with a planar texture, in 0..1 for atlases.
        faces: (m, 3) vertex indices.
        parts: (n,) number of the part, from 1: the value of a die face; the side of a box or block
            (-x, +x, -y, ...); lower end, upper end and side of a cylinder; front, back and edge of
            a board or card. Builders of other shapes document their parts.
        shadow_faces: (k, 3) indices of fewer triangles with almost the same shadow; None to use
            ``faces``.
        is_closed: whether the mesh encloses a solid, so that back faces are never visible.
    """

    vertices_m: Floats
    normals: Floats
    tangents: Floats
    uvs: Floats
    faces: NDArray[np.int64]
    parts: NDArray[np.uint32]
    shadow_faces: NDArray[np.int64] | None = None
    is_closed: bool = False


def make_grid_faces(rows: int, columns: int, step: int = 1) -> NDArray[np.int64]:
    """Return two triangles per cell of a vertex grid, or per ``step`` x ``step`` cells."""
    row, column = np.mgrid[: rows - 1 : step, : columns - 1 : step]
    corner = (row * columns + column).ravel()
    near, across = corner + step, corner + step * columns
    far = across + step
    return np.concatenate(
        [np.stack([corner, near, far], 1), np.stack([corner, far, across], 1)]
    ).astype(np.int64)


def make_patch(
    points: Floats, normal: Floats, tangent: Floats, bitangent: Floats, faces: ArrayLike
) -> Mesh:
    """Return a flat mesh whose uvs are coordinates along tangent and bitangent, in metres."""
    uvs = np.stack([points @ tangent, points @ bitangent], axis=1)
    n = len(points)
    normals, tangents = np.tile(normal, (n, 1)), np.tile(tangent, (n, 1))
    return Mesh(points, normals, tangents, uvs, np.asarray(faces), make_single_part(n))


def make_single_part(vertex_count: int) -> NDArray[np.uint32]:
    """Return part numbers (n,) of a mesh with one part."""
    return np.ones(vertex_count, np.uint32)


def join_meshes(parts: Sequence[Mesh]) -> Mesh:
    """Join meshes to one, each a part of it."""
    starts = np.cumsum([0, *(len(part.vertices_m) for part in parts[:-1])])
    points, normals, tangents, uvs = (
        np.vstack([getattr(part, name) for part in parts])
        for name in ("vertices_m", "normals", "tangents", "uvs")
    )
    faces = np.vstack([part.faces + start for part, start in zip(parts, starts, strict=True)])
    numbers = np.arange(1, len(parts) + 1, dtype=np.uint32)
    part_numbers = np.repeat(numbers, [len(part.parts) for part in parts])
    return Mesh(points, normals, tangents, uvs, faces, part_numbers)
