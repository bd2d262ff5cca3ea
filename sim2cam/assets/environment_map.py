"""Skies that were photographed: what surfaces of any roughness mirror of them, and their sun.

Light comes from above alone: below the horizon lies the table. What a rough surface mirrors is the
picture blurred, as Karis (2013, "Real shading in Unreal Engine 4") has it: by the GGX lobe of an eye
that looks straight down the normal. That lobe is round, so blurring is a product in the frequencies
around the vertical, row by row.
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
"""Of the cube; level i is for the roughness i / (LEVELS - 1)."""

_MAX_ROWS = 1024  # that are kept of a picture: about the texels of the cube
_IRRADIANCE_ROWS = 64  # that irradiance is reckoned from
_LOBE_ROWS = (0, 128, 64, 64, 64, 64, 64)  # of the picture that each level is blurred from
_MAX_RADIANCE = 6e4  # as half floats hold it
_SUN_THRESHOLD = 8.0  # radiance above which light of the brightest spot is the sun's
_SUN_REACH_RAD = 0.35
_MIN_SUN_FRACTION = 0.1  # of all light; less casts no shadow that could be seen
_SUN_RADIUS_RANGE_RAD = (0.005, 0.3)
_ASPECT_TOLERANCE = 0.02
# rows of what GL's faces of a cube (+x, -x, +y, -y, +z, -z) see: to the right, down, and ahead
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
    """Return the radiance (rows, 2 rows, 3) of a picture of light from all around.

    Raises:
        InputError: it is missing, damaged, not twice as wide as high, or not what it was.
    """
    path = Path(file.path)
    images.check_digest(path, file.digest)
    radiance = images.read_linear_rgb(path)
    height, width = radiance.shape[:2]
    if height < 2 or abs(width / height - 2) > _ASPECT_TOLERANCE:
        raise InputError(
            path, f"{width}x{height}: light from all around takes a picture twice as wide as high."
        )
    return _resize(np.clip(radiance, 0, _MAX_RADIANCE), min(_MAX_ROWS, height))


def compute_texel_directions(rows: int) -> Floats:
    """Return where the texels of a picture look, unit vectors (rows, 2 rows, 3)."""
    polar = (np.arange(rows) + 0.5) / rows * math.pi
    around = (np.arange(2 * rows) + 0.5) / rows * math.pi
    z, radius = np.cos(polar)[:, None], np.sin(polar)[:, None]
    parts = np.broadcast_arrays(radius * np.sin(around), radius * np.cos(around), z)
    return np.stack(parts, axis=-1)


def compute_solid_angles(rows: int) -> Floats:
    """Return those of the texels of each row of a picture (rows,)."""
    edges = np.cos(np.arange(rows + 1) / rows * math.pi)
    return np.asarray((edges[:-1] - edges[1:]) * math.pi / rows)


def extract_sun(radiance: Float32Array) -> Lamp | None:
    """Return the brightest spot of a picture (rows, 2 rows, 3) as a lamp.

    None when what is there and more than eight times as bright as the mean of the sky is less than a
    tenth of all light.
    """
    near, cap = _find_brightest_spot(radiance)
    level = radiance.mean(axis=-1)
    above = np.where(near & (level > cap), 1 - cap / np.maximum(level, 1e-20), 0)
    solid = compute_solid_angles(len(radiance))[:, None]
    light = (radiance * above[..., None] * solid[..., None]).sum(axis=(0, 1), dtype=np.float64)
    upper = slice(0, len(radiance) // 2)
    if light.mean() <= _MIN_SUN_FRACTION * (level[upper] * solid[upper]).sum(dtype=np.float64):
        return None
    towards = compute_texel_directions(len(radiance))
    weight = level * above * solid
    middle = (towards * weight[..., None]).sum(axis=(0, 1))
    middle /= np.linalg.norm(middle)
    # a lamp's lobe falls to 1/e at its radius, whose square is then the mean square of the angles
    away = np.arccos(np.clip(towards @ middle, -1, 1))
    radius = math.sqrt((away**2 * weight).sum() / weight.sum())
    return Lamp(vec3(middle), float(np.clip(radius, *_SUN_RADIUS_RANGE_RAD)), vec3(light))


def compute_sky_light(sky_image: EnvironmentMap, rows: int) -> Float32Array:
    """Return the radiance (rows, 2 rows, 3) that a sky sheds, without what its lamp stands for.

    It is not turned.
    """
    radiance = read_sky(sky_image.file)
    if sky_image.is_sun_removed:
        near, cap = _find_brightest_spot(radiance)
        level = radiance.mean(axis=-1)
        share = np.where(near & (level > cap), cap / np.maximum(level, 1e-20), 1)
        radiance = radiance * share[..., None].astype(np.float32)
    return _resize(radiance, rows) * np.float32(sky_image.radiance_scale)


def compute_rotated_sky_light(sky_image: EnvironmentMap, rows: int) -> Floats:
    """Return the radiance (rows, 2 rows, 3) of ``compute_sky_light``, turned as the sky is."""
    light = compute_sky_light(sky_image, rows).astype(np.float64)
    whole, rest = divmod(sky_image.turn_rad / math.pi * rows, 1)
    near, far = (np.roll(light, -int(whole) - step, axis=1) for step in (0, 1))
    return np.asarray((1 - rest) * near + rest * far)


def sample_upper_hemisphere(sky_image: EnvironmentMap) -> tuple[Floats, Floats, Floats]:
    """Return the light from above: directions (n, 3), radiance (n, 3) and solid angles (n,)."""
    half = _IRRADIANCE_ROWS // 2
    around = rotate_about_vertical(
        compute_texel_directions(_IRRADIANCE_ROWS)[:half].reshape(-1, 3), sky_image.turn_rad
    )
    solid = np.repeat(compute_solid_angles(_IRRADIANCE_ROWS)[:half], 2 * _IRRADIANCE_ROWS)
    return (
        around,
        compute_sky_light(sky_image, _IRRADIANCE_ROWS)[:half].reshape(-1, 3).astype(np.float64),
        solid,
    )


def rotate_about_vertical(directions: Floats, angle_rad: float) -> Floats:
    """Return directions (n, 3) turned about the vertical, from x to y."""
    c, s = math.cos(angle_rad), math.sin(angle_rad)
    return np.asarray(directions @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]))


def prefilter_cube_map(sky_image: EnvironmentMap) -> list[Float32Array]:
    """Return what mirrors show of a sky that is not turned, as levels (6, n, n, 3) of GL's cubes.

    The first has the whole picture, as cameras see it too; the others are of rough surfaces, and of
    the light from above.
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
    """Return a picture (rows, 2 rows, 3) as surfaces of a roughness above 0 mirror it."""
    lobe = _make_ggx_kernel(roughness, len(radiance))
    waves = np.fft.rfft(radiance, axis=1)
    mixed = np.einsum("ijk,jkc->ikc", lobe, waves, optimize=True)
    return np.fft.irfft(mixed, n=radiance.shape[1], axis=1).astype(np.float32).clip(0)


@functools.lru_cache(maxsize=ROUGHNESS_LEVELS)
def _make_ggx_kernel(roughness: float, rows: int) -> NDArray[np.complex64]:
    """Return the share of each frequency of each row in each row (rows, rows, frequencies)."""
    polar = (np.arange(rows) + 0.5) / rows * math.pi
    around = np.arange(2 * rows) / rows * math.pi
    cosines = (
        np.sin(polar)[:, None, None] * np.sin(polar)[:, None] * np.cos(around)
        + np.cos(polar)[:, None, None] * np.cos(polar)[:, None]
    ).astype(np.float32)
    wide = roughness**4
    facing = (1 + cosines) / 2  # the squared cosine of the facet that mirrors
    weight = cosines.clip(0) / (1 + facing * (wide - 1)) ** 2
    weight *= compute_solid_angles(rows).astype(np.float32)[:, None]
    weight /= weight.sum(axis=(1, 2), keepdims=True)
    return np.asarray(np.fft.rfft(weight, axis=2), np.complex64)


def _find_brightest_spot(radiance: Float32Array) -> tuple[NDArray[np.bool_], float]:
    """Return what (rows, 2 rows) is near the brightest texel of the sky, and what the sun is above."""
    rows = len(radiance)
    level = radiance[: rows // 2].mean(axis=-1)
    solid = compute_solid_angles(rows)[: rows // 2, None]
    mean = float((level * solid).sum(dtype=np.float64) / (2 * math.pi))
    towards = compute_texel_directions(rows)
    peak = towards[np.unravel_index(int(level.argmax()), level.shape)]
    return towards @ peak > math.cos(_SUN_REACH_RAD), _SUN_THRESHOLD * mean


def _project_to_cube(radiance: Float32Array, side: int) -> Float32Array:
    """Return a picture as the faces (6, n, n, 3) of a cube."""
    rows = len(radiance)
    line = ((np.arange(side) + 0.5) / side * 2 - 1).astype(np.float64)
    plane = np.stack([*np.meshgrid(line, line), np.ones((side, side))], axis=-1)
    wide = np.concatenate([radiance[:, -1:], radiance, radiance[:, :1]], axis=1)
    faces = []
    for axes in _CUBE_FACE_AXES:
        x, y, z = np.moveaxis(plane @ axes, -1, 0)
        column = np.arctan2(x, y) % (2 * math.pi) / math.pi * rows + 0.5
        row = np.arctan2(np.hypot(x, y), z) / math.pi * rows - 0.5
        at = column.astype(np.float32), row.astype(np.float32)
        faces.append(cv2.remap(wide, *at, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))
    return np.stack(faces)


def _resize(radiance: NDArray[Any], rows: int) -> Float32Array:
    if len(radiance) == rows:
        return np.asarray(radiance, np.float32)
    shrinks = len(radiance) > rows
    way = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(radiance, (2 * rows, rows), interpolation=way), np.float32)
