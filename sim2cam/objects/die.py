"""Mesh and texture atlas of dice."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.material import Texture
from sim2cam.scene.shape import DIE_FACE_NORMALS, Die, Pips
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Floats = NDArray[np.float64]
Float32Array = NDArray[np.float32]

TILE_PX = 72
_PADDING_PX = 3
_COLUMNS, _ROWS = 3, 2
_TEXEL_SIZE = 2 / (TILE_PX - 2 * _PADDING_PX)  # in units of half an edge

_FACE_VERTICES = 12  # vertices per side of a face
_SHADOW_VERTICES = (0, 1, 2, 4, 7, 9, 10, 11)

_PIP_POSITIONS: dict[str, tuple[tuple[int, int], ...]] = {
    "1": ((0, 0),),
    "2": ((-1, -1), (1, 1)),
    "3": ((-1, -1), (0, 0), (1, 1)),
    "4": ((-1, -1), (-1, 1), (1, -1), (1, 1)),
    "5": ((-1, -1), (-1, 1), (0, 0), (1, -1), (1, 1)),
    "6": ((-1, -1), (-1, 0), (-1, 1), (1, -1), (1, 0), (1, 1)),
}


def build_die_surface(
    die: Die,
) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.int64], NDArray[np.uint32]]:
    """Return the surface of a die.

    Returns:
        vertices_m (n, 3), normals (n, 3), tangents (n, 3), uvs (n, 2), faces (m, 3), and the face
        value (n,) of each vertex.
    """
    rounding = min(die.rounding, 0.49) * 2
    positive = np.array([0.2, 0.5, 0.75, 1 - rounding, 1 - 0.3 * rounding, 1.0])
    coordinates = np.concatenate([-positive, positive])
    u, v = (grid.ravel() for grid in np.meshgrid(np.sort(coordinates), np.sort(coordinates)))
    points, normals, tangents, uvs, values = [], [], [], [], []
    for value, normal in die.get_face_normals().items():
        tangent, bitangent = _compute_face_axes(np.array(normal))
        cube_points = np.array(normal) + u[:, None] * tangent + v[:, None] * bitangent  # (n * n, 3)
        die_points, outward = _round_cube_points(cube_points, die)
        points.append(die_points)
        normals.append(outward)
        tangents.append(np.tile(tangent, (len(u), 1)))
        uvs.append(_compute_atlas_uv(value, u, v))
        values.append(np.full(len(u), int(value), np.uint32))
    return (
        np.vstack(points),
        np.vstack(normals),
        np.vstack(tangents),
        np.vstack(uvs),
        _make_grid_faces(range(len(coordinates))),
        np.concatenate(values),
    )


def build_die_shadow_faces() -> NDArray[np.int64]:
    """Return the reduced set of faces (k, 3) of a die that cast its shadow."""
    return _make_grid_faces(_SHADOW_VERTICES)


def _make_grid_faces(vertex_lines: Sequence[int]) -> NDArray[np.int64]:
    """Return two triangles per cell between selected vertex lines of all six faces."""
    lines = np.array(vertex_lines)
    rows = lines[:, None] * _FACE_VERTICES
    corner, right = rows[:-1] + lines[:-1], rows[:-1] + lines[1:]
    above, across = rows[1:] + lines[:-1], rows[1:] + lines[1:]
    corners = [np.stack(c, axis=-1) for c in ((corner, right, across), (corner, across, above))]
    triangles = np.concatenate([c.reshape(-1, 3) for c in corners])
    first = np.arange(6)[:, None, None] * _FACE_VERTICES**2
    return (triangles + first).reshape(-1, 3).astype(np.int64)


def render_die_maps(die: Die, texture: Texture) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Render the atlases of sRGB colours and tangent-space normals, uint8 (h, w, 3).

    Row 0 is v = 0. The pattern is a solid texture, continuous across edges.
    """
    body = np.zeros((_ROWS * TILE_PX, _COLUMNS * TILE_PX, 3), np.float32)
    coordinates = (np.arange(TILE_PX) + 0.5 - _PADDING_PX) * _TEXEL_SIZE - 1
    color_at, half_edge_m = make_color_sampler(texture), die.edge_m / 2
    for value, normal in die.get_face_normals().items():
        tangent, bitangent = _compute_face_axes(np.array(normal))
        x, y, z = (
            half_edge_m
            * (coordinates * t if t else coordinates[:, None] * b if b else np.array([n]))
            for n, t, b in zip(normal, tangent, bitangent, strict=True)
        )
        left, top = _get_tile_corner(value)
        body[top : top + TILE_PX, left : left + TILE_PX] = color_at((x, y, z))
    coverage, height = _draw_pips(die.pips)
    colors = body + coverage[..., None] * (np.array(die.pips.color, np.float32) - body)
    return encode_srgb(colors), np.round((_compute_normals(height) + 1) * 127.5).astype(np.uint8)


def compute_die_texels(die: Die) -> tuple[tuple[float, float], Floats]:
    """Return width and height of a texel, and the distance (h, w) to the nearest edge, in metres."""
    half_edge_m = die.edge_m / 2
    coordinates = (np.arange(TILE_PX) + 0.5 - _PADDING_PX) * _TEXEL_SIZE - 1
    edge_distance = np.clip(1 - np.abs(coordinates), 0, None) * half_edge_m
    tile = np.minimum(edge_distance, edge_distance[:, None])
    return (_TEXEL_SIZE * half_edge_m,) * 2, np.tile(tile, (_ROWS, _COLUMNS))


def make_die_panels(die: Die) -> tuple[Panel, ...]:
    """Return the panels of the faces, from 1 to 6."""
    panels, side_px = [], TILE_PX - 2 * _PADDING_PX
    for value in DIE_FACE_NORMALS:
        left, top = (corner + _PADDING_PX for corner in _get_tile_corner(value))
        panels.append(
            Panel(top, left, (side_px, side_px), (die.edge_m, die.edge_m), is_bottom_up=True)
        )
    return tuple(panels)


def make_die_print_mask(die: Die) -> Floats:
    """Return the share (h, w) of each texel covered by pips."""
    return _draw_pips(die.pips)[0].astype(np.float64)


def _compute_face_axes(normal: Floats) -> tuple[Floats, Floats]:
    """Return tangent and bitangent of a face, right-handed with its normal."""
    tangent = np.roll(np.abs(normal), 1)
    return tangent, np.cross(normal, tangent)


def _round_cube_points(cube_points: Floats, die: Die) -> tuple[Floats, Floats]:
    """Map points (n, 3) of the cube [-1, 1]^3 to points in metres and normals of the die."""
    rounding = min(die.rounding, 0.49) * 2
    core = np.clip(cube_points, -(1 - rounding), 1 - rounding)
    outward = cube_points - core
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    points = core + rounding * outward
    ball_radius = math.sqrt(3) - (math.sqrt(3) - math.sqrt(2)) * die.corner_cut
    radius = np.linalg.norm(points, axis=1, keepdims=True)
    is_cut = radius > ball_radius
    points = np.where(is_cut, points * ball_radius / radius, points)
    outward = np.where(is_cut, points / ball_radius, outward)
    return points * die.edge_m / 2, outward


def _get_tile_corner(value: str) -> tuple[int, int]:
    row, column = divmod(int(value) - 1, _COLUMNS)
    return column * TILE_PX, row * TILE_PX


def _compute_atlas_uv(value: str, u: Floats, v: Floats) -> Floats:
    left, top = _get_tile_corner(value)
    x = left + _PADDING_PX + (u + 1) / _TEXEL_SIZE
    y = top + _PADDING_PX + (v + 1) / _TEXEL_SIZE
    return np.stack([x / (_COLUMNS * TILE_PX), y / (_ROWS * TILE_PX)], axis=1)


def _draw_pips(pips: Pips) -> tuple[Float32Array, Float32Array]:
    """Return the pip coverage (h, w) of each texel, 0 to 1, and its height in half edges."""
    coverage = np.zeros((_ROWS * TILE_PX, _COLUMNS * TILE_PX), np.float32)
    height = np.zeros_like(coverage)
    for value, positions in _PIP_POSITIONS.items():
        radius, step_x, step_y = (2 * length for length in _compute_pip_layout(pips, value))
        reach_px = math.ceil(radius / _TEXEL_SIZE) + 1
        left, top = (corner + TILE_PX / 2 - 0.5 for corner in _get_tile_corner(value))
        for x, y in positions:
            column, row = left + step_x * x / _TEXEL_SIZE, top + step_y * y / _TEXEL_SIZE
            columns, rows = (
                np.arange(round(c) - reach_px, round(c) + reach_px + 1) for c in (column, row)
            )
            du, dv = (columns - column) * _TEXEL_SIZE, (rows[:, None] - row) * _TEXEL_SIZE
            distance = np.maximum(abs(du), abs(dv)) if pips.shape == "square" else np.hypot(du, dv)
            pip = np.clip((radius - distance) / _TEXEL_SIZE + 0.5, 0, 1)
            if pips.shape == "ring":
                pip *= np.clip((distance - 0.45 * radius) / _TEXEL_SIZE + 0.5, 0, 1)
            window = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            coverage[window] = np.maximum(coverage[window], pip)
            height[window] -= 2 * pips.depth * np.clip(1 - (distance / radius) ** 2, 0, None)
    return coverage, height


def _compute_pip_layout(pips: Pips, value: str) -> tuple[float, float, float]:
    """Return pip radius and offsets of the outer pips, across and along the rows of a six.

    All lengths are relative to the edge.
    """
    match value:
        case "1":
            return pips.radius * pips.ace, 0.0, 0.0
        case "2":
            return pips.radius, pips.spread * pips.two, pips.spread * pips.two
        case "3":
            return pips.radius, pips.spread * pips.three, pips.spread * pips.three
        case "6":
            return pips.radius, pips.spread * pips.rows, pips.spread
    return pips.radius, pips.spread, pips.spread


def _compute_normals(height: Float32Array) -> Float32Array:
    down, right = np.gradient(height, _TEXEL_SIZE)
    normals = np.stack([-right, -down, np.ones_like(height)], axis=-1)
    return np.asarray(normals / np.sqrt(right * right + down * down + 1)[..., None])
