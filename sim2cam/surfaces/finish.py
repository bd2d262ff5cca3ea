"""Finish: relief of a surface, and what use has left on it, as maps over its colours.

Dust, scratches, stains, prints of fingers and rubbing at edges change colour, roughness and metalness
of the texels they cover. What they look like is made up, not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.decal import Decal
from sim2cam.scene.material import Material, Texture, TextureFamily, Wear
from sim2cam.surfaces.decals import Panel, stuck
from sim2cam.surfaces.textures import (
    Coordinates,
    Pattern,
    encode_srgb,
    levels,
    paint,
    points_on,
    texels_across,
)
from sim2cam.surfaces.uv_charts import Places, Plane

Floats = NDArray[np.float64]

PAPER_ROUGHNESS = 0.55
"""Of what is printed: labels, stickers."""

_DUST = np.array([0.30, 0.28, 0.25])
_SPILT = np.array([0.55, 0.42, 0.30])  # what a stain leaves of the colour
_DUST_M, _SCRATCHES_M, _STAINS_M = 0.05, 0.016, 0.04  # size of the largest features
_SCRATCH_DEPTH = 0.06  # steepest slope of a scratch
_PRINT_M = (0.0065, 0.009)  # half the width and height of a finger's print
_RIDGE_M = 5e-4
_RUBBED_M = 0.0015  # how far from an edge the most worn one is rubbed
_CHIPS_M = 0.002
_PRINTS_PER_M2 = 600.0


Sides = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Finish:
    """The maps (h, w, ...) of a piece of a surface, row 0 at v = 0.

    Attributes:
        colors: linear RGB.
        roughness, metallic: of each texel.
        slopes: of its height along u and v (h, w, 2).
    """

    colors: Floats
    roughness: Floats
    metallic: Floats
    slopes: Floats

    def encoded(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint8]]:
        """Returns sRGB colours (h, w, 3), normals (h, w, 3), roughness and metalness (h, w, 2)."""
        up = np.ones((*self.roughness.shape, 1))
        normals = np.concatenate([-self.slopes, up], axis=-1)
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        looks = np.stack([self.roughness, self.metallic], axis=-1)
        return (
            encode_srgb(self.colors),
            np.round((normals + 1) * 127.5).astype(np.uint8),
            np.round(looks.clip(0, 1) * 255).astype(np.uint8),
        )


def finish_of(
    material: Material, span_m: float, decals: Sequence[Decal] = (), top_m: Sides | None = None
) -> Finish:
    """Returns the maps of a material over so many metres both ways.

    Args:
        material: which.
        span_m: width and height.
        decals: on it.
        top_m: sides of the piece in its middle on which they are; None without any.
    """
    n = texels_across(span_m)
    points, plane = points_on(material.texture, n, span_m), Plane((n, n), (span_m / n,) * 2)
    found = new_finish(paint(material.texture)(points), material)
    found = replace(found, slopes=found.slopes + relief_slopes(material, points, plane))
    if top_m is not None:
        found = with_decals(found, decals, (_middle(plane, top_m),))
    return worn(found, material.wear, plane) if material.wear else found


def new_finish(colors: Floats, material: Material) -> Finish:
    """Returns a smooth surface of a material in these colours, which broadcast to (h, w, 3)."""
    shape = colors.shape[:2]
    return Finish(
        np.array(colors, np.float64),
        np.full(shape, material.roughness),
        np.full(shape, material.metallic),
        np.zeros((*shape, 2)),
    )


def has_finish(material: Material) -> bool:
    """Returns whether a material has relief or wear."""
    return bool(material.relief) or material.wear is not None


def relief_slopes(material: Material, points: Coordinates, places: Places) -> Floats:
    """Returns the slopes (h, w, 2) of a material's pattern as heights; pictures have none.

    Args:
        material: whose pattern it is.
        points: where in the pattern the texels are.
        places: where they lie on the body.
    """
    if not material.relief or material.texture.picture is not None:
        return np.zeros((*places.shape, 2))
    height = levels(material.texture)(points) * material.relief * material.texture.scale_m
    return places.slopes(np.broadcast_to(height, places.shape))


def with_decals(
    bare: Finish, decals: Sequence[Decal], panels: Sequence[Panel], marks: Floats | float = 0.0
) -> Finish:
    """Returns a surface with decals of paper on it; see ``decals.stuck``."""
    colors, cover = stuck(bare.colors, decals, panels, marks)
    return replace(
        bare,
        colors=colors,
        roughness=_mixed(bare.roughness, np.full_like(cover, PAPER_ROUGHNESS), cover),
        metallic=bare.metallic * (1 - cover),
    )


def worn(new: Finish, wear: Wear, places: Places, edge_m: Floats | None = None) -> Finish:
    """Returns a surface rubbed at its edges, with scratches, then stains, prints and dust on it.

    Args:
        new: as it was made, (h, w).
        wear: what use has left.
        places: where its texels lie.
        edge_m: how far each texel (h, w) is from the body's next edge; None where edges are not known.
    """
    points, worn = places.points, new
    if wear.edges and edge_m is not None:
        worn = _rubbed(worn, _near_edges(wear, points, edge_m))
    if wear.scratches:
        worn = _scratched(
            worn, wear.scratches * _pattern("scratches", _SCRATCHES_M, wear)(points), places
        )
    if wear.stains:
        worn = _stained(worn, _cover(_pattern("fbm", _STAINS_M, wear)(points), 0.7 * wear.stains))
    if wear.fingerprints:
        worn = _printed(worn, _prints(wear, places))
    if wear.dust:
        drifts = 0.35 + 0.65 * _pattern("fbm", _DUST_M, replace(wear, seed=wear.seed + 1))(points)
        worn = _dusted(worn, (wear.dust * drifts).clip(0, 1))
    return worn


def _middle(plane: Plane, size_m: Sides) -> Panel:
    """Returns a panel of this size in the middle of a plane."""
    rows, columns = (
        min(n, round(side / texel))
        for n, side, texel in zip(plane.shape, size_m[::-1], plane.texel_m[::-1], strict=True)
    )
    top, left = (plane.shape[0] - rows) // 2, (plane.shape[1] - columns) // 2
    return Panel(top, left, (rows, columns), size_m, rises=True)


def _near_edges(wear: Wear, points: Coordinates, edge_m: Floats) -> Floats:
    """Returns how much of each texel (h, w) is rubbed off: all at the edge, chips further in."""
    chips = 0.3 + 0.7 * _pattern("fbm", _CHIPS_M, replace(wear, seed=wear.seed + 2))(points)
    return np.asarray((2 * wear.edges * chips - edge_m / (_RUBBED_M * wear.edges)).clip(0, 1))


def _rubbed(new: Finish, cover: Floats) -> Finish:
    """Returns a surface that is pale and matt where it is rubbed off."""
    pale = 0.35 + 0.4 * new.colors.mean(axis=-1, keepdims=True)
    return replace(
        new,
        colors=_mixed(new.colors, np.broadcast_to(pale, new.colors.shape), cover[..., None]),
        roughness=_mixed(new.roughness, np.maximum(new.roughness, 0.6), cover),
    )


def _scratched(new: Finish, cover: Floats, places: Places) -> Finish:
    lines = cover[..., None]
    slopes = places.slopes(-cover)
    steepest = max(float(np.abs(slopes).max()), 1e-9)
    return replace(
        new,
        colors=new.colors + 0.3 * lines * (1 - new.colors),
        roughness=new.roughness + cover * 0.5 * (0.8 - new.roughness).clip(0),
        slopes=new.slopes + slopes * (_SCRATCH_DEPTH * float(cover.max()) / steepest),
    )


def _stained(new: Finish, cover: Floats) -> Finish:
    spilt = new.colors * _SPILT
    return replace(
        new,
        colors=_mixed(new.colors, spilt, cover[..., None]),
        roughness=_mixed(new.roughness, 0.7 * new.roughness + 0.1, cover),
        metallic=_mixed(new.metallic, 0.6 * new.metallic, cover),
    )


def _printed(new: Finish, cover: Floats) -> Finish:
    """Returns a surface with grease on it, which blurs what shines and is not seen on what is matt."""
    return replace(
        new,
        colors=new.colors * (1 - 0.08 * cover[..., None]),
        roughness=_mixed(new.roughness, np.maximum(new.roughness, 0.45), cover),
    )


def _dusted(new: Finish, cover: Floats) -> Finish:
    return replace(
        new,
        colors=_mixed(new.colors, np.broadcast_to(_DUST, new.colors.shape), cover[..., None]),
        roughness=_mixed(new.roughness, np.ones_like(new.roughness), cover),
        metallic=_mixed(new.metallic, np.zeros_like(new.metallic), cover),
        slopes=new.slopes * (1 - 0.7 * cover[..., None]),
    )


def _prints(wear: Wear, places: Places) -> Floats:
    """Returns how much grease lies on each texel (h, w): whorls of ridges, in ovals."""
    rng = np.random.default_rng(wear.seed)
    count = int(rng.poisson(_PRINTS_PER_M2 * wear.fingerprints * places.area_m2)) + 1
    cover = np.zeros(places.shape)
    for *share, turn, press in rng.random((count, 4)):
        at, right, up = places.near(np.array(share), _PRINT_M[1])
        c, s = np.cos(np.pi * turn), np.sin(np.pi * turn)
        across, along = c * right + s * up, c * up - s * right
        away = np.hypot(across / _PRINT_M[0], along / _PRINT_M[1])
        ridges = 0.5 + 0.5 * np.cos(2 * np.pi * np.hypot(across, 0.6 * along) / _RIDGE_M)
        print_ = np.clip(3 * (1 - away), 0, 1) * (0.35 + 0.65 * ridges) * (0.4 + 0.6 * press)
        cover[at] = np.maximum(cover[at], print_)
    return np.asarray(min(1.0, 2 * wear.fingerprints) * cover)


def _pattern(family: TextureFamily, scale_m: float, wear: Wear) -> Pattern:
    """Returns the function from points to levels, 0 to 1, of a layer of wear."""
    black = (0.0, 0.0, 0.0)
    return levels(Texture(family, black, black, scale_m, 1.0, 0.3, wear.seed))


def _cover(level: Floats, share: float) -> Floats:
    """Returns 1 where levels are among the highest, about so large a share, and 0 below, softly."""
    t = ((level - np.quantile(level, 1 - share)) / 0.12 + 0.5).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _mixed(under: Floats, over: Floats, share: Floats) -> Floats:
    return np.asarray(under + share * (over - under))
