"""Atlases: pictures that hold the sides of a body once each, and where on the body their texels are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.images import LINEAR
from sim2cam.objects.board import board_print
from sim2cam.objects.card import card_prints
from sim2cam.objects.die import die_maps, die_marks, die_panels, die_texels
from sim2cam.objects.packages import (
    bare_texels,
    carton_map,
    carton_panels,
    carton_texels,
    sheet_map,
    tin_ends,
    tin_map,
    tin_panels,
    tin_texels,
)
from sim2cam.objects.twisty import twisty_map
from sim2cam.scene.decal import Decal
from sim2cam.scene.image_file import PictureFile
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.packages import Sheet, Tin
from sim2cam.scene.shape import Asset, Board, Card
from sim2cam.surfaces.decals import Panel
from sim2cam.surfaces.finish import (
    PAPER_ROUGHNESS,
    Finish,
    has_finish,
    relief_slopes,
    with_decals,
    worn,
)
from sim2cam.surfaces.printing import Print
from sim2cam.surfaces.textures import encode_srgb, paint, shrunk_picture
from sim2cam.surfaces.uv_charts import Plane

Floats = NDArray[np.float64]
Maps = tuple[NDArray[np.uint8], NDArray[np.uint8] | None]
"""Colours (sRGB) and normals (in tangent space), uint8 (h, w, 3), row 0 at v = 0."""
Texels = tuple[tuple[float, float], Floats]
"""Width and height of a texel on the body, and how far each (h, w) is from the body's next edge."""


@dataclass(frozen=True)
class Atlas:
    """How bodies of a kind are painted.

    Attributes:
        maps: what a body with a texture looks like when it is new.
        texels: where the texels lie, so that wear can; None where sides share texels.
        panels: the sides that decals can be on; None where sides share texels.
        bare: where the pattern of the material is; on the panels when it is None.
        marks: share (h, w) of each texel from which a body's label is read, and which stays on top
            of decals.
    """

    maps: Callable[[Any, Texture], Maps]
    texels: Callable[[Any], Texels] | None = None
    panels: Callable[[Any], tuple[Panel, ...]] | None = None
    bare: Callable[[Any], tuple[Panel, ...]] | None = None
    marks: Callable[[Any], Floats] | None = None


def atlas_finish(asset: Asset, material: Material, decals: Sequence[Decal] = ()) -> Finish | None:
    """Returns the finish of a body with an atlas; None where the material's look holds everywhere."""
    is_metal_tin = isinstance(asset, Tin) and material.metallic > 0
    if not (has_finish(material) or is_metal_tin or decals):
        return None
    atlas = ATLASES[asset.kind]
    colors, normals = atlas.maps(asset, material.texture)
    shape = colors.shape[:2]
    printed = ~bare_texels() if is_metal_tin else np.zeros(shape, bool)
    new = Finish(
        LINEAR[colors].astype(np.float64),
        np.where(printed, PAPER_ROUGHNESS, material.roughness),
        np.where(printed, 0.0, material.metallic),
        np.zeros((*shape, 2)) if normals is None else _slopes_of(normals),
    )
    if atlas.texels is None or atlas.panels is None:
        return new
    panels, slopes = atlas.panels(asset), new.slopes.copy()
    for panel in (atlas.bare or atlas.panels)(asset):
        slopes[panel.place] += relief_slopes(material, panel.plane.points, panel.plane)
    new = replace(new, slopes=slopes)
    if decals:
        new = with_decals(new, decals, panels, atlas.marks(asset) if atlas.marks else 0.0)
    if material.wear is not None:
        texel_m, edge_m = atlas.texels(asset)
        new = worn(new, material.wear, Plane(edge_m.shape, texel_m), edge_m)
    slopes = new.slopes.copy()
    for panel in panels:
        if not panel.rises:  # as bitangents do
            slopes[panel.place][..., 1] *= -1
    return replace(new, slopes=slopes)


def _slopes_of(normals: NDArray[np.uint8]) -> Floats:
    x, y, z = np.moveaxis(normals / 127.5 - 1.0, -1, 0)
    return np.stack([-x / z, -y / z], axis=-1)


def _plate(size_m: Vec3, texture: Texture, n: int, *sides: Print | PictureFile | None) -> Maps:
    """Returns the maps of a plate of n by n texels a side: its front at the left, then its back."""
    line = (np.arange(n) + 0.5) / n - 0.5
    bare = paint(texture)((line * size_m[0], -line[:, None] * size_m[1], np.zeros(1)))
    return encode_srgb(np.concatenate([_on(bare, side) for side in sides], axis=1)), None


def _on(bare: Floats, side: Print | PictureFile | None) -> Floats:
    if side is None:
        return bare
    if isinstance(side, PictureFile):
        n = len(bare)
        return np.asarray(cv2.resize(shrunk_picture(side, n), (n, n), interpolation=cv2.INTER_AREA))
    return np.asarray(bare + side.cover[..., None] * (np.array(side.ink) - bare))


def _plate_texels(size_m: Vec3, n: int) -> Texels:
    """Returns where the texels of a plate lie, whose sides have n by n each."""
    line = (np.arange(n) + 0.5) / n
    across, down = (np.minimum(line, 1 - line) * side for side in size_m[:2])
    edge_m = np.minimum(across, down[:, None])
    return (size_m[0] / n, size_m[1] / n), np.concatenate([edge_m, edge_m], axis=1)


def _plate_panels(size_m: Vec3, texels: Texels) -> tuple[Panel, ...]:
    """Returns front and back of a plate."""
    n = len(texels[1])
    return tuple(Panel(0, left, (n, n), size_m[:2]) for left in (0, n))


def _board_panels(board: Board) -> tuple[Panel, ...]:
    return _plate_panels(board.size_m, _board_texels(board))


def _card_panels(card: Card) -> tuple[Panel, ...]:
    return _plate_panels(card.size_m, _card_texels(card))


def _sheet_panels(sheet: Sheet) -> tuple[Panel, ...]:
    return _plate_panels(sheet.size_m, _sheet_texels(sheet))


def _board(board: Board, texture: Texture) -> Maps:
    front = board_print(board)
    return _plate(board.size_m, texture, len(front.cover), front, None)


def _board_marks(board: Board) -> Floats:
    cover = board_print(board).cover
    return np.concatenate([cover, np.zeros_like(cover)], axis=1)


def _board_texels(board: Board) -> Texels:
    return _plate_texels(board.size_m, len(board_print(board).cover))


def _card(card: Card, texture: Texture) -> Maps:
    front, back = card_prints(card)
    sides = card.face_picture or front, card.back_picture or back
    return _plate(card.size_m, texture, len(front.cover), *sides)


def _card_marks(card: Card) -> Floats:
    """Returns what is printed on a card; pictures in its place have no ink that could stay on top."""
    prints = zip(card_prints(card), (card.face_picture, card.back_picture), strict=True)
    return np.concatenate([one.cover * (file is None) for one, file in prints], axis=1)


def _card_texels(card: Card) -> Texels:
    return _plate_texels(card.size_m, len(card_prints(card)[0].cover))


def _sheet_texels(sheet: Sheet) -> Texels:
    return _plate_texels(sheet.size_m, len(sheet_map(sheet)))


ATLASES: dict[str, Atlas] = {
    "die": Atlas(die_maps, die_texels, die_panels, marks=die_marks),
    "board": Atlas(_board, _board_texels, _board_panels, marks=_board_marks),
    "card": Atlas(_card, _card_texels, _card_panels, marks=_card_marks),
    "twisty": Atlas(lambda cube, texture: (twisty_map(cube, texture), None)),
    "tin": Atlas(
        lambda tin, texture: (tin_map(tin, texture), None), tin_texels, tin_panels, tin_ends
    ),
    "carton": Atlas(lambda carton, _: (carton_map(carton), None), carton_texels, carton_panels),
    "sheet": Atlas(lambda sheet, _: (sheet_map(sheet), None), _sheet_texels, _sheet_panels),
}
"""Of assets whose uvs say where in a picture of their own they are, by their ``kind``."""
