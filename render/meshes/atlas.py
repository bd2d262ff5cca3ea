"""Texture atlases that contain each side of a body once, and the layout of their texels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.images import SRGB_TO_LINEAR
from sim2cam.objects.board import make_board_print
from sim2cam.objects.card import make_card_prints
from sim2cam.objects.die import (
    compute_die_texels,
    make_die_panels,
    make_die_print_mask,
    render_die_maps,
)
from sim2cam.objects.packages import (
    compute_carton_texels,
    compute_tin_texels,
    make_bare_tin_mask,
    make_carton_panels,
    make_tin_end_panels,
    make_tin_panels,
    render_carton_texture,
    render_sheet_texture,
    render_tin_texture,
)
from sim2cam.objects.twisty import render_twisty_texture
from sim2cam.scene.decal import Decal
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.packages import Sheet, Tin
from sim2cam.scene.shape import Asset, Board, Card
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.finish import (
    PRINT_ROUGHNESS,
    MaterialMaps,
    apply_decals,
    apply_wear,
    compute_relief_slopes,
    has_relief_or_wear,
)
from sim2cam.surfaces.printing import InkPrint
from sim2cam.surfaces.textures import encode_srgb, load_linear_image, make_color_sampler
from sim2cam.surfaces.uv_charts import PlanarTexels

Floats = NDArray[np.float64]
TextureMaps = tuple[NDArray[np.uint8], NDArray[np.uint8] | None]
"""Colours (sRGB) and tangent-space normals, uint8 (h, w, 3), row 0 at v = 0."""
TexelLayout = tuple[tuple[float, float], Floats]
"""Width and height of a texel in metres, and the distance (h, w) to the nearest edge of the body."""


@dataclass(frozen=True)
class AtlasSpec:
    """Functions that make the texture atlas of a kind of asset.

    Attributes:
        render_maps: renders the maps of an unworn body.
        compute_texels: returns the layout of the texels, for wear; None if sides share texels.
        make_panels: returns the sides that take decals; None if sides share texels.
        make_pattern_panels: returns the sides with the relief of the material; None for those of
            ``make_panels``.
        make_print_mask: returns the share (h, w) of each texel that is printed with the label,
            which stays above decals.
    """

    render_maps: Callable[[Any, Texture], TextureMaps]
    compute_texels: Callable[[Any], TexelLayout] | None = None
    make_panels: Callable[[Any], tuple[Panel, ...]] | None = None
    make_pattern_panels: Callable[[Any], tuple[Panel, ...]] | None = None
    make_print_mask: Callable[[Any], Floats] | None = None


def build_atlas_maps(
    asset: Asset, material: Material, decals: Sequence[Decal] = ()
) -> MaterialMaps | None:
    """Return the material maps of a body with an atlas; None for uniform material without relief."""
    is_metal_tin = isinstance(asset, Tin) and material.metallic > 0
    if not (has_relief_or_wear(material) or is_metal_tin or decals):
        return None
    atlas = ATLAS_SPECS[asset.kind]
    colors, normals = atlas.render_maps(asset, material.texture)
    shape = colors.shape[:2]
    print_mask = ~make_bare_tin_mask() if is_metal_tin else np.zeros(shape, bool)
    maps = MaterialMaps(
        SRGB_TO_LINEAR[colors].astype(np.float64),
        np.where(print_mask, PRINT_ROUGHNESS, material.roughness),
        np.where(print_mask, 0.0, material.metallic),
        np.zeros((*shape, 2)) if normals is None else _compute_slopes(normals),
    )
    if atlas.compute_texels is None or atlas.make_panels is None:
        return maps
    panels, slopes = atlas.make_panels(asset), maps.slopes.copy()
    for panel in (atlas.make_pattern_panels or atlas.make_panels)(asset):
        slopes[panel.window] += compute_relief_slopes(material, panel.plane.points, panel.plane)
    maps = replace(maps, slopes=slopes)
    if decals:
        maps = apply_decals(
            maps, decals, panels, atlas.make_print_mask(asset) if atlas.make_print_mask else 0.0
        )
    if material.wear is not None:
        texel_m, edge_m = atlas.compute_texels(asset)
        maps = apply_wear(maps, material.wear, PlanarTexels(edge_m.shape, texel_m), edge_m)
    slopes = maps.slopes.copy()
    for panel in panels:
        if not panel.is_bottom_up:  # the bitangent points up
            slopes[panel.window][..., 1] *= -1
    return replace(maps, slopes=slopes)


def _compute_slopes(normals: NDArray[np.uint8]) -> Floats:
    x, y, z = np.moveaxis(normals / 127.5 - 1.0, -1, 0)
    return np.stack([-x / z, -y / z], axis=-1)


def _render_plate_maps(
    size_m: Vec3, texture: Texture, side_px: int, *sides: InkPrint | ImageFile | None
) -> TextureMaps:
    """Return the maps of a plate, n by n texels per side: front at the left, back at the right."""
    coordinates = (np.arange(side_px) + 0.5) / side_px - 0.5
    base_colors = make_color_sampler(texture)(
        (coordinates * size_m[0], -coordinates[:, None] * size_m[1], np.zeros(1))
    )
    return encode_srgb(
        np.concatenate([_blend_side(base_colors, side) for side in sides], axis=1)
    ), None


def _blend_side(base_colors: Floats, side: InkPrint | ImageFile | None) -> Floats:
    if side is None:
        return base_colors
    if isinstance(side, ImageFile):
        n = len(base_colors)
        return np.asarray(
            cv2.resize(load_linear_image(side, n), (n, n), interpolation=cv2.INTER_AREA)
        )
    return np.asarray(base_colors + side.coverage[..., None] * (np.array(side.ink) - base_colors))


def _compute_plate_texels(size_m: Vec3, side_px: int) -> TexelLayout:
    """Return the texel layout of a plate with n by n texels per side."""
    coordinates = (np.arange(side_px) + 0.5) / side_px
    across, down = (np.minimum(coordinates, 1 - coordinates) * side for side in size_m[:2])
    edge_m = np.minimum(across, down[:, None])
    return (size_m[0] / side_px, size_m[1] / side_px), np.concatenate([edge_m, edge_m], axis=1)


def _make_plate_panels(size_m: Vec3, texels: TexelLayout) -> tuple[Panel, ...]:
    """Return front and back of a plate."""
    n = len(texels[1])
    return tuple(Panel(0, left, (n, n), size_m[:2]) for left in (0, n))


def _make_board_panels(board: Board) -> tuple[Panel, ...]:
    return _make_plate_panels(board.size_m, _compute_board_texels(board))


def _make_card_panels(card: Card) -> tuple[Panel, ...]:
    return _make_plate_panels(card.size_m, _compute_card_texels(card))


def _make_sheet_panels(sheet: Sheet) -> tuple[Panel, ...]:
    return _make_plate_panels(sheet.size_m, _compute_sheet_texels(sheet))


def _render_board_maps(board: Board, texture: Texture) -> TextureMaps:
    front = make_board_print(board)
    return _render_plate_maps(board.size_m, texture, len(front.coverage), front, None)


def _make_board_print_mask(board: Board) -> Floats:
    coverage = make_board_print(board).coverage
    return np.concatenate([coverage, np.zeros_like(coverage)], axis=1)


def _compute_board_texels(board: Board) -> TexelLayout:
    return _compute_plate_texels(board.size_m, len(make_board_print(board).coverage))


def _render_card_maps(card: Card, texture: Texture) -> TextureMaps:
    front, back = make_card_prints(card)
    sides = card.face_image or front, card.back_image or back
    return _render_plate_maps(card.size_m, texture, len(front.coverage), *sides)


def _make_card_print_mask(card: Card) -> Floats:
    """Return the print mask of a card; sides with an image file have none."""
    prints = zip(make_card_prints(card), (card.face_image, card.back_image), strict=True)
    return np.concatenate(
        [side_print.coverage * (file is None) for side_print, file in prints], axis=1
    )


def _compute_card_texels(card: Card) -> TexelLayout:
    return _compute_plate_texels(card.size_m, len(make_card_prints(card)[0].coverage))


def _compute_sheet_texels(sheet: Sheet) -> TexelLayout:
    return _compute_plate_texels(sheet.size_m, len(render_sheet_texture(sheet)))


ATLAS_SPECS: dict[str, AtlasSpec] = {
    "die": AtlasSpec(
        render_die_maps, compute_die_texels, make_die_panels, make_print_mask=make_die_print_mask
    ),
    "board": AtlasSpec(
        _render_board_maps,
        _compute_board_texels,
        _make_board_panels,
        make_print_mask=_make_board_print_mask,
    ),
    "card": AtlasSpec(
        _render_card_maps,
        _compute_card_texels,
        _make_card_panels,
        make_print_mask=_make_card_print_mask,
    ),
    "twisty": AtlasSpec(lambda cube, texture: (render_twisty_texture(cube, texture), None)),
    "tin": AtlasSpec(
        lambda tin, texture: (render_tin_texture(tin, texture), None),
        compute_tin_texels,
        make_tin_panels,
        make_tin_end_panels,
    ),
    "carton": AtlasSpec(
        lambda carton, _: (render_carton_texture(carton), None),
        compute_carton_texels,
        make_carton_panels,
    ),
    "sheet": AtlasSpec(
        lambda sheet, _: (render_sheet_texture(sheet), None),
        _compute_sheet_texels,
        _make_sheet_panels,
    ),
}
"""Atlas of each kind of asset with its own uv layout."""
