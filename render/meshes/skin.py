"""Skins: the pictures that lie on a body's mesh, and how its uvs address them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.finish import file_finish
from sim2cam.assets.mesh import content_of
from sim2cam.render.meshes.atlas import ATLASES, atlas_finish
from sim2cam.render.meshes.mesh import extent_of
from sim2cam.scene.decal import Decal
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import (
    Asset,
    Block,
    Box,
    Cylinder,
    Ground,
    MeshFile,
    Sphere,
)
from sim2cam.surfaces.finish import Finish, finish_of, has_finish
from sim2cam.surfaces.textures import MAX_REPEAT_M, is_photo, photo_size_m, plane_map


@dataclass(frozen=True)
class Skin:
    """Pictures of a surface. Row 0 is v = 0; beyond 0..1 they repeat, every second time mirrored.

    Attributes:
        colors: sRGB uint8 (h, w, 3).
        normals: in tangent space, uint8 (h, w, 3); None for a smooth surface.
        turns: what the mesh's uvs are multiplied by.
        shift: what is added then; a half begins in the middle of the picture, where it shows no symmetry.
        finish: roughness and metalness of each texel of the colours, uint8 (h, w, 2); None where the
            material's hold everywhere. With it the slopes of mirrored copies are mirrored, too.
    """

    colors: NDArray[np.uint8]
    normals: NDArray[np.uint8] | None
    turns: float
    shift: float = 0.0
    finish: NDArray[np.uint8] | None = None


SkinKey = tuple[Asset, Material | Texture, tuple[Decal, ...] | None]


def skin_key(body: Body) -> SkinKey:
    """Returns what a body's skin follows from."""
    material = body.material
    is_metal_tin = body.asset.kind == "tin" and material.metallic > 0
    follows_look = has_finish(material) or is_metal_tin or body.decals
    return body.asset, material if follows_look else material.texture, body.decals


def skin_of(body: Body) -> Skin:
    """Returns the skin of a body."""
    asset, texture = body.asset, body.material.texture
    if asset.kind in ATLASES:
        finish = atlas_finish(asset, body.material, body.decals or ())
        if finish is None:
            return Skin(*ATLASES[asset.kind].maps(asset, texture), 1.0)
        return _finished(finish, 1.0)
    if isinstance(asset, MeshFile):
        picture = content_of(asset).colors
        if picture is not None and has_finish(body.material):
            return _finished(file_finish(asset, body.material), 1.0)
        if picture is not None:
            return Skin(picture, None, 1.0)
    span = _span_m(body)
    if has_finish(body.material) or body.decals:
        top = asset.size_m[:2] if isinstance(asset, Box) else (span / 2, span / 2)
        finish = finish_of(body.material, span, body.decals or (), top if body.decals else None)
        return _finished(finish, 1 / span, 0.5)
    is_whole = isinstance(asset, Ground) and is_photo(texture)
    return Skin(plane_map(texture, span), None, 1 / span, 0.5 if is_whole else 0.0)


def _finished(finish: Finish, turns: float, shift: float = 0.0) -> Skin:
    colors, normals, looks = finish.encoded()
    return Skin(colors, normals, turns, shift, looks)


def _span_m(body: Body) -> float:
    """Returns how many metres a plane picture covers."""
    asset, texture = body.asset, body.material.texture
    match asset:
        case Ground() if is_photo(texture):
            return max(photo_size_m(texture))
        case Box() if body.decals:  # which must not repeat
            return max(asset.size_m)
        case Ground() if body.decals:  # nor these, near by
            return 2 * MAX_REPEAT_M
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
    return min(longest, MAX_REPEAT_M)
