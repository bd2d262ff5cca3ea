"""Texture coordinates, textures of vertex colours, and tangents of raw meshes."""

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
_UV_TOLERANCE = 1e-4  # distance beyond the image's edge that does not count as repetition


def unwrap(raw: RawMesh) -> RawMesh:
    """Add uvs in metres by projecting each face along its dominant axis."""
    axis = np.abs(compute_face_normals(raw)).argmax(axis=1)
    split = split_vertices(raw, axis)
    vertex_axis = np.zeros(len(split.vertices), np.int64)
    vertex_axis[split.faces.ravel()] = np.repeat(axis, 3)
    rows = np.arange(len(vertex_axis))
    coordinates = [split.vertices[rows, (vertex_axis + step) % 3] for step in (1, 2)]
    return replace(split, uvs=np.stack(coordinates, axis=1))


def apply_image(raw: RawMesh, uvs: Floats, path: Path) -> tuple[RawMesh, NDArray[np.uint8]]:
    """Return the mesh with uvs in 0 to 1, and its texture, tiled if uvs exceed one repetition."""
    wrapped_uvs, repeats = wrap_uvs(uvs, path)
    size, max_repeats = max(raw.image.size), int(repeats.max())
    side_px = max(1, MAX_TEXTURE_PX // max_repeats)
    if size > side_px:
        size_text = " x ".join(map(str, raw.image.size))
        repetition = f" (repeated {max_repeats} times)" if max_repeats > 1 else ""
        warn(path, f"the texture of {size_text} pixels{repetition} is scaled down to {side_px}.")
    tile = images.shrink_image(raw.image, side_px, path)[::-1]
    return replace(raw, uvs=wrapped_uvs), np.tile(tile, (repeats[1], repeats[0], 1))


def wrap_uvs(uvs: Floats, path: Path) -> tuple[Floats, Indices]:
    """Scale uvs (n, 2) to 0 to 1, and return the number of repetitions (2,) along u and v.

    Raises:
        InputError: The uvs are not finite, or the repetitions exceed ``MAX_TEXTURE_PX``.
    """
    if not np.isfinite(uvs).all():
        raise InputError(path, "texture coordinates are not finite.")
    size = float(np.ptp(uvs, axis=0).max())
    if size > MAX_TEXTURE_PX or np.abs(uvs).max() > _MAX_UV:
        extent = f"texture coordinates reach {np.abs(uvs).max():.3g} ({size:.3g} repetitions)"
        raise InputError(path, f"{extent}; at most {MAX_TEXTURE_PX} repetitions are allowed.")
    shifted = uvs - np.floor(uvs.min(axis=0))
    repeats = np.ceil(shifted.max(axis=0) - _UV_TOLERANCE).astype(int).clip(1)
    return shifted / repeats, repeats


def apply_vertex_colors(
    raw: RawMesh, vertex_colors: NDArray[np.uint8]
) -> tuple[RawMesh, NDArray[np.uint8]]:
    """Return the mesh with uvs in 0 to 1, and a texture with its vertex colours.

    Each face has four texels, three of them at its corners, so bilinear interpolation equals that of
    the triangle. Faces follow a Z-order curve, so neighbours in the texture are neighbours in space
    and minification keeps the colours.
    """
    order = np.argsort(_compute_z_order(raw.vertices[raw.faces].mean(axis=1)))
    row, column = _spread_bits(np.arange(len(order)))
    side = 1 << int(np.ceil(np.log2(max(row.max(), column.max()) + 1)))
    a, b, c = vertex_colors[raw.faces[order]].swapaxes(0, 1).astype(int)
    texture = np.full((2 * side, 2 * side, 3), GREY[:3], np.uint8)
    for dy, dx, texel in ((0, 0, a), (0, 1, b), (1, 0, c), (1, 1, (b + c - a).clip(0, 255))):
        texture[2 * row + dy, 2 * column + dx] = texel
    corners = np.array([[0.5, 0.5], [1.5, 0.5], [0.5, 1.5]])
    split = split_vertices(raw, np.arange(len(raw.faces)))
    uvs = np.zeros((len(split.vertices), 2))
    uvs[split.faces[order]] = (2 * np.stack([column, row], axis=1)[:, None] + corners) / (2 * side)
    return replace(split, uvs=uvs), texture


def _compute_z_order(points: Floats) -> Indices:
    """Return the Z-order index (n,) of points (n, 3)."""
    low, size = points.min(axis=0), np.ptp(points, axis=0).max()
    cells = ((points - low) / (size or 1) * 1023).astype(np.int64)
    bits = np.arange(10)
    interleaved = ((cells[..., None] >> bits) & 1) << (3 * bits)
    return np.asarray(interleaved.sum(axis=-1) @ np.array([1, 2, 4]))


def _spread_bits(numbers: Indices) -> tuple[Indices, Indices]:
    """Return row and column (n,) of indices along a Z-order curve in a square."""
    bits = np.arange(16)
    row, column = (
        (((numbers[:, None] >> (2 * bits + step)) & 1) << bits).sum(axis=1) for step in (1, 0)
    )
    return row, column


def compute_tangents(vertices: Floats, faces: Indices, normals: Floats, uvs: Floats) -> Floats:
    """Return unit tangents (n, 3), perpendicular to the normals, along increasing u."""
    a, b, c = vertices[faces].swapaxes(0, 1)
    (du, dv), (eu, ev) = ((uvs[faces[:, i]] - uvs[faces[:, 0]]).T for i in (1, 2))
    # direction of increasing u, weighted by the face; the sign follows the texture's orientation
    face_tangents = ((b - a) * ev[:, None] - (c - a) * dv[:, None]) * np.sign(du * ev - eu * dv)[
        :, None
    ]
    tangent_sums = np.zeros_like(vertices)
    np.add.at(tangent_sums, faces.ravel(), np.repeat(face_tangents, 3, axis=0))
    tangent_sums -= normals * (tangent_sums * normals).sum(axis=1, keepdims=True)
    fallback = np.cross(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
    return normalize(tangent_sums, fallback / np.linalg.norm(fallback, axis=1, keepdims=True))
