"""Simulated test chart of flat greys and straight edges, and the features to compare with photos.

Photos and chart images are measured in the same way; the parameters with which both agree are those
of the camera (indirect inference, Gourieroux, Monfort and Renault 1993). So denoising, sharpening,
rounding and JPEG need no analytic model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.calibration.edges import (
    MAX_EDGES,
    estimate_blur_anisotropy,
    find_edges,
    fit_edges,
)
from sim2cam.adapt.calibration.linearization import decode_levels
from sim2cam.adapt.calibration.noise import LEVEL_BINS, FlatTiles, extract_flat_tiles
from sim2cam.render.sensor.auto_exposure import choose_settings
from sim2cam.render.sensor.sensor import capture_image
from sim2cam.scene.sensor import Sensor

Floats = NDArray[np.float64]

_FLAT_PX = (96, 192)
_CHECKERBOARD_PX = 192
_SQUARE_PX = 24  # side of a check
_ROTATION_RAD = 0.2  # of the checkerboard
_OVERSAMPLING = 8
_DARK_LEVEL, _BRIGHT_LEVEL = 45, 170  # levels of the checks
_RENDERER_BLUR_PX = 0.47
"""Standard deviation of the renderer's own blur at printed edges, measured."""


@dataclass(frozen=True, eq=False)
class SensorFeatures:
    """Features of an image that determine its sensor.

    Attributes:
        flat_tiles: flat tiles.
        edge_blur_sharpening: (2,) median blur and sharpening of edges; NaN with too few.
        blur_anisotropy: (2,) result of ``edges.estimate_blur_anisotropy``.
    """

    flat_tiles: FlatTiles
    edge_blur_sharpening: Floats
    blur_anisotropy: Floats


def measure_sensor_features(rgb: NDArray[np.uint8], *, is_color: bool = True) -> SensorFeatures:
    """Measure the sensor features of an image.

    Args:
        rgb: (h, w, 3) levels.
        is_color: whether the file stores colour.
    """
    return SensorFeatures(
        extract_flat_tiles(rgb, is_color=is_color), *_measure_edges(rgb, _MAX_ANISOTROPY_EDGES)
    )


def simulate_chart_features(sensor: Sensor) -> SensorFeatures:
    """Return the sensor features of the simulated chart, independent of exposure."""
    return SensorFeatures(
        simulate_chart_tiles(sensor),
        *_measure_edges(_render_chart(_make_checkerboard(), sensor), MAX_EDGES),
    )


def simulate_chart_tiles(sensor: Sensor) -> FlatTiles:
    """Return the flat tiles of the simulated chart."""
    return extract_flat_tiles(_render_chart(_make_flat_chart(), sensor))


def _measure_edges(rgb: NDArray[np.uint8], max_edges: int) -> tuple[Floats, Floats]:
    """Return median blur and sharpening of the steepest edges, and the anisotropy of all."""
    grey = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)
    edges = find_edges(grey, max_edges)
    steepest, others = (fit_edges(part) for part in (edges[:MAX_EDGES], edges[MAX_EDGES:]))
    if len(steepest) < _MIN_EDGES:
        return np.full(2, np.nan), np.full(2, np.nan)
    return np.median(steepest[:, :2], axis=0), estimate_blur_anisotropy(
        np.concatenate([steepest, others])
    )


_MIN_EDGES = 6
_MAX_ANISOTROPY_EDGES = 160  # more than for sharpness, as the steepest are not blurred by motion


def _render_chart(radiance: NDArray[np.float32], sensor: Sensor) -> NDArray[np.uint8]:
    """Return an image (h, w, 3) in which a radiance of 1 is white."""
    exposure = float(np.log2(1 / choose_settings(radiance, None).gain))
    exposed = replace(sensor, exposure_ev=exposure, vignetting=0.0)
    return images.decode_image(capture_image(radiance.copy(), exposed).encoded)


@cache
def _make_flat_chart() -> NDArray[np.float32]:
    """Return the radiance (h, w, 3) of flat greys at the centres of the level bins."""
    centers = (LEVEL_BINS[1:] + LEVEL_BINS[:-1]) / 2
    greys = [np.full(_FLAT_PX, light) for light in decode_levels(centers)]
    half = len(greys) // 2
    return _to_grey_rgb(np.hstack([np.vstack(greys[:half]), np.vstack(greys[half:])]))


@cache
def _make_checkerboard() -> NDArray[np.float32]:
    """Return the radiance (h, w, 3) of a rotated checkerboard."""
    y, x = (
        np.mgrid[: _CHECKERBOARD_PX * _OVERSAMPLING, : _CHECKERBOARD_PX * _OVERSAMPLING] + 0.5
    ) / _OVERSAMPLING
    u = x * np.cos(_ROTATION_RAD) + y * np.sin(_ROTATION_RAD)
    v = y * np.cos(_ROTATION_RAD) - x * np.sin(_ROTATION_RAD)
    is_bright = (np.floor(u / _SQUARE_PX) + np.floor(v / _SQUARE_PX)) % 2
    blurred = cv2.GaussianBlur(is_bright, (0, 0), _RENDERER_BLUR_PX * _OVERSAMPLING)
    share = blurred.reshape(_CHECKERBOARD_PX, _OVERSAMPLING, _CHECKERBOARD_PX, _OVERSAMPLING).mean(
        axis=(1, 3)
    )
    dark, light = decode_levels(np.array([_DARK_LEVEL, _BRIGHT_LEVEL]))
    return _to_grey_rgb(dark + (light - dark) * share)


def _to_grey_rgb(radiance: Floats) -> NDArray[np.float32]:
    return np.repeat(radiance.astype(np.float32)[..., None], 3, axis=-1)
