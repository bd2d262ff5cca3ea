"""Procedural textures: a spec and points in space to colours. Everything follows from the spec."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

from sim2cam.scene.material import Texture

Floats = NDArray[np.float64]

_LATTICE = 32  # cells after which value noise repeats, along each axis
_TEXELS_PER_M = 1600
_MAX_TEXELS = 768


@functools.lru_cache(maxsize=16)
def plane_map(texture: Texture, span_m: float) -> NDArray[np.uint8]:
    """Returns a square sRGB picture (n, n, 3) of the pattern on the plane z = 0.

    Row 0 is y = 0, column 0 is x = 0; it covers ``span_m`` metres both ways.
    """
    n = int(np.clip(span_m * _TEXELS_PER_M, 16, _MAX_TEXELS))
    if texture.family == "plain":
        n = 1
    line = (np.arange(n) + 0.5) / n * span_m
    x, y = np.meshgrid(line, line)
    return np.asarray(encode_srgb(paint(texture, np.stack([x, y, np.zeros_like(x)], axis=-1))))


def paint(texture: Texture, points_m: Floats) -> Floats:
    """Returns linear colours (..., 3) of a solid pattern at points (..., 3) in metres."""
    rng = np.random.default_rng(texture.seed)
    level = _PATTERNS[texture.family](points_m / texture.scale_m, rng)
    width = max(1e-3, 1 - texture.sharpness)
    level = np.clip((level - 0.5) / width + 0.5, 0, 1)
    level = texture.contrast * level * level * (3 - 2 * level)
    a, b = np.array(texture.color_a), np.array(texture.color_b)
    return np.asarray(a + level[..., None] * (b - a))


def encode_srgb(linear: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Returns sRGB bytes of linear values in 0..1 (IEC 61966-2-1)."""
    c = np.clip(linear, 0, 1)
    srgb = np.where(c <= 0.0031308, 12.92 * c, 1.055 * np.power(c, 1 / 2.4) - 0.055)
    return np.asarray(np.round(255 * srgb), dtype=np.uint8)


def _value_noise(points: Floats, rng: np.random.Generator) -> Floats:
    """Returns smooth noise in 0..1 with one random value at each whole point."""
    lattice = rng.random((_LATTICE, _LATTICE, _LATTICE), dtype=np.float32)
    shifted = points + rng.uniform(0, _LATTICE, 3)
    cell = np.floor(shifted)
    t = shifted - cell
    where = cell + t * t * t * (t * (6 * t - 15) + 10)
    flat = np.moveaxis(where, -1, 0).reshape(3, -1) % _LATTICE
    values = map_coordinates(lattice, flat, order=1, mode="grid-wrap", prefilter=False)
    return np.asarray(values.reshape(points.shape[:-1]), dtype=np.float64)


def _perlin(points: Floats, rng: np.random.Generator) -> Floats:
    """Returns gradient noise in about 0..1: zero slopes between random ramps (Perlin 1985, 2002)."""
    gradients = rng.standard_normal((_LATTICE, _LATTICE, _LATTICE, 3))
    gradients /= np.linalg.norm(gradients, axis=-1, keepdims=True)
    shifted = points + rng.uniform(0, _LATTICE, 3)
    cell = np.floor(shifted)
    t = shifted - cell
    fade = t * t * t * (t * (6 * t - 15) + 10)
    total = np.zeros(points.shape[:-1])
    for corner in itertools.product((0, 1), repeat=3):
        x, y, z = np.moveaxis((cell + corner).astype(np.intp) % _LATTICE, -1, 0)
        ramp = (gradients[x, y, z] * (t - corner)).sum(axis=-1)
        total += np.where(corner, fade, 1 - fade).prod(axis=-1) * ramp
    return np.asarray(total * 0.9 + 0.5)


def _fbm(points: Floats, rng: np.random.Generator, octaves: int = 4) -> Floats:
    """Returns fractal Brownian motion in about 0..1: octaves of noise, each half as strong."""
    total = np.zeros(points.shape[:-1])
    for octave in range(octaves):
        total += (_value_noise(points * 2**octave, rng) - 0.5) * 0.5**octave
    return np.asarray(total + 0.5)


def _worley(points: Floats, rng: np.random.Generator) -> Floats:
    """Returns the distance to the nearest of random feature points, one a cell (Worley 1996)."""
    flat = points.reshape(-1, 3)
    low, high = np.floor(flat.min(axis=0)) - 1, np.ceil(flat.max(axis=0)) + 1
    cells = np.stack(
        np.meshgrid(*(np.arange(a, b) for a, b in zip(low, high, strict=True)), indexing="ij"), -1
    )
    features = cells.reshape(-1, 3) + rng.random((cells.size // 3, 3))
    distance, _ = cKDTree(features).query(flat)
    return np.asarray(distance.reshape(points.shape[:-1]))


def _marble(points: Floats, rng: np.random.Generator) -> Floats:
    bent = points[..., 0] + 2.5 * (_fbm(points, rng) - 0.5) * 2
    return np.asarray(0.5 + 0.5 * np.sin(np.pi * bent))


def _wood(points: Floats, rng: np.random.Generator) -> Floats:
    stretched = points * [1.0, 0.08, 1.0]
    rings = 3 * (stretched[..., 0] + 0.7 * _value_noise(stretched, rng))
    grain = _value_noise(points * [40.0, 1.5, 40.0], rng)
    return np.asarray(0.75 * (rings - np.floor(rings)) + 0.25 * grain)


def _speckle(points: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(4 * (_value_noise(points * 4, rng) - 0.75) + 0.5)


def _scratches(points: Floats, rng: np.random.Generator) -> Floats:
    turn = rng.uniform(0, np.pi)
    c, s = np.cos(turn), np.sin(turn)
    turned = points @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T
    lines = _value_noise(turned * [25.0, 0.7, 25.0], rng)
    patches = _value_noise(points * 0.5, rng)
    return np.asarray(6 * (lines - 0.9) + patches * 0.6)


def _stains(points: Floats, rng: np.random.Generator) -> Floats:
    return np.asarray(3 * (_fbm(points, rng) - 0.62) + 0.5)


def _checker(points: Floats, _rng: np.random.Generator) -> Floats:
    return np.asarray(np.floor(points + 1e-6).sum(axis=-1) % 2)


def _gradient(points: Floats, rng: np.random.Generator) -> Floats:
    turn = rng.uniform(0, 2 * np.pi)
    along = points[..., 0] * np.cos(turn) + points[..., 1] * np.sin(turn)
    return np.asarray(0.5 + 0.5 * np.sin(along))


def _plain(points: Floats, _rng: np.random.Generator) -> Floats:
    return np.zeros(points.shape[:-1])


_PATTERNS: dict[str, Callable[[Floats, np.random.Generator], Floats]] = {
    "plain": _plain,
    "value": _value_noise,
    "perlin": _perlin,
    "fbm": _fbm,
    "worley": _worley,
    "marble": _marble,
    "wood": _wood,
    "speckle": _speckle,
    "scratches": _scratches,
    "stains": _stains,
    "checker": _checker,
    "gradient": _gradient,
}
