"""Skins: the pictures that lie on a body's mesh, and how its uvs address them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.assets.mesh_file import content_of
from sim2cam.render.shapes.atlas import ATLASES, atlas_finish
from sim2cam.render.shapes.finish import finish_of
from sim2cam.render.shapes.mesh import extent_of
from sim2cam.render.shapes.textures import plane_map
from sim2cam.scene.asset import (
    Asset,
    Block,
    Box,
    Cylinder,
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
    follows_look = has_finish(material) or (body.asset.kind == "tin" and material.metallic > 0)
    return body.asset, material if follows_look else material.texture


def has_finish(material: Material) -> bool:
    """Returns whether a material has relief or wear."""
    return bool(material.relief) or material.wear is not None


def skin_of(body: Body) -> Skin:
    """Returns the skin of a body."""
    asset, texture = body.asset, body.material.texture
    if asset.kind in ATLASES:
        finish = atlas_finish(asset, body.material)
        if finish is None:
            return Skin(*ATLASES[asset.kind].maps(asset, texture), 1.0)
        colors, normals, looks = finish.encoded()
        return Skin(colors, normals, 1.0, finish=looks)
    if isinstance(asset, MeshFile):
        picture = content_of(asset).colors
        if picture is not None:
            return Skin(picture, None, 1.0)
    span = _span_m(asset)
    if has_finish(body.material):
        colors, normals, looks = finish_of(body.material, span).encoded()
        return Skin(colors, normals, 1 / span, 0.5, looks)
    return Skin(plane_map(texture, span), None, 1 / span)


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
