"""Procedural and image textures: functions from points in space to colours. Deterministic.

Points are three coordinate arrays that broadcast against each other. On separable grids, such as
planes and cube faces, noise takes a few small matrix products instead of eight lookups per point.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates
from scipy.spatial import cKDTree

from sim2cam import images
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.material import Texture

Floats = NDArray[np.float64]

Coordinates = tuple[Floats, Floats, Floats]
"""x, y and z of points, as arrays that broadcast against each other."""

Pattern = Callable[[Coordinates], Floats]
"""Function from points, in units of the largest feature, to levels in about 0..1."""

_LATTICE_CELLS = 32  # period of noise along each axis
MAX_REPEAT_M = 0.48
"""Maximum side of planar textures, which repeat beyond."""

_TEXELS_PER_M = 1600
_MAX_TEXELS = 2048
_MAX_IMAGE_PX = 4096
_SRGB_STEPS = 65535
_CHUNK_SIZE = 2**15  # values per chunk: intermediate arrays fit the processor cache
_MIN_OPACITY = 1e-4


@functools.lru_cache(maxsize=16)
def render_plane_texture(texture: Texture, span_m: float) -> NDArray[np.uint8]:
    """Render a square sRGB texture (n, n, 3) of the plane z = 0, ``span_m`` metres wide.

    Row 0 is y = 0, column 0 is x = 0.
    """
    n = count_texels(span_m)
    if texture.family == "plain" and texture.image is None:
        n = 1
    return encode_srgb(make_color_sampler(texture)(make_texel_points(texture, n, span_m)))


def count_texels(span_m: float) -> int:
    """Return the number of texels per side of a texture of some metres."""
    return int(np.clip(span_m * _TEXELS_PER_M, 16, _MAX_TEXELS))


def make_texel_points(texture: Texture, side_px: int, span_m: float) -> Coordinates:
    """Return the coordinates of n by n texels of a square on the plane z = 0, lowest row first.

    The origin is the corner of the square; photos are centred on the square.
    """
    coordinates = (np.arange(side_px) + 0.5) / side_px * span_m
    right, up = (
        [(side - span_m) / 2 for side in get_photo_size_m(texture)]
        if is_photo(texture)
        else (0.0, 0.0)
    )
    return coordinates + right, (coordinates + up)[:, None], np.zeros(1)


def is_photo(texture: Texture) -> bool:
    """Return whether a texture is one image of a large surface rather than a repeating material."""
    return texture.image is not None and texture.scale_m > MAX_REPEAT_M


def get_photo_size_m(texture: Texture) -> tuple[float, float]:
    """Return width and height of an image texture in metres; raises like ``load_linear_image``."""
    assert texture.image is not None
    height, width = load_linear_image(texture.image, _MAX_TEXELS).shape[:2]
    return texture.scale_m, texture.scale_m * height / width


def make_color_sampler(texture: Texture) -> Callable[[Coordinates], Floats]:
    """Return the function from points in metres to linear colours (..., 3) of a texture."""
    if texture.image is not None:
        return make_image_sampler(texture.image, texture.scale_m)
    level_at = make_level_sampler(texture)
    a, b = np.array(texture.color_a), np.array(texture.color_b)

    def colors(points_m: Coordinates) -> Floats:
        level = level_at(points_m)
        level = texture.contrast * level * level * (3 - 2 * level)
        return np.asarray(a + level[..., None] * (b - a))

    return colors


def make_level_sampler(texture: Texture) -> Pattern:
    """Return the function from points in metres to levels, 0 to 1, of a procedural texture."""
    pattern = _PATTERN_MAKERS[texture.family](np.random.default_rng(texture.seed))
    width = max(1e-3, 1 - texture.sharpness)

    def level_at(points_m: Coordinates) -> Floats:
        x, y, z = points_m
        scale = texture.scale_m
        level = pattern((x / scale, y / scale, z / scale))
        return np.asarray(np.clip((level - 0.5) / width + 0.5, 0, 1))

    return level_at


def make_image_sampler(image_file: ImageFile, width_m: float) -> Callable[[Coordinates], Floats]:
    """Return the function from points in metres to linear colours (h, w, 3) of an image.

    The image lies on the plane z = 0 and is extruded obliquely, so that it keeps its scale on all
    axis-aligned planes. Raises like ``load_linear_image``.
    """
    pixels = load_linear_image(image_file, int(np.clip(width_m * _TEXELS_PER_M, 1, _MAX_IMAGE_PX)))
    px_per_m = pixels.shape[1] / width_m

    def colors(points_m: Coordinates) -> Floats:
        x, y, z = points_m
        across, up = np.broadcast_arrays(x + z, y + z)
        column = (across * px_per_m - 0.5).astype(np.float32)
        row = (len(pixels) - 0.5 - up * px_per_m).astype(np.float32)
        # mirrored repeat, as for all textures
        colors_rgb = cv2.remap(pixels, column, row, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT)
        return np.asarray(colors_rgb, np.float64)

    return colors


@functools.lru_cache(maxsize=8)
def load_linear_image(image_file: ImageFile, max_width_px: int) -> NDArray[np.float32]:
    """Load an image as linear colours (h, w, 3), downscaled to a maximum width.

    Raises:
        InputError: the image is missing, damaged or has changed.
    """
    path = Path(image_file.path)
    images.check_digest(path, image_file.digest)
    pixels = images.read_linear_rgb(path)
    if pixels.shape[1] <= max_width_px:
        return pixels
    return _downscale(pixels, max_width_px)


@functools.lru_cache(maxsize=8)
def load_cutout_image(image_file: ImageFile, max_width_px: int) -> NDArray[np.float32]:
    """Load linear colours and opacity (h, w, 4); arguments and errors as ``load_linear_image``."""
    pixels = load_linear_image(image_file, max_width_px)
    layers = images.read_full_depth(Path(image_file.path))
    if layers is None or layers.alpha is None:
        return np.dstack([pixels, np.ones(pixels.shape[:2], np.float32)])
    maximum = np.iinfo(layers.rgb.dtype).max
    opacity = (layers.alpha / maximum).astype(np.float32)
    colors = images.SRGB_TO_LINEAR[np.round(layers.rgb * (255 / maximum)).astype(np.uint8)]
    # colours of transparent pixels are meaningless, so colours are weighted by opacity
    rgba = np.dstack([colors * opacity[..., None], opacity])
    rgba = _downscale(rgba, max_width_px) if rgba.shape[1] > max_width_px else rgba
    nearby = cv2.blur(rgba, (3, 3))  # colours for interpolation next to transparent texels
    weighted = np.where(rgba[..., 3:] > 0, rgba, nearby)
    rgba[..., :3] = weighted[..., :3] / np.maximum(weighted[..., 3:], _MIN_OPACITY)
    return np.asarray(rgba)


def _downscale(pixels: NDArray[np.float32], width_px: int) -> NDArray[np.float32]:
    height, width = pixels.shape[:2]
    size = (width_px, max(1, round(height * width_px / width)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.float32)


@functools.cache
def _make_srgb_table() -> NDArray[np.uint8]:
    """Return the sRGB bytes of all levels from 0 to 1 (IEC 61966-2-1)."""
    linear = np.arange(_SRGB_STEPS + 1) / _SRGB_STEPS
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.power(linear, 1 / 2.4) - 0.055)
    return np.asarray(np.round(255 * srgb), dtype=np.uint8)


def encode_srgb(linear: NDArray[np.floating[Any]]) -> NDArray[np.uint8]:
    """Encode linear values in 0..1 as sRGB bytes."""
    encoded = np.empty(linear.shape, np.uint8)
    values, bytes_out, table = linear.reshape(-1), encoded.reshape(-1), _make_srgb_table()
    for first in range(0, bytes_out.size, _CHUNK_SIZE):
        chunk = slice(first, first + _CHUNK_SIZE)
        levels = np.clip(values[chunk], 0, 1)
        levels *= _SRGB_STEPS
        table.take(np.rint(levels, out=levels).astype(np.uint16), out=bytes_out[chunk], mode="clip")
    return encoded


def _make_value_noise(rng: np.random.Generator) -> Pattern:
    """Return value noise in 0..1: random values at integer points, interpolated smoothly."""
    lattice = rng.random((_LATTICE_CELLS, _LATTICE_CELLS, _LATTICE_CELLS))
    shift = rng.uniform(0, _LATTICE_CELLS, 3)

    def level(points: Coordinates) -> Floats:
        shifted = [c + s for c, s in zip(points, shift, strict=True)]
        return (
            _interpolate_on_grid(lattice, shifted)
            if _is_separable_grid(shifted)
            else _interpolate_at_points(lattice, shifted)
        )

    return level


def _is_separable_grid(points: Sequence[Floats]) -> bool:
    """Return whether each coordinate varies along its own axis."""
    shape = np.broadcast_shapes(*(c.shape for c in points))
    return math.prod(c.size for c in points) == math.prod(shape)


def _interpolate_on_grid(lattice: Floats, points: Sequence[Floats]) -> Floats:
    """Interpolate the lattice on a separable grid."""
    values = lattice
    # smallest first, to shrink intermediate arrays
    for axis in sorted(range(3), key=lambda i: points[i].size):
        weights = _compute_lattice_weights(points[axis].ravel())
        values = np.moveaxis(np.tensordot(values, weights, (axis, 1)), -1, axis)
    shape = np.broadcast_shapes(*(c.shape for c in points))
    axes = [_find_axis(c, len(shape)) for c in points]
    order = sorted(range(3), key=lambda i: axes[i])
    return np.asarray(values.transpose(order).reshape(shape))


def _find_axis(coordinate: Floats, dimensions: int) -> int:
    """Return the axis along which a coordinate varies; -1 if it is constant."""
    axes = [
        axis for axis, size in enumerate(coordinate.shape, dimensions - coordinate.ndim) if size > 1
    ]
    return axes[0] if axes else -1


def _compute_lattice_weights(coordinate: Floats) -> Floats:
    """Return the weights (n, lattice) of lattice points at coordinates (n,)."""
    cell, fade = _split_cells(coordinate)
    weights = np.zeros((len(coordinate), _LATTICE_CELLS))
    rows = np.arange(len(coordinate))
    weights[rows, cell % _LATTICE_CELLS] = 1 - fade
    weights[rows, (cell + 1) % _LATTICE_CELLS] = fade
    return weights


def _interpolate_at_points(lattice: Floats, points: Sequence[Floats]) -> Floats:
    cells, fades = zip(*(_split_cells(c) for c in points), strict=True)
    corners = np.stack(np.broadcast_arrays(*(c + f for c, f in zip(cells, fades, strict=True))))
    flat_corners = corners.reshape(3, -1) % _LATTICE_CELLS
    values = map_coordinates(lattice, flat_corners, order=1, mode="grid-wrap", prefilter=False)
    return np.asarray(values.reshape(corners.shape[1:]))


def _split_cells(coordinate: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Return the integer part of coordinates, and the smoothed fraction."""
    cell = np.floor(coordinate)
    t = coordinate - cell
    return cell.astype(np.intp), t * t * t * (t * (6 * t - 15) + 10)


def _make_perlin(rng: np.random.Generator) -> Pattern:
    """Return gradient noise in about 0..1 (Perlin 1985, 2002)."""
    gradients = rng.standard_normal((3, _LATTICE_CELLS, _LATTICE_CELLS, _LATTICE_CELLS))
    gradients /= np.linalg.norm(gradients, axis=0)
    shift = rng.uniform(0, _LATTICE_CELLS, 3)

    def level(points: Coordinates) -> Floats:
        shifted = [c + s for c, s in zip(points, shift, strict=True)]
        cells, fades = zip(*(_split_cells(c) for c in shifted), strict=True)
        total = np.zeros(np.broadcast_shapes(*(c.shape for c in points)))
        for corner in itertools.product((0, 1), repeat=3):
            index = tuple((c + d) % _LATTICE_CELLS for c, d in zip(cells, corner, strict=True))
            offsets = [x - c - d for x, c, d in zip(shifted, cells, corner, strict=True)]
            gradient_dot = sum(
                g[index] * offset for g, offset in zip(gradients, offsets, strict=True)
            )
            weights = [f if d else 1 - f for f, d in zip(fades, corner, strict=True)]
            total += weights[0] * weights[1] * weights[2] * gradient_dot
        return np.asarray(total * 0.9 + 0.5)

    return level


def _make_fbm(rng: np.random.Generator) -> Pattern:
    """Return fractal Brownian motion in about 0..1: octaves of noise with halved amplitudes."""
    octaves = [_make_value_noise(rng) for _ in range(4)]

    def level(points: Coordinates) -> Floats:
        parts = (
            (noise(_scale_points(points, 2**i)) - 0.5) * 0.5**i for i, noise in enumerate(octaves)
        )
        return np.asarray(sum(parts) + 0.5)

    return level


def _make_worley(rng: np.random.Generator) -> Pattern:
    """Return the distance to the nearest feature point, one random point per cell (Worley 1996)."""
    lattice = rng.random((_LATTICE_CELLS, _LATTICE_CELLS, _LATTICE_CELLS, 3))

    def level(points: Coordinates) -> Floats:
        ranges = [(math.floor(c.min()) - 1, math.floor(c.max()) + 2) for c in points]
        axes = [np.arange(*bounds) for bounds in ranges]
        cells = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        features = cells + lattice[tuple(np.moveaxis(cells % _LATTICE_CELLS, -1, 0))]
        flat_points = np.stack(np.broadcast_arrays(*points), axis=-1)
        distance, _ = cKDTree(features).query(flat_points)
        return np.asarray(distance)

    return level


def _make_marble(rng: np.random.Generator) -> Pattern:
    bend = _make_fbm(rng)
    return lambda p: np.asarray(0.5 + 0.5 * np.sin(np.pi * (p[0] + 5 * (bend(p) - 0.5))))


def _make_wood(rng: np.random.Generator) -> Pattern:
    bend, grain = _make_value_noise(rng), _make_value_noise(rng)

    def level(points: Coordinates) -> Floats:
        rings = 3 * (points[0] + 0.7 * bend(_scale_points(points, 1.0, 0.08, 1.0)))
        fibres = grain(_scale_points(points, 40.0, 0.12, 40.0))
        return np.asarray(0.75 * (rings - np.floor(rings)) + 0.25 * fibres)

    return level


def _make_speckle(rng: np.random.Generator) -> Pattern:
    noise = _make_value_noise(rng)
    return lambda p: np.asarray(4 * (noise(_scale_points(p, 4)) - 0.75) + 0.5)


def _make_scratches(rng: np.random.Generator) -> Pattern:
    angle = rng.uniform(0, np.pi)
    c, s = np.cos(angle), np.sin(angle)
    streaks, patches = _make_value_noise(rng), _make_value_noise(rng)

    def level(points: Coordinates) -> Floats:
        x, y, z = points
        rotated = (25 * (c * x - s * y), 0.7 * (s * x + c * y), 25 * z)
        return np.asarray(6 * (streaks(rotated) - 0.9) + patches(_scale_points(points, 0.5)) * 0.6)

    return level


def _make_stains(rng: np.random.Generator) -> Pattern:
    patches = _make_fbm(rng)
    return lambda p: np.asarray(3 * (patches(p) - 0.62) + 0.5)


def _make_checker(_rng: np.random.Generator) -> Pattern:
    return lambda p: np.asarray(sum(np.floor(c + 1e-6) for c in p) % 2)


def _make_gradient(rng: np.random.Generator) -> Pattern:
    angle = rng.uniform(0, 2 * np.pi)
    c, s = np.cos(angle), np.sin(angle)
    return lambda p: np.asarray(0.5 + 0.5 * np.sin(p[0] * c + p[1] * s + 0 * p[2]))


def _make_weave(rng: np.random.Generator) -> Pattern:
    """Return a plain weave with two threads per unit and direction."""
    slack = _make_value_noise(rng)

    def level(points: Coordinates) -> Floats:
        offset = 0.15 * (slack(_scale_points(points, 0.7)) - 0.5)
        x, y = 2 * points[0] + offset + 0 * points[2], 2 * points[1] + offset + 0 * points[2]
        is_warp = (np.floor(x) + np.floor(y)) % 2 > 0
        return np.asarray(np.abs(np.sin(np.pi * np.where(is_warp, x, y))))

    return level


def _make_brushed(rng: np.random.Generator) -> Pattern:
    """Return fine streaks along x, one unit long."""
    broad, fine = _make_value_noise(rng), _make_value_noise(rng)

    def level(points: Coordinates) -> Floats:
        streaks = 0.6 * broad(_scale_points(points, 1.0, 12.0, 12.0))
        return np.asarray(streaks + 0.4 * fine(_scale_points(points, 2.0, 29.0, 29.0)))

    return level


def _make_plain(_rng: np.random.Generator) -> Pattern:
    return lambda p: np.zeros(np.broadcast_shapes(*(c.shape for c in p)))


def _scale_points(points: Coordinates, *factors: float) -> Coordinates:
    """Scale points by one factor, or one per axis."""
    x, y, z = factors if len(factors) == 3 else factors * 3
    return points[0] * x, points[1] * y, points[2] * z


_PATTERN_MAKERS: dict[str, Callable[[np.random.Generator], Pattern]] = {
    "plain": _make_plain,
    "value": _make_value_noise,
    "perlin": _make_perlin,
    "fbm": _make_fbm,
    "worley": _make_worley,
    "marble": _make_marble,
    "wood": _make_wood,
    "speckle": _make_speckle,
    "scratches": _make_scratches,
    "stains": _make_stains,
    "checker": _make_checker,
    "gradient": _make_gradient,
    "weave": _make_weave,
    "brushed": _make_brushed,
}
