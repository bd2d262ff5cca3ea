"""Texture sets of bodies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.finish import compute_file_maps
from sim2cam.assets.mesh import load_content
from sim2cam.render.meshes.atlas import ATLAS_SPECS, build_atlas_maps
from sim2cam.render.meshes.mesh import compute_extent
from sim2cam.scene.decal import Decal
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import (
    Asset,
    Block,
    Cuboid,
    Cylinder,
    Ground,
    MeshFile,
    Sphere,
)
from sim2cam.surfaces.finish import MaterialMaps, build_material_maps, has_relief_or_wear
from sim2cam.surfaces.textures import MAX_REPEAT_M, get_photo_size_m, is_photo, render_plane_texture


@dataclass(frozen=True)
class TextureSet:
    """Textures of a surface. Row 0 is v = 0; beyond 0..1 they repeat mirrored.

    Attributes:
        colors: sRGB uint8 (h, w, 3).
        normals: tangent-space normals, uint8 (h, w, 3); None for a smooth surface.
        uv_scale: factor of the mesh's uvs.
        uv_offset: offset added to scaled uvs; 0.5 keeps the mirror lines away from the centre.
        roughness_metallic: roughness and metalness per texel, uint8 (h, w, 2); None for a uniform
            material. With it, normals of mirrored copies are mirrored, too.
    """

    colors: NDArray[np.uint8]
    normals: NDArray[np.uint8] | None
    uv_scale: float
    uv_offset: float = 0.0
    roughness_metallic: NDArray[np.uint8] | None = None


TextureSetKey = tuple[Asset, Material | Texture, tuple[Decal, ...] | None]


def make_texture_set_key(body: Body) -> TextureSetKey:
    """Return the cache key of a body's textures."""
    material = body.material
    is_metal_tin = body.asset.kind == "tin" and material.metallic > 0
    needs_material = has_relief_or_wear(material) or is_metal_tin or body.decals
    return body.asset, material if needs_material else material.texture, body.decals


def build_texture_set(body: Body) -> TextureSet:
    """Return the textures of a body."""
    asset, texture = body.asset, body.material.texture
    if asset.kind in ATLAS_SPECS:
        maps = build_atlas_maps(asset, body.material, body.decals or ())
        if maps is None:
            return TextureSet(*ATLAS_SPECS[asset.kind].render_maps(asset, texture), 1.0)
        return _encode_texture_set(maps, 1.0)
    if isinstance(asset, MeshFile):
        colors = load_content(asset).colors
        if colors is not None and has_relief_or_wear(body.material):
            return _encode_texture_set(compute_file_maps(asset, body.material), 1.0)
        if colors is not None:
            return TextureSet(colors, None, 1.0)
    span = _compute_span_m(body)
    if has_relief_or_wear(body.material) or body.decals:
        top_m = asset.size_m[:2] if isinstance(asset, Cuboid) else (span / 2, span / 2)
        maps = build_material_maps(
            body.material, span, body.decals or (), top_m if body.decals else None
        )
        return _encode_texture_set(maps, 1 / span, 0.5)
    is_centered = isinstance(asset, Ground) and is_photo(texture)
    return TextureSet(
        render_plane_texture(texture, span), None, 1 / span, 0.5 if is_centered else 0.0
    )


def _encode_texture_set(maps: MaterialMaps, uv_scale: float, uv_offset: float = 0.0) -> TextureSet:
    colors, normals, roughness_metallic = maps.encode()
    return TextureSet(colors, normals, uv_scale, uv_offset, roughness_metallic)


def _compute_span_m(body: Body) -> float:
    """Return the side in metres that a planar texture covers."""
    asset, texture = body.asset, body.material.texture
    match asset:
        case Ground() if is_photo(texture):
            return max(get_photo_size_m(texture))
        case Cuboid() if body.decals:  # decals must not repeat
            return max(asset.size_m)
        case Ground() if body.decals:  # decals must not repeat near the centre
            return 2 * MAX_REPEAT_M
        case Sphere():
            longest = 2 * asset.radius_m
        case Cuboid() | Block():
            longest = max(asset.size_m)
        case Cylinder():
            longest = max(2 * asset.radius_m, asset.height_m)
        case Ground():
            longest = asset.side_m
        case _:
            low, high = compute_extent(asset)
            longest = float(np.subtract(high, low).max())
    return min(longest, MAX_REPEAT_M)
