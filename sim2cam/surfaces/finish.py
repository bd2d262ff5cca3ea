"""Material maps of surfaces: relief, decals and wear.

Dust, scratches, stains, fingerprints and edge wear change colour, roughness and metalness. Their
appearance is designed, not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.decal import Decal
from sim2cam.scene.material import Material, Texture, TextureFamily, Wear
from sim2cam.surfaces.decals import Panel, composite_decals
from sim2cam.surfaces.textures import (
    Coordinates,
    Pattern,
    count_texels,
    encode_srgb,
    make_color_sampler,
    make_level_sampler,
    make_texel_points,
)
from sim2cam.surfaces.uv_charts import PlanarTexels, TexelGeometry

Floats = NDArray[np.float64]

PRINT_ROUGHNESS = 0.55
"""Roughness of printed labels and stickers."""

_DUST_COLOR = np.array([0.30, 0.28, 0.25])
_STAIN_TRANSMISSION = np.array([0.55, 0.42, 0.30])  # factor of the colour under a stain
_DUST_SCALE_M, _SCRATCH_SCALE_M, _STAIN_SCALE_M = 0.05, 0.016, 0.04  # size of the largest features
_SCRATCH_MAX_SLOPE = 0.06  # steepest slope of a scratch
_FINGERPRINT_HALF_SIZE_M = (0.0065, 0.009)  # width, height
_FINGERPRINT_RIDGE_M = 5e-4
_EDGE_WEAR_DEPTH_M = 0.0015  # distance from the edge at full wear
_EDGE_CHIP_SCALE_M = 0.002
_FINGERPRINTS_PER_M2 = 600.0

SideLengths = tuple[float, float]


@dataclass(frozen=True, eq=False)
class MaterialMaps:
    """Material maps of a surface; row 0 is v = 0.

    Attributes:
        colors: (h, w, 3) linear RGB.
        roughness, metallic: (h, w).
        slopes: (h, w, 2) slopes of the height along u and v.
    """

    colors: Floats
    roughness: Floats
    metallic: Floats
    slopes: Floats

    def encode(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        """Return sRGB colours (h, w, 3), normals (h, w, 3), roughness and metalness (h, w, 2)."""
        up = np.ones((*self.roughness.shape, 1))
        normals = np.concatenate([-self.slopes, up], axis=-1)
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        roughness_metallic = np.stack([self.roughness, self.metallic], axis=-1)
        return (
            encode_srgb(self.colors),
            np.round((normals + 1) * 127.5).astype(np.uint8),
            np.round(roughness_metallic.clip(0, 1) * 255).astype(np.uint8),
        )


def build_material_maps(
    material: Material,
    span_m: float,
    decals: Sequence[Decal] = (),
    decal_area_m: SideLengths | None = None,
) -> MaterialMaps:
    """Return the material maps of a square.

    Args:
        material: material of the surface.
        span_m: side of the square.
        decals: decals, bottom to top.
        decal_area_m: width and height of the central area with decals; None without decals.
    """
    n = count_texels(span_m)
    points = make_texel_points(material.texture, n, span_m)
    plane = PlanarTexels((n, n), (span_m / n,) * 2)
    maps = make_plain_maps(make_color_sampler(material.texture)(points), material)
    maps = replace(maps, slopes=maps.slopes + compute_relief_slopes(material, points, plane))
    if decal_area_m is not None:
        maps = apply_decals(maps, decals, (_make_center_panel(plane, decal_area_m),))
    return apply_wear(maps, material.wear, plane) if material.wear else maps


def make_plain_maps(colors: Floats, material: Material) -> MaterialMaps:
    """Return the maps of a smooth material with colours (h, w, 3)."""
    shape = colors.shape[:2]
    return MaterialMaps(
        np.array(colors, np.float64),
        np.full(shape, material.roughness),
        np.full(shape, material.metallic),
        np.zeros((*shape, 2)),
    )


def has_relief_or_wear(material: Material) -> bool:
    """Return whether a material has relief or wear."""
    return bool(material.relief) or material.wear is not None


def compute_relief_slopes(material: Material, points: Coordinates, texels: TexelGeometry) -> Floats:
    """Return the slopes (h, w, 2) of a material's pattern as a height field; 0 for image textures."""
    if not material.relief or material.texture.image is not None:
        return np.zeros((*texels.shape, 2))
    height = (
        make_level_sampler(material.texture)(points) * material.relief * material.texture.scale_m
    )
    return texels.compute_slopes(np.broadcast_to(height, texels.shape))


def apply_decals(
    maps: MaterialMaps,
    decals: Sequence[Decal],
    panels: Sequence[Panel],
    print_mask: Floats | float = 0.0,
) -> MaterialMaps:
    """Apply paper decals to material maps; see ``composite_decals``."""
    colors, coverage = composite_decals(maps.colors, decals, panels, print_mask)
    return replace(
        maps,
        colors=colors,
        roughness=_blend(maps.roughness, np.full_like(coverage, PRINT_ROUGHNESS), coverage),
        metallic=maps.metallic * (1 - coverage),
    )


def apply_wear(
    maps: MaterialMaps, wear: Wear, texels: TexelGeometry, edge_distance_m: Floats | None = None
) -> MaterialMaps:
    """Apply edge wear, scratches, stains, fingerprints and dust, in this order.

    Args:
        maps: maps of the unworn surface.
        wear: amounts of wear.
        texels: layout of the texels on the body.
        edge_distance_m: (h, w) distance to the nearest edge of the body; None skips edge wear.
    """
    points, worn = texels.points, maps
    if wear.edges and edge_distance_m is not None:
        worn = _apply_edge_wear(worn, _compute_edge_wear(wear, points, edge_distance_m))
    if wear.scratches:
        scratches = wear.scratches * _make_pattern("scratches", _SCRATCH_SCALE_M, wear)(points)
        worn = _apply_scratches(worn, scratches, texels)
    if wear.stains:
        level = _make_pattern("fbm", _STAIN_SCALE_M, wear)(points)
        worn = _apply_stains(worn, _threshold_softly(level, 0.7 * wear.stains))
    if wear.fingerprints:
        worn = _apply_fingerprints(worn, _generate_fingerprints(wear, texels))
    if wear.dust:
        pattern = _make_pattern("fbm", _DUST_SCALE_M, replace(wear, seed=wear.seed + 1))
        worn = _apply_dust(worn, (wear.dust * (0.35 + 0.65 * pattern(points))).clip(0, 1))
    return worn


def _make_center_panel(plane: PlanarTexels, size_m: SideLengths) -> Panel:
    """Return a centred panel of a plane."""
    rows, columns = (
        min(n, round(side / texel))
        for n, side, texel in zip(plane.shape, size_m[::-1], plane.texel_size_m[::-1], strict=True)
    )
    top, left = (plane.shape[0] - rows) // 2, (plane.shape[1] - columns) // 2
    return Panel(top, left, (rows, columns), size_m, is_bottom_up=True)


def _compute_edge_wear(wear: Wear, points: Coordinates, edge_distance_m: Floats) -> Floats:
    """Return the worn share (h, w) of each texel: full at the edge, chips further in."""
    pattern = _make_pattern("fbm", _EDGE_CHIP_SCALE_M, replace(wear, seed=wear.seed + 2))
    chips = 0.3 + 0.7 * pattern(points)
    worn = 2 * wear.edges * chips - edge_distance_m / (_EDGE_WEAR_DEPTH_M * wear.edges)
    return np.asarray(worn.clip(0, 1))


def _apply_edge_wear(maps: MaterialMaps, coverage: Floats) -> MaterialMaps:
    """Make worn edges pale and matt."""
    pale = 0.35 + 0.4 * maps.colors.mean(axis=-1, keepdims=True)
    return replace(
        maps,
        colors=_blend(maps.colors, np.broadcast_to(pale, maps.colors.shape), coverage[..., None]),
        roughness=_blend(maps.roughness, np.maximum(maps.roughness, 0.6), coverage),
    )


def _apply_scratches(maps: MaterialMaps, coverage: Floats, texels: TexelGeometry) -> MaterialMaps:
    alpha = coverage[..., None]
    slopes = texels.compute_slopes(-coverage)
    steepest = max(float(np.abs(slopes).max()), 1e-9)
    return replace(
        maps,
        colors=maps.colors + 0.3 * alpha * (1 - maps.colors),
        roughness=maps.roughness + coverage * 0.5 * (0.8 - maps.roughness).clip(0),
        slopes=maps.slopes + slopes * (_SCRATCH_MAX_SLOPE * float(coverage.max()) / steepest),
    )


def _apply_stains(maps: MaterialMaps, coverage: Floats) -> MaterialMaps:
    stained = maps.colors * _STAIN_TRANSMISSION
    return replace(
        maps,
        colors=_blend(maps.colors, stained, coverage[..., None]),
        roughness=_blend(maps.roughness, 0.7 * maps.roughness + 0.1, coverage),
        metallic=_blend(maps.metallic, 0.6 * maps.metallic, coverage),
    )


def _apply_fingerprints(maps: MaterialMaps, coverage: Floats) -> MaterialMaps:
    """Add grease, which roughens glossy surfaces and is invisible on matt ones."""
    return replace(
        maps,
        colors=maps.colors * (1 - 0.08 * coverage[..., None]),
        roughness=_blend(maps.roughness, np.maximum(maps.roughness, 0.45), coverage),
    )


def _apply_dust(maps: MaterialMaps, coverage: Floats) -> MaterialMaps:
    return replace(
        maps,
        colors=_blend(
            maps.colors, np.broadcast_to(_DUST_COLOR, maps.colors.shape), coverage[..., None]
        ),
        roughness=_blend(maps.roughness, np.ones_like(maps.roughness), coverage),
        metallic=_blend(maps.metallic, np.zeros_like(maps.metallic), coverage),
        slopes=maps.slopes * (1 - 0.7 * coverage[..., None]),
    )


def _generate_fingerprints(wear: Wear, texels: TexelGeometry) -> Floats:
    """Return the grease (h, w) of fingerprints: oval whorls of ridges."""
    rng = np.random.default_rng(wear.seed)
    count = int(rng.poisson(_FINGERPRINTS_PER_M2 * wear.fingerprints * texels.area_m2)) + 1
    grease = np.zeros(texels.shape)
    for *position, angle, pressure in rng.random((count, 4)):
        window, right, up = texels.find_nearby(np.array(position), _FINGERPRINT_HALF_SIZE_M[1])
        c, s = np.cos(np.pi * angle), np.sin(np.pi * angle)
        across, along = c * right + s * up, c * up - s * right
        radius = np.hypot(across / _FINGERPRINT_HALF_SIZE_M[0], along / _FINGERPRINT_HALF_SIZE_M[1])
        ridges = 0.5 + 0.5 * np.cos(
            2 * np.pi * np.hypot(across, 0.6 * along) / _FINGERPRINT_RIDGE_M
        )
        print_ = np.clip(3 * (1 - radius), 0, 1) * (0.35 + 0.65 * ridges) * (0.4 + 0.6 * pressure)
        grease[window] = np.maximum(grease[window], print_)
    return np.asarray(min(1.0, 2 * wear.fingerprints) * grease)


def _make_pattern(family: TextureFamily, scale_m: float, wear: Wear) -> Pattern:
    """Return the pattern of a layer of wear: points to levels, 0 to 1."""
    black = (0.0, 0.0, 0.0)
    return make_level_sampler(Texture(family, black, black, scale_m, 1.0, 0.3, wear.seed))


def _threshold_softly(level: Floats, fraction: float) -> Floats:
    """Return a soft mask of about the highest ``fraction`` of the levels."""
    t = ((level - np.quantile(level, 1 - fraction)) / 0.12 + 0.5).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _blend(under: Floats, over: Floats, alpha: Floats) -> Floats:
    return np.asarray(under + alpha * (over - under))
