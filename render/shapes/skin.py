"""Skins: the pictures that lie on a body's mesh, and how its uvs address them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.assets.mesh_file import content_of
from sim2cam.render.shapes.boards import board_print
from sim2cam.render.shapes.cards import card_prints
from sim2cam.render.shapes.dice import die_maps
from sim2cam.render.shapes.finish import finish_of
from sim2cam.render.shapes.mesh import extent_of
from sim2cam.render.shapes.packages import carton_map, sheet_map, tin_map
from sim2cam.render.shapes.printing import Print
from sim2cam.render.shapes.textures import encode_srgb, paint, plane_map
from sim2cam.render.shapes.twisty import twisty_map
from sim2cam.scene.asset import (
    Asset,
    Block,
    Board,
    Box,
    Card,
    Cylinder,
    Ground,
    MeshFile,
    Sphere,
)
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body

Maps = tuple[NDArray[np.uint8], NDArray[np.uint8] | None]
"""Colours and normals."""

_MAX_SPAN_M = 0.48


@dataclass(frozen=True)
class Skin:
    """Pictures of a surface. Row 0 is v = 0; beyond 0..1 they repeat, every second time mirrored.

    Attributes:
        colors: sRGB uint8 (h, w, 3).
        normals: in tangent space, uint8 (h, w, 3); None for a smooth surface.
        turns: what the mesh's uvs are multiplied by.
        shift: what is added then; one that starts amid a body shows no symmetry there.
        finish: roughness and metalness of each texel of the colours, uint8 (h, w, 2); None where the
            material's hold everywhere. With it the slopes of mirrored copies are mirrored, too.
    """

    colors: NDArray[np.uint8]
    normals: NDArray[np.uint8] | None
    turns: float
    shift: float = 0.0
    finish: NDArray[np.uint8] | None = None


def skin_key(body: Body) -> tuple[Asset, Material | Texture]:
    """Returns what a body's skin follows from."""
    material = body.material
    return body.asset, material if has_finish(material) else material.texture


def has_finish(material: Material) -> bool:
    """Returns whether a material has relief or wear."""
    return bool(material.relief) or material.wear is not None


def skin_of(body: Body) -> Skin:
    """Returns the skin of a body."""
    asset, texture = body.asset, body.material.texture
    if asset.kind in _ATLASES:
        return Skin(*_ATLASES[asset.kind](asset, texture), 1.0)
    if isinstance(asset, MeshFile):
        colors = content_of(asset).colors
        if colors is not None:
            return Skin(colors, None, 1.0)
    span = _span_m(asset)
    if has_finish(body.material):
        colors, normals, finish = finish_of(body.material, span).encoded()
        return Skin(colors, normals, 1 / span, 0.5, finish)
    return Skin(plane_map(texture, span), None, 1 / span)


def _printed(
    asset: Board | Card, texture: Texture, front: Print, back: Print | None = None
) -> Maps:
    """Returns the maps of a plate: its front at the left, its back at the right."""
    n = len(front.cover)
    width, height, _ = asset.size_m
    line = (np.arange(n) + 0.5) / n - 0.5
    bare = paint(texture)((line * width, -line[:, None] * height, np.zeros(1)))
    sides = [_on(bare, front), bare if back is None else _on(bare, back)]
    return encode_srgb(np.concatenate(sides, axis=1)), None


def _on(bare: NDArray[np.float64], print_: Print) -> NDArray[np.float64]:
    return np.asarray(bare + print_.cover[..., None] * (np.array(print_.ink) - bare))


def _span_m(asset: Asset) -> float:
    """Returns how many metres a plane picture covers."""
    match asset:
        case Sphere():
            longest = 2 * asset.radius_m
        case Box() | Block():
            longest = max(asset.size_m)
        case Cylinder():
            longest = max(2 * asset.radius_m, asset.height_m)
        case Ground():
            longest = asset.side_m
        case _:
            low, high = extent_of(asset)
            longest = float(np.subtract(high, low).max())
    return min(longest, _MAX_SPAN_M)


_ATLASES: dict[str, Callable[[Any, Texture], Maps]] = {
    "die": die_maps,
    "board": lambda board, texture: _printed(board, texture, board_print(board)),
    "card": lambda card, texture: _printed(card, texture, *card_prints(card)),
    "twisty": lambda cube, texture: (twisty_map(cube, texture), None),
    "tin": lambda tin, texture: (tin_map(tin, texture), None),
    "carton": lambda carton, _: (carton_map(carton), None),
    "sheet": lambda sheet, _: (sheet_map(sheet), None),
}
"""Of assets whose uvs say where in a picture of their own they are, by their ``kind``."""
