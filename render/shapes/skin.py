"""Skins: the pictures that lie on a body's mesh, and how its uvs address them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.assets.mesh_file import content_of
from sim2cam.render.shapes.boards import board_print
from sim2cam.render.shapes.cards import card_prints
from sim2cam.render.shapes.dice import die_maps
from sim2cam.render.shapes.finish import finish_of
from sim2cam.render.shapes.mesh import extent_of
from sim2cam.render.shapes.printing import Print
from sim2cam.render.shapes.textures import encode_srgb, paint, plane_map
from sim2cam.scene.asset import (
    Asset,
    Block,
    Board,
    Box,
    Card,
    Cylinder,
    Die,
    Ground,
    MeshFile,
    Sphere,
)
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body

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
    texture = body.material.texture
    if isinstance(body.asset, Die):
        return Skin(*die_maps(body.asset, texture), 1.0)
    if isinstance(body.asset, MeshFile):
        colors = content_of(body.asset).colors
        if colors is not None:
            return Skin(colors, None, 1.0)
    if isinstance(body.asset, Board):
        return _printed(body.asset, texture, board_print(body.asset), None)
    if isinstance(body.asset, Card):
        return _printed(body.asset, texture, *card_prints(body.asset))
    span = _span_m(body.asset)
    if has_finish(body.material):
        colors, normals, finish = finish_of(body.material, span).encoded()
        return Skin(colors, normals, 1 / span, 0.5, finish)
    return Skin(plane_map(texture, span), None, 1 / span)


def _printed(asset: Board | Card, texture: Texture, front: Print, back: Print | None) -> Skin:
    """Returns the skin of a plate: its front at the left, its back at the right."""
    n = len(front.cover)
    width, height, _ = asset.size_m
    line = (np.arange(n) + 0.5) / n - 0.5
    bare = paint(texture)((line * width, -line[:, None] * height, np.zeros(1)))
    sides = [_on(bare, front), bare if back is None else _on(bare, back)]
    return Skin(encode_srgb(np.concatenate(sides, axis=1)), None, 1.0)


def _on(bare: NDArray[np.float64], print_: Print) -> NDArray[np.float64]:
    return np.asarray(bare + print_.cover[..., None] * (np.array(print_.ink) - bare))


def _span_m(asset: Asset) -> float:
    """Returns how many metres a plane picture covers."""
    match asset:
        case Die() | Sphere():
            longest = 2 * asset.radius_m if isinstance(asset, Sphere) else asset.edge_m
        case Box() | Block() | Board() | Card():
            longest = max(asset.size_m)
        case Cylinder():
            longest = max(2 * asset.radius_m, asset.height_m)
        case Ground():
            longest = asset.side_m
        case MeshFile():
            low, high = extent_of(asset)
            longest = float(np.subtract(high, low).max())
    return min(longest, _MAX_SPAN_M)
