"""Dice: a rounded cube, its marks, and the atlas that holds its six faces."""

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
_TEXEL_SIZE = 2 / (TILE_PX - 2 * _PADDING_PX)  # of half an edge

_FACE_VERTICES = 12  # of vertices on a face, both ways
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

    That is vertices_m (n, 3), normals (n, 3), tangents (n, 3), uvs (n, 2), faces (m, 3) and the
    value of the face (n,) on which each vertex lies.
    """
    bend = min(die.rounding, 0.49) * 2
    half = np.array([0.2, 0.5, 0.75, 1 - bend, 1 - 0.3 * bend, 1.0])
    line = np.concatenate([-half, half])
    u, v = (g.ravel() for g in np.meshgrid(np.sort(line), np.sort(line)))
    points, normals, tangents, uvs, values = [], [], [], [], []
    for value, normal in die.get_face_normals().items():
        tangent, bitangent = _compute_face_axes(np.array(normal))
        cube = np.array(normal) + u[:, None] * tangent + v[:, None] * bitangent  # (n * n, 3)
        on_die, outward = _round_cube_points(cube, die)
        points.append(on_die)
        normals.append(outward)
        tangents.append(np.tile(tangent, (len(u), 1)))
        uvs.append(_compute_atlas_uv(value, u, v))
        values.append(np.full(len(u), int(value), np.uint32))
    return (
        np.vstack(points),
        np.vstack(normals),
        np.vstack(tangents),
        np.vstack(uvs),
        _make_grid_faces(range(len(line))),
        np.concatenate(values),
    )


def build_die_shadow_faces() -> NDArray[np.int64]:
    """Return the fewer faces (k, 3) of any die's surface that cast its shadow."""
    return _make_grid_faces(_SHADOW_VERTICES)


def _make_grid_faces(vertex_lines: Sequence[int]) -> NDArray[np.int64]:
    """Return two triangles for each cell between some of the lines of all six faces."""
    at = np.array(vertex_lines)
    rows = at[:, None] * _FACE_VERTICES
    low, right = rows[:-1] + at[:-1], rows[:-1] + at[1:]
    above, across = rows[1:] + at[:-1], rows[1:] + at[1:]
    corners = [np.stack(c, axis=-1) for c in ((low, right, across), (low, across, above))]
    one = np.concatenate([c.reshape(-1, 3) for c in corners])
    first = np.arange(6)[:, None, None] * _FACE_VERTICES**2
    return (one + first).reshape(-1, 3).astype(np.int64)


def render_die_maps(die: Die, texture: Texture) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the atlas of colours (sRGB) and that of normals in tangent space, uint8 (h, w, 3).

    Row 0 is v = 0. The pattern is solid: it runs on over the edges.
    """
    body = np.zeros((_ROWS * TILE_PX, _COLUMNS * TILE_PX, 3), np.float32)
    line = (np.arange(TILE_PX) + 0.5 - _PADDING_PX) * _TEXEL_SIZE - 1
    color_at, half = make_color_sampler(texture), die.edge_m / 2
    for value, normal in die.get_face_normals().items():
        tangent, bitangent = _compute_face_axes(np.array(normal))
        x, y, z = (
            half * (line * t if t else line[:, None] * b if b else np.array([n]))
            for n, t, b in zip(normal, tangent, bitangent, strict=True)
        )
        left, top = _get_tile_corner(value)
        body[top : top + TILE_PX, left : left + TILE_PX] = color_at((x, y, z))
    cover, height = _draw_pips(die.pips)
    colors = body + cover[..., None] * (np.array(die.pips.color, np.float32) - body)
    return encode_srgb(colors), np.round((_compute_normals(height) + 1) * 127.5).astype(np.uint8)


def compute_die_texels(die: Die) -> tuple[tuple[float, float], Floats]:
    """Return a texel's width and height on a die, and how far each (h, w) is from an edge, metres."""
    half = die.edge_m / 2
    line = (np.arange(TILE_PX) + 0.5 - _PADDING_PX) * _TEXEL_SIZE - 1
    inward = np.clip(1 - np.abs(line), 0, None) * half
    tile = np.minimum(inward, inward[:, None])
    return (_TEXEL_SIZE * half,) * 2, np.tile(tile, (_ROWS, _COLUMNS))


def make_die_panels(die: Die) -> tuple[Panel, ...]:
    """Return the faces of a die, from 1 to 6."""
    found, inner = [], TILE_PX - 2 * _PADDING_PX
    for value in DIE_FACE_NORMALS:
        left, top = (corner + _PADDING_PX for corner in _get_tile_corner(value))
        found.append(Panel(top, left, (inner, inner), (die.edge_m, die.edge_m), is_bottom_up=True))
    return tuple(found)


def make_die_print_mask(die: Die) -> Floats:
    """Return how much of each texel (h, w) of the atlas is mark."""
    return _draw_pips(die.pips)[0].astype(np.float64)


def _compute_face_axes(normal: Floats) -> tuple[Floats, Floats]:
    """Return two axes in the face that make a right-handed frame with its normal."""
    tangent = np.roll(np.abs(normal), 1)
    return tangent, np.cross(normal, tangent)


def _round_cube_points(cube_points: Floats, die: Die) -> tuple[Floats, Floats]:
    """Return points (metres) and normals of the die below points (n, 3) of the cube [-1, 1]^3."""
    bend = min(die.rounding, 0.49) * 2
    core = np.clip(cube_points, -(1 - bend), 1 - bend)
    outward = cube_points - core
    outward /= np.linalg.norm(outward, axis=1, keepdims=True)
    points = core + bend * outward
    ball = math.sqrt(3) - (math.sqrt(3) - math.sqrt(2)) * die.corner_cut
    reach = np.linalg.norm(points, axis=1, keepdims=True)
    cut = reach > ball
    points = np.where(cut, points * ball / reach, points)
    outward = np.where(cut, points / ball, outward)
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
    """Return how much of each texel (h, w) of the atlas is mark, 0 to 1, and its height.

    Heights are over half an edge.
    """
    cover = np.zeros((_ROWS * TILE_PX, _COLUMNS * TILE_PX), np.float32)
    height = np.zeros_like(cover)
    for value, spots in _PIP_POSITIONS.items():
        radius, across, along = (2 * length for length in _compute_pip_layout(pips, value))
        reach = math.ceil(radius / _TEXEL_SIZE) + 1
        left, top = (corner + TILE_PX / 2 - 0.5 for corner in _get_tile_corner(value))
        for x, y in spots:
            column, row = left + across * x / _TEXEL_SIZE, top + along * y / _TEXEL_SIZE
            columns, rows = (
                np.arange(round(c) - reach, round(c) + reach + 1) for c in (column, row)
            )
            du, dv = (columns - column) * _TEXEL_SIZE, (rows[:, None] - row) * _TEXEL_SIZE
            away = np.maximum(abs(du), abs(dv)) if pips.shape == "square" else np.hypot(du, dv)
            disc = np.clip((radius - away) / _TEXEL_SIZE + 0.5, 0, 1)
            if pips.shape == "ring":
                disc *= np.clip((away - 0.45 * radius) / _TEXEL_SIZE + 0.5, 0, 1)
            window = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            cover[window] = np.maximum(cover[window], disc)
            height[window] -= 2 * pips.depth * np.clip(1 - (away / radius) ** 2, 0, None)
    return cover, height


def _compute_pip_layout(pips: Pips, value: str) -> tuple[float, float, float]:
    """Return the radius of a face's marks and how far its outer ones are from its middle, across and
    along the rows of a six; over the edge.
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
