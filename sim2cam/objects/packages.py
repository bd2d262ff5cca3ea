"""Tins, cartons, sheets: their surfaces, and the pictures that are wrapped around them."""

from __future__ import annotations

import math
from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.objects.block import build_rounded_box
from sim2cam.objects.package_print import (
    render_front_panel,
    render_name_panel,
    render_page,
    render_small_print_panel,
)
from sim2cam.scene.material import Texture
from sim2cam.scene.packages import Carton, Sheet, Tin
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.lathe import build_disc, build_frustum
from sim2cam.surfaces.mesh import Mesh, join_meshes
from sim2cam.surfaces.textures import encode_srgb, make_color_sampler

Floats = NDArray[np.float64]

_RIM_FRACTION = 0.06  # of a tin's radius
_LABEL_HEIGHT_FRACTION = 0.75  # of the height of a tin's picture; what is bare lies below it
_WIDTH, _HEIGHT, _TILE = (
    1024,
    512,
    256,
)  # texels; powers of two, so that smaller copies stay in place
_FRONT_WIDTH = 320  # of a tin's label, twice; small print and bar code lie between
_TILE_MARGIN = 2 / _TILE  # of a tile that smaller copies of the picture may mix with its neighbours
_CARTON_ROUNDING = 0.01
_END_FRACTION = 0.9  # of what is bare in a tin's picture: an end is so wide there

_SIDE_AXES: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((0, -1, 0), (0, 0, -1)),
    ((0, 1, 0), (0, 0, -1)),
    ((1, 0, 0), (0, 0, -1)),
    ((-1, 0, 0), (0, 0, -1)),
    ((1, 0, 0), (0, 1, 0)),
    ((1, 0, 0), (0, -1, 0)),
)
"""Right and down on each side of a carton (-x, +x, -y, ...) as it is seen from outside."""


def build_tin_mesh(tin: Tin) -> Mesh:
    """Return the surface of a tin; its parts are the lower, the upper end and the side."""
    radius, top = tin.radius_m, tin.height_m / 2
    rim = min(_RIM_FRACTION * radius, 0.1 * tin.height_m)
    inner, sunk = radius - 2 * rim, top - rim
    upper = [
        build_frustum((radius, radius - rim), (top - rim, top)),
        build_frustum((radius - rim, inner), (top, top)),
        build_frustum((inner, inner - rim / 2), (top, sunk)),
        build_disc(inner - rim / 2, sunk, 1),
    ]
    bare = [_map_tin_end_uvs(tin, one) for one in upper]
    side = build_frustum((radius, radius), (rim - top, top - rim))
    around = np.column_stack(
        [
            side.uvs[:, 0] / (2 * math.pi * radius),
            _LABEL_HEIGHT_FRACTION * (0.5 - side.uvs[:, 1] / (2 * (top - rim))),
        ]
    )
    lower = [_flip_mesh(one) for one in bare]
    whole = join_meshes([*lower, *bare, replace(side, uvs=around)])
    counts = [sum(len(one.parts) for one in pieces) for pieces in (lower, bare, [side])]
    return replace(whole, parts=np.repeat(np.arange(1, 4, dtype=np.uint32), counts))


def build_carton_mesh(carton: Carton) -> Mesh:
    """Return the surface of a carton; its parts are its sides (-x, +x, -y, ...)."""
    box = build_rounded_box(carton.size_m, _CARTON_ROUNDING)
    uvs, tangents = np.zeros_like(box.uvs), np.zeros_like(box.tangents)
    for side, ways in enumerate(_SIDE_AXES):
        on_it = box.parts == side + 1
        lengths = [float(np.abs(way) @ carton.size_m) for way in ways]
        within = np.array(ways) @ box.vertices_m[on_it].T / np.array(lengths)[:, None] + 0.5
        tile = np.array(divmod(side, _WIDTH // _TILE))[::-1]
        inner = _TILE_MARGIN + (1 - 2 * _TILE_MARGIN) * within.T
        uvs[on_it] = (tile + inner) * [_TILE / _WIDTH, _TILE / _HEIGHT]
        tangents[on_it] = ways[0]
    return replace(box, uvs=uvs, tangents=tangents)


def render_tin_texture(tin: Tin, texture: Texture) -> NDArray[np.uint8]:
    """Return the picture of a tin, sRGB (h, w, 3): its label, and below it what is bare."""
    high, wide = round(_LABEL_HEIGHT_FRACTION * _HEIGHT), _FRONT_WIDTH
    rest = _WIDTH // 2 - wide
    texel = 2 * math.pi * tin.radius_m / _WIDTH / tin.height_m  # over the height of the label
    panels = [
        render_front_panel(tin.label, wide * texel),
        render_small_print_panel(tin.label, rest * texel),
    ]
    around = [_resize(panel, w, high) for panel, w in zip(panels, (wide, rest), strict=True)] * 2
    line = (np.arange(_HEIGHT - high) + 0.5) / (_HEIGHT - high) * 2 * tin.radius_m
    bare = np.resize(
        make_color_sampler(texture)((line, line[:, None], np.zeros(1))), (len(line), len(line), 3)
    )
    below = np.concatenate([bare] * (_WIDTH // len(line)), axis=1)
    return encode_srgb(np.concatenate([np.concatenate(around, axis=1), below]))


def make_bare_tin_mask() -> NDArray[np.bool_]:
    """Return which texels (h, w) of a tin's picture show no label."""
    return np.repeat(np.arange(_HEIGHT) >= round(_LABEL_HEIGHT_FRACTION * _HEIGHT), _WIDTH).reshape(
        _HEIGHT, _WIDTH
    )


def compute_tin_texels(tin: Tin) -> tuple[tuple[float, float], Floats]:
    """Return a texel's width and height on a tin's label, and how far each (h, w) is from its end.

    What is bare has no edge.
    """
    high = round(_LABEL_HEIGHT_FRACTION * _HEIGHT)
    line = (np.arange(_HEIGHT) + 0.5) / high
    away = np.where(line < 1, np.minimum(line, 1 - line) * tin.height_m, np.inf)
    texel = (2 * math.pi * tin.radius_m / _WIDTH, tin.height_m / high)
    return texel, np.repeat(away[:, None], _WIDTH, axis=1)


def make_tin_panels(tin: Tin) -> tuple[Panel, ...]:
    """Return what is around a tin."""
    around = 2 * math.pi * tin.radius_m, tin.height_m
    return (Panel(0, 0, (round(_LABEL_HEIGHT_FRACTION * _HEIGHT), _WIDTH), around),)


def make_tin_end_panels(tin: Tin) -> tuple[Panel, ...]:
    """Return the piece of a tin's picture that both ends show."""
    top = round(_LABEL_HEIGHT_FRACTION * _HEIGHT)
    n, wide = _HEIGHT - top, 2 * tin.radius_m / _END_FRACTION
    return (Panel(top, 0, (n, n), (wide, wide), is_bottom_up=True),)


def compute_carton_texels(carton: Carton) -> tuple[tuple[float, float], Floats]:
    """Return a texel's mean width and height on a carton, and how far each (h, w) is from an edge."""
    line = ((np.arange(_TILE) + 0.5) / _TILE - _TILE_MARGIN) / (1 - 2 * _TILE_MARGIN)
    inward = np.clip(np.minimum(line, 1 - line), 0, None)
    sides = [[float(np.abs(way) @ carton.size_m) for way in ways] for ways in _SIDE_AXES]
    tiles = [np.minimum(inward * wide, inward[:, None] * high) for wide, high in sides]
    tiles += [np.full((_TILE, _TILE), np.inf)] * 2
    rows = [np.concatenate(row, axis=1) for row in (tiles[:4], tiles[4:])]
    wide, high = np.mean(sides, axis=0) / _TILE
    return (float(wide), float(high)), np.concatenate(rows)


def make_carton_panels(carton: Carton) -> tuple[Panel, ...]:
    """Return the sides of a carton (-x, +x, -y, ...)."""
    edge = round(_TILE_MARGIN * _TILE)
    found, inner = [], (_TILE - 2 * edge, _TILE - 2 * edge)
    for side, ways in enumerate(_SIDE_AXES):
        row, column = divmod(side, _WIDTH // _TILE)
        wide, high = (float(np.abs(way) @ carton.size_m) for way in ways)
        found.append(Panel(row * _TILE + edge, column * _TILE + edge, inner, (wide, high)))
    return tuple(found)


def render_carton_texture(carton: Carton) -> NDArray[np.uint8]:
    """Return the picture of a carton, sRGB (h, w, 3): a tile for each side."""
    x, y, z = carton.size_m
    label = carton.label
    front, small = render_front_panel(label, x / z), render_small_print_panel(label, y / z)
    name = render_name_panel(label, x / y)
    tiles = [_resize(side, _TILE, _TILE) for side in (small, small, front, front, name, name)]
    bare = [np.ones((_TILE, _TILE, 3)) * label.background_color] * 2
    rows = [np.concatenate(tiles[:4], axis=1), np.concatenate([*tiles[4:], *bare], axis=1)]
    return encode_srgb(np.concatenate(rows))


def render_sheet_texture(sheet: Sheet) -> NDArray[np.uint8]:
    """Return the picture of a sheet, sRGB (h, w, 3): its front at the left, its back at the right."""
    width, height, _ = sheet.size_m
    pages = [render_page(sheet.label, width / height, number) for number in range(2)]
    return encode_srgb(np.concatenate([_resize(p, _HEIGHT, _HEIGHT) for p in pages], axis=1))


def _resize(panel: Floats, width: int, height: int) -> Floats:
    return np.asarray(cv2.resize(panel, (width, height), interpolation=cv2.INTER_AREA))


def _map_tin_end_uvs(tin: Tin, end: Mesh) -> Mesh:
    """Return a piece of an end with uvs in the lower left of the picture, as it is seen from above."""
    share = (end.vertices_m[:, :2] / tin.radius_m + 1) / 2
    down = _LABEL_HEIGHT_FRACTION + (1 - _LABEL_HEIGHT_FRACTION) * (
        0.05 + _END_FRACTION * share[:, 1]
    )
    return replace(
        end,
        uvs=np.column_stack(
            [(1 - _LABEL_HEIGHT_FRACTION) / 2 * (0.05 + _END_FRACTION * share[:, 0]), down]
        ),
    )


def _flip_mesh(end: Mesh) -> Mesh:
    """Return a piece after half a turn about x."""
    turn = np.array([1.0, -1.0, -1.0])
    return replace(
        end,
        vertices_m=end.vertices_m * turn,
        normals=end.normals * turn,
        tangents=end.tangents * turn,
    )
