"""Texture sets of bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.finish import compute_file_maps
from sim2cam.assets.mesh import load_content
from sim2cam.images import SRGB_TO_LINEAR
from sim2cam.objects.primitives import Cuboid, Ground
from sim2cam.objects.solid import Solid
from sim2cam.render.meshes.mesh import compute_extent
from sim2cam.scene.decal import Decal
from sim2cam.scene.material import Material, Texture
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import MeshFile, Shape
from sim2cam.surfaces.finish import (
    PRINT_ROUGHNESS,
    MaterialMaps,
    apply_decals,
    apply_wear,
    build_material_maps,
    compute_relief_slopes,
    has_relief_or_wear,
)
from sim2cam.surfaces.textures import MAX_REPEAT_M, get_photo_size_m, is_photo, render_plane_texture
from sim2cam.surfaces.uv_charts import PlanarTexels

Floats = NDArray[np.float64]


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


TextureSetKey = tuple[Shape, Material | Texture, tuple[Decal, ...] | None]


def make_texture_set_key(body: Body) -> TextureSetKey:
    """Return the cache key of a body's textures."""
    needs_material = _needs_material_maps(body) or body.decals
    return body.asset, body.material if needs_material else body.material.texture, body.decals


def build_texture_set(body: Body) -> TextureSet:
    """Return the textures of a body."""
    asset, texture = body.asset, body.material.texture
    if isinstance(asset, Solid) and asset.has_atlas:
        if _needs_material_maps(body) or body.decals:
            return _encode_texture_set(
                build_atlas_maps(asset, body.material, body.decals or ()), 1.0
            )
        return TextureSet(*asset.render_maps(texture), 1.0)
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


def build_atlas_maps(
    solid: Solid, material: Material, decals: Sequence[Decal] = ()
) -> MaterialMaps:
    """Return the material maps of a solid with an atlas, worn and with decals."""
    colors, normals = solid.render_maps(material.texture)
    shape = colors.shape[:2]
    coating = solid.make_coating_mask() if material.metallic > 0 else None
    coated = np.zeros(shape, bool) if coating is None else coating
    maps = MaterialMaps(
        SRGB_TO_LINEAR[colors].astype(np.float64),
        np.where(coated, PRINT_ROUGHNESS, material.roughness),
        np.where(coated, 0.0, material.metallic),
        np.zeros((*shape, 2)) if normals is None else _compute_slopes(normals),
    )
    texels = solid.compute_texels()
    if texels is None:
        return maps
    panels, slopes = solid.make_panels(), maps.slopes.copy()
    for panel in solid.make_relief_panels():
        slopes[panel.window] += compute_relief_slopes(material, panel.plane.points, panel.plane)
    maps = replace(maps, slopes=slopes)
    if decals:
        maps = apply_decals(maps, decals, panels, solid.make_print_mask())
    if material.wear is not None:
        texel_m, edge_m = texels
        maps = apply_wear(maps, material.wear, PlanarTexels(edge_m.shape, texel_m), edge_m)
    slopes = maps.slopes.copy()
    for panel in panels:
        if not panel.is_bottom_up:  # the bitangent points up
            slopes[panel.window][..., 1] *= -1
    return replace(maps, slopes=slopes)


def _needs_material_maps(body: Body) -> bool:
    """Return whether the textures of a body depend on more than its colours, apart from decals."""
    is_coated_metal = (
        body.material.metallic > 0
        and isinstance(body.asset, Solid)
        and body.asset.make_coating_mask() is not None
    )
    return has_relief_or_wear(body.material) or is_coated_metal


def _compute_slopes(normals: NDArray[np.uint8]) -> Floats:
    x, y, z = np.moveaxis(normals / 127.5 - 1.0, -1, 0)
    return np.stack([-x / z, -y / z], axis=-1)


def _encode_texture_set(maps: MaterialMaps, uv_scale: float, uv_offset: float = 0.0) -> TextureSet:
    colors, normals, roughness_metallic = maps.encode()
    return TextureSet(colors, normals, uv_scale, uv_offset, roughness_metallic)


def _compute_span_m(body: Body) -> float:
    """Return the side in metres that a planar texture covers."""
    asset, texture = body.asset, body.material.texture
    if isinstance(asset, Ground) and is_photo(texture):
        return max(get_photo_size_m(texture))
    if isinstance(asset, Cuboid) and body.decals:  # decals must not repeat
        return max(asset.size_m)
    if isinstance(asset, Ground) and body.decals:  # decals must not repeat near the centre
        return 2 * MAX_REPEAT_M
    span_m = asset.get_texture_span_m() if isinstance(asset, Solid) else None
    if span_m is None:
        low, high = compute_extent(asset)
        span_m = float(np.subtract(high, low).max())
    return min(span_m, MAX_REPEAT_M)
