"""Meshes and texture atlases of tins, cartons and sheets."""

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
_LABEL_HEIGHT_FRACTION = 0.75  # of the height of a tin's texture; bare metal is below
_WIDTH, _HEIGHT, _TILE = (
    1024,
    512,
    256,
)  # texels; powers of two, so that mipmaps stay aligned
_FRONT_WIDTH = 320  # of each of the two fronts of a tin's label; small print is between them
_TILE_MARGIN = 2 / _TILE  # of a tile, which mipmaps may blend with neighbours
_CARTON_ROUNDING = 0.01
_END_FRACTION = 0.9  # width of an end over the bare part of a tin's texture

_SIDE_AXES: tuple[tuple[tuple[int, int, int], tuple[int, int, int]], ...] = (
    ((0, -1, 0), (0, 0, -1)),
    ((0, 1, 0), (0, 0, -1)),
    ((1, 0, 0), (0, 0, -1)),
    ((-1, 0, 0), (0, 0, -1)),
    ((1, 0, 0), (0, 1, 0)),
    ((1, 0, 0), (0, -1, 0)),
)
"""Directions right and down on each side of a carton (-x, +x, -y, ...), viewed from outside."""


def build_tin_mesh(tin: Tin) -> Mesh:
    """Return the mesh of a tin; its parts are lower end, upper end and side."""
    radius, top = tin.radius_m, tin.height_m / 2
    rim_m = min(_RIM_FRACTION * radius, 0.1 * tin.height_m)
    inner_m, sunk_z_m = radius - 2 * rim_m, top - rim_m
    upper_parts = [
        build_frustum((radius, radius - rim_m), (top - rim_m, top)),
        build_frustum((radius - rim_m, inner_m), (top, top)),
        build_frustum((inner_m, inner_m - rim_m / 2), (top, sunk_z_m)),
        build_disc(inner_m - rim_m / 2, sunk_z_m, 1),
    ]
    upper_end = [_map_tin_end_uvs(tin, mesh) for mesh in upper_parts]
    side = build_frustum((radius, radius), (rim_m - top, top - rim_m))
    side_uvs = np.column_stack(
        [
            side.uvs[:, 0] / (2 * math.pi * radius),
            _LABEL_HEIGHT_FRACTION * (0.5 - side.uvs[:, 1] / (2 * (top - rim_m))),
        ]
    )
    lower_end = [_flip_mesh(mesh) for mesh in upper_end]
    joined = join_meshes([*lower_end, *upper_end, replace(side, uvs=side_uvs)])
    counts = [sum(len(mesh.parts) for mesh in meshes) for meshes in (lower_end, upper_end, [side])]
    return replace(joined, parts=np.repeat(np.arange(1, 4, dtype=np.uint32), counts))


def build_carton_mesh(carton: Carton) -> Mesh:
    """Return the mesh of a carton; its parts are the sides (-x, +x, -y, ...)."""
    box = build_rounded_box(carton.size_m, _CARTON_ROUNDING)
    uvs, tangents = np.zeros_like(box.uvs), np.zeros_like(box.tangents)
    for side, axes in enumerate(_SIDE_AXES):
        mask = box.parts == side + 1
        lengths = [float(np.abs(axis) @ carton.size_m) for axis in axes]
        tile_uvs = np.array(axes) @ box.vertices_m[mask].T / np.array(lengths)[:, None] + 0.5
        tile = np.array(divmod(side, _WIDTH // _TILE))[::-1]
        padded_uvs = _TILE_MARGIN + (1 - 2 * _TILE_MARGIN) * tile_uvs.T
        uvs[mask] = (tile + padded_uvs) * [_TILE / _WIDTH, _TILE / _HEIGHT]
        tangents[mask] = axes[0]
    return replace(box, uvs=uvs, tangents=tangents)


def render_tin_texture(tin: Tin, texture: Texture) -> NDArray[np.uint8]:
    """Render the texture of a tin, sRGB (h, w, 3): the label, and bare metal below."""
    label_height, front_width = round(_LABEL_HEIGHT_FRACTION * _HEIGHT), _FRONT_WIDTH
    print_width = _WIDTH // 2 - front_width
    texel = 2 * math.pi * tin.radius_m / _WIDTH / tin.height_m  # over the height of the label
    panels = [
        render_front_panel(tin.label, front_width * texel),
        render_small_print_panel(tin.label, print_width * texel),
    ]
    label_tiles = [
        _resize(panel, width, label_height)
        for panel, width in zip(panels, (front_width, print_width), strict=True)
    ] * 2
    coordinates = (
        (np.arange(_HEIGHT - label_height) + 0.5) / (_HEIGHT - label_height) * 2 * tin.radius_m
    )
    bare = np.resize(
        make_color_sampler(texture)((coordinates, coordinates[:, None], np.zeros(1))),
        (len(coordinates), len(coordinates), 3),
    )
    bare_row = np.concatenate([bare] * (_WIDTH // len(coordinates)), axis=1)
    return encode_srgb(np.concatenate([np.concatenate(label_tiles, axis=1), bare_row]))


def make_bare_tin_mask() -> NDArray[np.bool_]:
    """Return the mask (h, w) of texels of a tin outside the label."""
    return np.repeat(np.arange(_HEIGHT) >= round(_LABEL_HEIGHT_FRACTION * _HEIGHT), _WIDTH).reshape(
        _HEIGHT, _WIDTH
    )


def compute_tin_texels(tin: Tin) -> tuple[tuple[float, float], Floats]:
    """Return width and height of a texel of the label, and the distance (h, w) to its end.

    Bare texels are at infinite distance.
    """
    label_height = round(_LABEL_HEIGHT_FRACTION * _HEIGHT)
    height_fraction = (np.arange(_HEIGHT) + 0.5) / label_height
    edge_distance_m = np.where(
        height_fraction < 1, np.minimum(height_fraction, 1 - height_fraction) * tin.height_m, np.inf
    )
    texel = (2 * math.pi * tin.radius_m / _WIDTH, tin.height_m / label_height)
    return texel, np.repeat(edge_distance_m[:, None], _WIDTH, axis=1)


def make_tin_panels(tin: Tin) -> tuple[Panel, ...]:
    """Return the panel of the label around a tin."""
    size_m = 2 * math.pi * tin.radius_m, tin.height_m
    return (Panel(0, 0, (round(_LABEL_HEIGHT_FRACTION * _HEIGHT), _WIDTH), size_m),)


def make_tin_end_panels(tin: Tin) -> tuple[Panel, ...]:
    """Return the panel of the texture shared by both ends."""
    top = round(_LABEL_HEIGHT_FRACTION * _HEIGHT)
    n, side_m = _HEIGHT - top, 2 * tin.radius_m / _END_FRACTION
    return (Panel(top, 0, (n, n), (side_m, side_m), is_bottom_up=True),)


def compute_carton_texels(carton: Carton) -> tuple[tuple[float, float], Floats]:
    """Return mean width and height of a texel, and the distance (h, w) to the nearest edge."""
    coordinates = ((np.arange(_TILE) + 0.5) / _TILE - _TILE_MARGIN) / (1 - 2 * _TILE_MARGIN)
    edge_distance = np.clip(np.minimum(coordinates, 1 - coordinates), 0, None)
    sides = [[float(np.abs(axis) @ carton.size_m) for axis in axes] for axes in _SIDE_AXES]
    tiles = [
        np.minimum(edge_distance * width, edge_distance[:, None] * height)
        for width, height in sides
    ]
    tiles += [np.full((_TILE, _TILE), np.inf)] * 2
    rows = [np.concatenate(row, axis=1) for row in (tiles[:4], tiles[4:])]
    width, height = np.mean(sides, axis=0) / _TILE
    return (float(width), float(height)), np.concatenate(rows)


def make_carton_panels(carton: Carton) -> tuple[Panel, ...]:
    """Return the panels of the sides (-x, +x, -y, ...)."""
    margin_px = round(_TILE_MARGIN * _TILE)
    panels, shape = [], (_TILE - 2 * margin_px, _TILE - 2 * margin_px)
    for side, axes in enumerate(_SIDE_AXES):
        row, column = divmod(side, _WIDTH // _TILE)
        width, height = (float(np.abs(axis) @ carton.size_m) for axis in axes)
        panels.append(
            Panel(row * _TILE + margin_px, column * _TILE + margin_px, shape, (width, height))
        )
    return tuple(panels)


def render_carton_texture(carton: Carton) -> NDArray[np.uint8]:
    """Render the texture of a carton, sRGB (h, w, 3): one tile per side."""
    x, y, z = carton.size_m
    label = carton.label
    front, small_print = render_front_panel(label, x / z), render_small_print_panel(label, y / z)
    name = render_name_panel(label, x / y)
    tiles = [
        _resize(side, _TILE, _TILE) for side in (small_print, small_print, front, front, name, name)
    ]
    bare = [np.ones((_TILE, _TILE, 3)) * label.background_color] * 2
    rows = [np.concatenate(tiles[:4], axis=1), np.concatenate([*tiles[4:], *bare], axis=1)]
    return encode_srgb(np.concatenate(rows))


def render_sheet_texture(sheet: Sheet) -> NDArray[np.uint8]:
    """Render the texture of a sheet, sRGB (h, w, 3): front at the left, back at the right."""
    width, height, _ = sheet.size_m
    pages = [render_page(sheet.label, width / height, page_index) for page_index in range(2)]
    return encode_srgb(np.concatenate([_resize(page, _HEIGHT, _HEIGHT) for page in pages], axis=1))


def _resize(panel: Floats, width: int, height: int) -> Floats:
    return np.asarray(cv2.resize(panel, (width, height), interpolation=cv2.INTER_AREA))


def _map_tin_end_uvs(tin: Tin, end: Mesh) -> Mesh:
    """Return a part of an end with uvs in the lower left of the texture, viewed from above."""
    position = (end.vertices_m[:, :2] / tin.radius_m + 1) / 2
    v = _LABEL_HEIGHT_FRACTION + (1 - _LABEL_HEIGHT_FRACTION) * (
        0.05 + _END_FRACTION * position[:, 1]
    )
    return replace(
        end,
        uvs=np.column_stack(
            [(1 - _LABEL_HEIGHT_FRACTION) / 2 * (0.05 + _END_FRACTION * position[:, 0]), v]
        ),
    )


def _flip_mesh(end: Mesh) -> Mesh:
    """Return a part rotated by half a turn about x."""
    flip = np.array([1.0, -1.0, -1.0])
    return replace(
        end,
        vertices_m=end.vertices_m * flip,
        normals=end.normals * flip,
        tangents=end.tangents * flip,
    )
