"""Unwrapping: where on a picture the faces of meshes from files lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.assets.mesh_files.raw_mesh import (
    GREY,
    RawMesh,
    compute_face_normals,
    normalize,
    split_vertices,
    warn,
)
from sim2cam.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_TEXTURE_PX = 4096

_MAX_UV = 1e6
_UV_TOLERANCE = 1e-4  # beyond the picture's edge that is no repetition


def unwrap(raw: RawMesh) -> RawMesh:
    """Return the mesh with uvs in metres: each face is seen along the axis that it faces most."""
    axis = np.abs(compute_face_normals(raw)).argmax(axis=1)
    split = split_vertices(raw, axis)
    of_vertex = np.zeros(len(split.vertices), np.int64)
    of_vertex[split.faces.ravel()] = np.repeat(axis, 3)
    rows = np.arange(len(of_vertex))
    ways = [split.vertices[rows, (of_vertex + step) % 3] for step in (1, 2)]
    return replace(split, uvs=np.stack(ways, axis=1))


def apply_image(raw: RawMesh, uvs: Floats, path: Path) -> tuple[RawMesh, NDArray[np.uint8]]:
    """Return the mesh with uvs within 0 to 1, and the picture for them, repeated where it has to be."""
    places, repeats = wrap_uvs(uvs, path)
    size, most = max(raw.image.size), int(repeats.max())
    side = max(1, MAX_TEXTURE_PX // most)
    if size > side:
        shown = " x ".join(map(str, raw.image.size))
        often = f", which is repeated {most} times," if most > 1 else ""
        warn(path, f"its texture of {shown} pixels{often} is scaled down to {side}.")
    tile = images.shrink_image(raw.image, side, path)[::-1]
    return replace(raw, uvs=places), np.tile(tile, (repeats[1], repeats[0], 1))


def wrap_uvs(uvs: Floats, path: Path) -> tuple[Floats, Indices]:
    """Return uvs within 0 to 1, and how many times (2,) their picture stands there across and up.

    Raises:
        InputError: that is more often than a texture has pixels, or uvs are not finite.
    """
    if not np.isfinite(uvs).all():
        raise InputError(path, "its texture coordinates are not all finite.")
    size = float(np.ptp(uvs, axis=0).max())
    if size > MAX_TEXTURE_PX or np.abs(uvs).max() > _MAX_UV:
        far = f"reach to {np.abs(uvs).max():.3g}, over {size:.3g} images"
        problem = f"its texture coordinates {far}; no more than {MAX_TEXTURE_PX} are drawn."
        raise InputError(path, problem)
    moved = uvs - np.floor(uvs.min(axis=0))
    repeats = np.ceil(moved.max(axis=0) - _UV_TOLERANCE).astype(int).clip(1)
    return moved / repeats, repeats


def apply_vertex_colors(
    raw: RawMesh, vertex_colors: NDArray[np.uint8]
) -> tuple[RawMesh, NDArray[np.uint8]]:
    """Return the mesh with uvs within 0 to 1, and a picture for them of its vertices' colours.

    Each face has four texels, three of them at its corners; between them bilinear interpolation is
    that of the triangle. Faces that are near in space are so in the picture, so that what is seen
    from afar, where texels of neighbours mix, keeps its colours.
    """
    order = np.argsort(_compute_z_order(raw.vertices[raw.faces].mean(axis=1)))
    row, column = _spread_bits(np.arange(len(order)))
    side = 1 << int(np.ceil(np.log2(max(row.max(), column.max()) + 1)))
    a, b, c = vertex_colors[raw.faces[order]].swapaxes(0, 1).astype(int)
    picture = np.full((2 * side, 2 * side, 3), GREY[:3], np.uint8)
    for dy, dx, texel in ((0, 0, a), (0, 1, b), (1, 0, c), (1, 1, (b + c - a).clip(0, 255))):
        picture[2 * row + dy, 2 * column + dx] = texel
    corners = np.array([[0.5, 0.5], [1.5, 0.5], [0.5, 1.5]])
    split = split_vertices(raw, np.arange(len(raw.faces)))
    uvs = np.zeros((len(split.vertices), 2))
    uvs[split.faces[order]] = (2 * np.stack([column, row], axis=1)[:, None] + corners) / (2 * side)
    return replace(split, uvs=uvs), picture


def _compute_z_order(points: Floats) -> Indices:
    """Return numbers (n,) along a curve through space on which neighbours are near."""
    low, size = points.min(axis=0), np.ptp(points, axis=0).max()
    cells = ((points - low) / (size or 1) * 1023).astype(np.int64)
    bits = np.arange(10)
    spread = ((cells[..., None] >> bits) & 1) << (3 * bits)
    return np.asarray(spread.sum(axis=-1) @ np.array([1, 2, 4]))


def _spread_bits(numbers: Indices) -> tuple[Indices, Indices]:
    """Return row and column (n,) of numbers along such a curve through a square."""
    bits = np.arange(16)
    row, column = (
        (((numbers[:, None] >> (2 * bits + step)) & 1) << bits).sum(axis=1) for step in (1, 0)
    )
    return row, column


def compute_tangents(vertices: Floats, faces: Indices, normals: Floats, uvs: Floats) -> Floats:
    """Return unit vectors (n, 3) across the normals along which u grows."""
    a, b, c = vertices[faces].swapaxes(0, 1)
    (du, dv), (eu, ev) = ((uvs[faces[:, i]] - uvs[faces[:, 0]]).T for i in (1, 2))
    # solved for the way that u takes; its length is that of the face, its sign that of the picture
    along = ((b - a) * ev[:, None] - (c - a) * dv[:, None]) * np.sign(du * ev - eu * dv)[:, None]
    total = np.zeros_like(vertices)
    np.add.at(total, faces.ravel(), np.repeat(along, 3, axis=0))
    total -= normals * (total * normals).sum(axis=1, keepdims=True)
    any_across = np.cross(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
    return normalize(total, any_across / np.linalg.norm(any_across, axis=1, keepdims=True))
