"""Environment maps: reading, sun extraction, prefiltered cube maps for image-based lighting.

Images are equirectangular; only the upper hemisphere lights the scene. Prefiltering follows Karis (2013,
"Real shading in Unreal Engine 4"): a GGX lobe with the view direction along the normal. The lobe is
radially symmetric, so each pair of rows is convolved in the frequency domain.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.errors import InputError
from sim2cam.geometry.poses import vec3
from sim2cam.scene.image_file import ImageFile
from sim2cam.scene.light import EnvironmentMap, Lamp

Floats = NDArray[np.float64]
Float32Array = NDArray[np.float32]

CUBE_MAP_PX = 512
ROUGHNESS_LEVELS = 7
"""Mip levels of the cube map; level i is for roughness i / (ROUGHNESS_LEVELS - 1)."""

_MAX_ROWS = 1024  # about the cube map's resolution
_IRRADIANCE_ROWS = 64  # image rows for irradiance
_LOBE_ROWS = (0, 128, 64, 64, 64, 64, 64)  # image rows from which each level is blurred
_MAX_RADIANCE = 6e4  # range of float16
_SUN_THRESHOLD = 8.0  # radiance above this multiple of the sky's mean belongs to the sun
_SUN_REACH_RAD = 0.35
_MIN_SUN_FRACTION = 0.1  # of the light; less casts no visible shadow
_SUN_RADIUS_RANGE_RAD = (0.005, 0.3)
_ASPECT_TOLERANCE = 0.02
# OpenGL cube faces (+x, -x, +y, -y, +z, -z): right, down and forward axis of each
_CUBE_FACE_AXES = np.array(
    [
        [[0, 0, -1], [0, -1, 0], [1, 0, 0]],
        [[0, 0, 1], [0, -1, 0], [-1, 0, 0]],
        [[1, 0, 0], [0, 0, 1], [0, 1, 0]],
        [[1, 0, 0], [0, 0, -1], [0, -1, 0]],
        [[1, 0, 0], [0, -1, 0], [0, 0, 1]],
        [[-1, 0, 0], [0, -1, 0], [0, 0, -1]],
    ],
    np.float64,
)


@functools.lru_cache(maxsize=4)
def read_sky(file: ImageFile) -> Float32Array:
    """Read the radiance (rows, 2 rows, 3) of an equirectangular image.

    Raises:
        InputError: The image is missing, damaged or changed, or its aspect ratio is not 2:1.
    """
    path = Path(file.path)
    images.check_digest(path, file.digest)
    radiance = images.read_linear_rgb(path)
    height, width = radiance.shape[:2]
    if height < 2 or abs(width / height - 2) > _ASPECT_TOLERANCE:
        raise InputError(
            path, f"is {width}x{height}; an environment map must be twice as wide as high."
        )
    return _resize(np.clip(radiance, 0, _MAX_RADIANCE), min(_MAX_ROWS, height))


def compute_texel_directions(rows: int) -> Floats:
    """Return the unit directions (rows, 2 rows, 3) of the texels of an equirectangular image."""
    polar = (np.arange(rows) + 0.5) / rows * math.pi
    azimuth = (np.arange(2 * rows) + 0.5) / rows * math.pi
    z, radius = np.cos(polar)[:, None], np.sin(polar)[:, None]
    parts = np.broadcast_arrays(radius * np.sin(azimuth), radius * np.cos(azimuth), z)
    return np.stack(parts, axis=-1)


def compute_solid_angles(rows: int) -> Floats:
    """Return the solid angle (rows,) of one texel in each row, steradians."""
    edges = np.cos(np.arange(rows + 1) / rows * math.pi)
    return np.asarray((edges[:-1] - edges[1:]) * math.pi / rows)


def extract_sun(radiance: Float32Array) -> Lamp | None:
    """Return the sun of an image (rows, 2 rows, 3) as a lamp.

    The sun is the light near the brightest texel above 8 times the sky's mean radiance.

    Returns:
        The lamp; None if the sun gives less than 10 % of the light.
    """
    is_near, threshold = _find_brightest_spot(radiance)
    level = radiance.mean(axis=-1)
    sun_fraction = np.where(
        is_near & (level > threshold), 1 - threshold / np.maximum(level, 1e-20), 0
    )
    solid_angle = compute_solid_angles(len(radiance))[:, None]
    light = (radiance * sun_fraction[..., None] * solid_angle[..., None]).sum(
        axis=(0, 1), dtype=np.float64
    )
    upper = slice(0, len(radiance) // 2)
    if light.mean() <= _MIN_SUN_FRACTION * (level[upper] * solid_angle[upper]).sum(
        dtype=np.float64
    ):
        return None
    directions = compute_texel_directions(len(radiance))
    weight = level * sun_fraction * solid_angle
    direction = (directions * weight[..., None]).sum(axis=(0, 1))
    direction /= np.linalg.norm(direction)
    # the lamp's lobe falls to 1/e at its radius, so the radius is the RMS angle
    angles = np.arccos(np.clip(directions @ direction, -1, 1))
    radius = math.sqrt((angles**2 * weight).sum() / weight.sum())
    return Lamp(vec3(direction), float(np.clip(radius, *_SUN_RADIUS_RANGE_RAD)), vec3(light))


def compute_sky_light(sky_image: EnvironmentMap, rows: int) -> Float32Array:
    """Return the radiance (rows, 2 rows, 3) of a sky before rotation, without an extracted sun."""
    radiance = read_sky(sky_image.file)
    if sky_image.is_sun_removed:
        is_near, threshold = _find_brightest_spot(radiance)
        level = radiance.mean(axis=-1)
        sky_fraction = np.where(
            is_near & (level > threshold), threshold / np.maximum(level, 1e-20), 1
        )
        radiance = radiance * sky_fraction[..., None].astype(np.float32)
    return _resize(radiance, rows) * np.float32(sky_image.radiance_scale)


def compute_rotated_sky_light(sky_image: EnvironmentMap, rows: int) -> Floats:
    """Return the radiance (rows, 2 rows, 3) of a sky after rotation, without an extracted sun."""
    sky_light = compute_sky_light(sky_image, rows).astype(np.float64)
    shift, fraction = divmod(sky_image.turn_rad / math.pi * rows, 1)
    left, right = (np.roll(sky_light, -int(shift) - step, axis=1) for step in (0, 1))
    return np.asarray((1 - fraction) * left + fraction * right)


def sample_upper_hemisphere(sky_image: EnvironmentMap) -> tuple[Floats, Floats, Floats]:
    """Return directions (n, 3), radiance (n, 3) and solid angles (n,) of the upper hemisphere."""
    half = _IRRADIANCE_ROWS // 2
    directions = rotate_about_vertical(
        compute_texel_directions(_IRRADIANCE_ROWS)[:half].reshape(-1, 3), sky_image.turn_rad
    )
    solid_angles = np.repeat(compute_solid_angles(_IRRADIANCE_ROWS)[:half], 2 * _IRRADIANCE_ROWS)
    return (
        directions,
        compute_sky_light(sky_image, _IRRADIANCE_ROWS)[:half].reshape(-1, 3).astype(np.float64),
        solid_angles,
    )


def rotate_about_vertical(directions: Floats, angle_rad: float) -> Floats:
    """Rotate directions (n, 3) about the vertical, from x to y."""
    c, s = math.cos(angle_rad), math.sin(angle_rad)
    return np.asarray(directions @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]))


def prefilter_cube_map(sky_image: EnvironmentMap) -> list[Float32Array]:
    """Return the mip levels (6, n, n, 3) of a sky's cube map before rotation, in OpenGL's face order.

    Level 0 holds the whole image. The others are for rough surfaces and hold the upper hemisphere's light.
    """
    levels = [_project_to_cube(compute_sky_light(sky_image, _MAX_ROWS), CUBE_MAP_PX)]
    for level in range(1, ROUGHNESS_LEVELS):
        rows = _LOBE_ROWS[level]
        light = compute_sky_light(sky_image, rows)
        from_above = np.concatenate([light[: rows // 2], light[: rows // 2][::-1]])
        blurred = blur_by_roughness(from_above, level / (ROUGHNESS_LEVELS - 1))
        levels.append(_project_to_cube(blurred, CUBE_MAP_PX >> level))
    return levels


def blur_by_roughness(radiance: Float32Array, roughness: float) -> Float32Array:
    """Blur an image (rows, 2 rows, 3) by the GGX lobe of a roughness above 0."""
    kernel = _make_ggx_kernel(roughness, len(radiance))
    spectrum = np.fft.rfft(radiance, axis=1)
    blurred_spectrum = np.einsum("ijk,jkc->ikc", kernel, spectrum, optimize=True)
    return np.fft.irfft(blurred_spectrum, n=radiance.shape[1], axis=1).astype(np.float32).clip(0)


@functools.lru_cache(maxsize=ROUGHNESS_LEVELS)
def _make_ggx_kernel(roughness: float, rows: int) -> NDArray[np.complex64]:
    """Return the weights (target rows, source rows, frequencies) of the GGX lobe."""
    polar = (np.arange(rows) + 0.5) / rows * math.pi
    azimuth = np.arange(2 * rows) / rows * math.pi
    cosines = (
        np.sin(polar)[:, None, None] * np.sin(polar)[:, None] * np.cos(azimuth)
        + np.cos(polar)[:, None, None] * np.cos(polar)[:, None]
    ).astype(np.float32)
    alpha_squared = roughness**4
    half_cosine_squared = (1 + cosines) / 2  # squared cosine of the half vector
    weight = cosines.clip(0) / (1 + half_cosine_squared * (alpha_squared - 1)) ** 2
    weight *= compute_solid_angles(rows).astype(np.float32)[:, None]
    weight /= weight.sum(axis=(1, 2), keepdims=True)
    return np.asarray(np.fft.rfft(weight, axis=2), np.complex64)


def _find_brightest_spot(radiance: Float32Array) -> tuple[NDArray[np.bool_], float]:
    """Return the mask (rows, 2 rows) around the brightest texel, and the sun's radiance threshold."""
    rows = len(radiance)
    level = radiance[: rows // 2].mean(axis=-1)
    solid_angle = compute_solid_angles(rows)[: rows // 2, None]
    mean = float((level * solid_angle).sum(dtype=np.float64) / (2 * math.pi))
    directions = compute_texel_directions(rows)
    peak = directions[np.unravel_index(int(level.argmax()), level.shape)]
    return directions @ peak > math.cos(_SUN_REACH_RAD), _SUN_THRESHOLD * mean


def _project_to_cube(radiance: Float32Array, side: int) -> Float32Array:
    """Project an equirectangular image to cube faces (6, n, n, 3)."""
    coordinates = ((np.arange(side) + 0.5) / side * 2 - 1).astype(np.float64)
    plane = np.stack([*np.meshgrid(coordinates, coordinates), np.ones((side, side))], axis=-1)
    return np.stack([sample_directions(radiance, plane @ axes) for axes in _CUBE_FACE_AXES])


def sample_directions(radiance: Float32Array, directions: Floats) -> Float32Array:
    """Return the radiance (h, w, 3) of an equirectangular image in directions (h, w, 3) of any length."""
    rows = len(radiance)
    padded = np.concatenate([radiance[:, -1:], radiance, radiance[:, :1]], axis=1)
    x, y, z = np.moveaxis(directions, -1, 0)
    column = np.arctan2(x, y) % (2 * math.pi) / math.pi * rows + 0.5
    row = np.arctan2(np.hypot(x, y), z) / math.pi * rows - 0.5
    maps = column.astype(np.float32), row.astype(np.float32)
    sampled = cv2.remap(padded, *maps, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(sampled, np.float32)


def _resize(radiance: NDArray[Any], rows: int) -> Float32Array:
    if len(radiance) == rows:
        return np.asarray(radiance, np.float32)
    is_smaller = len(radiance) > rows
    interpolation_mode = cv2.INTER_AREA if is_smaller else cv2.INTER_LINEAR
    resized = cv2.resize(radiance, (2 * rows, rows), interpolation=interpolation_mode)
    return np.asarray(resized, np.float32)
