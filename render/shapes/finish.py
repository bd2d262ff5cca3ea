"""Finish: relief of a surface, and what use has left on it, as maps over its colours.

Dust, scratches, stains, prints of fingers and rubbing at edges change colour, roughness and metalness
of the texels they cover. What they look like is made up, not measured.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.shapes.textures import (
    Coordinates,
    Pattern,
    encode_srgb,
    levels,
    paint,
    plane_points,
    texels_across,
)
from sim2cam.scene.material import Material, Texture, TextureFamily, Wear

Floats = NDArray[np.float64]

_DUST = np.array([0.30, 0.28, 0.25])
_SPILT = np.array([0.55, 0.42, 0.30])  # what a stain leaves of the colour
_DUST_M, _SCRATCHES_M, _STAINS_M = 0.05, 0.016, 0.04  # size of the largest features
_SCRATCH_DEPTH = 0.06  # steepest slope of a scratch
_PRINT_M = (0.0065, 0.009)  # half the width and height of a finger's print
_RIDGE_M = 5e-4
_RUBBED_M = 0.0015  # how far from an edge the most worn one is rubbed
_CHIPS_M = 0.002
_PRINTS_PER_M2 = 600.0


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


def finish_of(material: Material, span_m: float) -> Finish:
    """Returns the maps of a material over so many metres both ways."""
    n = texels_across(span_m)
    points = plane_points(n, span_m)
    found = Finish(
        np.array(np.broadcast_to(paint(material.texture)(points), (n, n, 3))),
        np.full((n, n), material.roughness),
        np.full((n, n), material.metallic),
        np.zeros((n, n, 2)),
    )
    if material.relief and material.texture.picture is None:
        height = levels(material.texture)(points) * material.relief * material.texture.scale_m
        found = replace(found, slopes=_slopes(np.broadcast_to(height, (n, n)), (span_m / n,) * 2))
    return worn(found, material.wear, (span_m / n,) * 2) if material.wear else found


def worn(
    new: Finish, wear: Wear, texel_m: tuple[float, float], edge_m: Floats | None = None
) -> Finish:
    """Returns a surface rubbed at its edges, with scratches, then stains, prints and dust on it.

    Args:
        new: as it was made, (h, w).
        wear: what use has left.
        texel_m: width and height of a texel on the body.
        edge_m: how far each texel (h, w) is from the body's next edge; None where edges are not known.
    """
    points, worn = _points(new.roughness.shape, texel_m), new
    if wear.edges and edge_m is not None:
        worn = _rubbed(worn, _near_edges(wear, points, edge_m))
    if wear.scratches:
        worn = _scratched(
            worn, wear.scratches * _pattern("scratches", _SCRATCHES_M, wear)(points), texel_m
        )
    if wear.stains:
        worn = _stained(worn, _cover(_pattern("fbm", _STAINS_M, wear)(points), 0.7 * wear.stains))
    if wear.fingerprints:
        worn = _printed(worn, _prints(wear, points, texel_m))
    if wear.dust:
        drifts = 0.35 + 0.65 * _pattern("fbm", _DUST_M, replace(wear, seed=wear.seed + 1))(points)
        worn = _dusted(worn, (wear.dust * drifts).clip(0, 1))
    return worn


def _points(shape: tuple[int, ...], texel_m: tuple[float, float]) -> Coordinates:
    """Returns the middles of the texels of a map (h, w), row 0 at y = 0."""
    height, width = shape
    x = np.asarray((np.arange(width) + 0.5) * texel_m[0], np.float64)
    y = np.asarray((np.arange(height) + 0.5) * texel_m[1], np.float64)
    return x, y[:, None], np.zeros(1)


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


def _scratched(new: Finish, cover: Floats, texel_m: tuple[float, float]) -> Finish:
    lines = cover[..., None]
    slopes = _slopes(-cover, texel_m)
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


def _prints(wear: Wear, points: Coordinates, texel_m: tuple[float, float]) -> Floats:
    """Returns how much grease lies on each texel (h, w): whorls of ridges, in ovals."""
    rng = np.random.default_rng(wear.seed)
    x, y = points[0], points[1][:, 0]
    wide, high = len(x) * texel_m[0], len(y) * texel_m[1]
    count = int(rng.poisson(_PRINTS_PER_M2 * wear.fingerprints * wide * high)) + 1
    cover = np.zeros((len(y), len(x)))
    for place_x, place_y, turn, press in rng.uniform(0, (wide, high, np.pi, 1), (count, 4)):
        c, s = np.cos(turn), np.sin(turn)
        columns, rows = (
            slice(*np.searchsorted(line, (place - _PRINT_M[1], place + _PRINT_M[1])))
            for line, place in ((x, place_x), (y, place_y))
        )
        right, up = x[columns] - place_x, y[rows, None] - place_y
        across, along = c * right + s * up, c * up - s * right
        away = np.hypot(across / _PRINT_M[0], along / _PRINT_M[1])
        ridges = 0.5 + 0.5 * np.cos(2 * np.pi * np.hypot(across, 0.6 * along) / _RIDGE_M)
        print_ = np.clip(3 * (1 - away), 0, 1) * (0.35 + 0.65 * ridges) * (0.4 + 0.6 * press)
        cover[rows, columns] = np.maximum(cover[rows, columns], print_)
    return np.asarray(min(1.0, 2 * wear.fingerprints) * cover)


def _pattern(family: TextureFamily, scale_m: float, wear: Wear) -> Pattern:
    """Returns the function from points to levels, 0 to 1, of a layer of wear."""
    black = (0.0, 0.0, 0.0)
    return levels(Texture(family, black, black, scale_m, 1.0, 0.3, wear.seed))


def _cover(level: Floats, share: float) -> Floats:
    """Returns 1 where levels are among the highest, about so large a share, and 0 below, softly."""
    t = ((level - np.quantile(level, 1 - share)) / 0.12 + 0.5).clip(0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _slopes(height: Floats, texel_m: tuple[float, float]) -> Floats:
    """Returns how heights (h, w) change along u and v (h, w, 2)."""
    along_v, along_u = np.gradient(height, *texel_m[::-1])
    return np.stack([along_u, along_v], axis=-1)


def _mixed(under: Floats, over: Floats, share: Floats) -> Floats:
    return np.asarray(under + share * (over - under))
