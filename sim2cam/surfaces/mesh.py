"""Surfaces: triangles with what light and textures need to know of them, and how they are put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Mesh:
    """A surface made of triangles, counter-clockwise seen from outside.

    Attributes:
        vertices_m: (n, 3).
        normals: (n, 3) unit vectors.
        tangents: (n, 3) unit vectors along which u grows.
        uvs: (n, 2); in metres for shapes with a plane texture, in 0..1 for those with an atlas.
        faces: (m, 3) indices.
        parts: (n,) number of the part, from 1: the value of a die's face, the side of a box or block
            (-x, +x, -y, ...), the lower, the upper end and the side of a cylinder, the front, the back
            and the edge of a board or card; the functions that make other shapes say theirs.
        shadow_faces: (k, 3) indices of fewer triangles that cast the same shadow, but for the width
            of a hair; None where there are none.
        is_closed: whether it is the skin of a solid, so that nothing of it is seen from behind.
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
    """Return two triangles for each cell of a grid of vertices, or for each so many both ways."""
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
    """Return a flat piece whose uvs are its points along its tangents, in metres."""
    uvs = np.stack([points @ tangent, points @ bitangent], axis=1)
    n = len(points)
    return Mesh(
        points,
        np.tile(normal, (n, 1)),
        np.tile(tangent, (n, 1)),
        uvs,
        np.asarray(faces),
        make_single_part(n),
    )


def make_single_part(vertex_count: int) -> NDArray[np.uint32]:
    """Return the part of so many vertices (n,) of which there is one."""
    return np.ones(vertex_count, np.uint32)


def join_meshes(parts: Sequence[Mesh]) -> Mesh:
    """Return several surfaces as one, each a part of it."""
    starts = np.cumsum([0, *(len(p.vertices_m) for p in parts[:-1])])
    return Mesh(
        np.vstack([p.vertices_m for p in parts]),
        np.vstack([p.normals for p in parts]),
        np.vstack([p.tangents for p in parts]),
        np.vstack([p.uvs for p in parts]),
        np.vstack([p.faces + start for p, start in zip(parts, starts, strict=True)]),
        np.repeat(np.arange(1, len(parts) + 1, dtype=np.uint32), [len(p.parts) for p in parts]),
    )
