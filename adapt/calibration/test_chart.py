"""The chart: flat greys and straight edges, as a sensor with given numbers would show them.

What is measured in photos is measured in pictures of the chart in just the same way; the numbers
with which both agree are those of the camera (indirect inference, Gourieroux, Monfort and Renault
1993). So denoising, sharpening, rounding and JPEG need no formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.adapt.calibration.edges import MOST_EDGES, find_edges, fit_edges, smear
from sim2cam.adapt.calibration.linearization import decoded
from sim2cam.adapt.calibration.noise import LEVEL_BINS, FlatTiles, flat_tiles
from sim2cam.render.sensor.auto_exposure import choose
from sim2cam.render.sensor.sensor import take
from sim2cam.scene.sensor import Sensor

Floats = NDArray[np.float64]

_FLAT_PX = (96, 192)
_CHECKS_PX = 192
_CHECK_PX = 24  # side of a check
_TURN_RAD = 0.2  # of the checks
_FINER = 8
_DARK, _BRIGHT = 45, 170  # levels of the checks
_OWN_BLUR_PX = 0.47
"""Standard deviation that the renderer adds at the edges of prints, measured."""


@dataclass(frozen=True, eq=False)
class Marks:
    """What is measured in a picture to tell its sensor.

    Attributes:
        flat: its flattest tiles.
        edges: medians of blur and sharpening (2,) over its edges; NaN where there are hardly any.
        smear: how much its blur differs by direction (2,), as ``edges.smear`` has it.
    """

    flat: FlatTiles
    edges: Floats
    smear: Floats


def marks(rgb: NDArray[np.uint8], *, colored: bool = True) -> Marks:
    """Returns the marks of a picture.

    Args:
        rgb: (h, w, 3).
        colored: whether its file holds colours.
    """
    return Marks(flat_tiles(rgb, colored=colored), *_edge_marks(rgb, _SMEARED_EDGES))


def chart_marks(sensor: Sensor) -> Marks:
    """Returns the marks of the chart as a sensor shows it, whatever its exposure."""
    return Marks(chart_tiles(sensor), *_edge_marks(_shown(_checks(), sensor), MOST_EDGES))


def chart_tiles(sensor: Sensor) -> FlatTiles:
    """Returns the flat tiles of the chart alone."""
    return flat_tiles(_shown(_flats(), sensor))


def _edge_marks(rgb: NDArray[np.uint8], most: int) -> tuple[Floats, Floats]:
    """Returns blur and sharpening of the steepest edges, and the smear of so many."""
    grey = np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8)
    edges = find_edges(grey, most)
    steepest, others = (fit_edges(part) for part in (edges[:MOST_EDGES], edges[MOST_EDGES:]))
    if len(steepest) < _LEAST_EDGES:
        return np.full(2, np.nan), np.full(2, np.nan)
    return np.median(steepest[:, :2], axis=0), smear(np.concatenate([steepest, others]))


_LEAST_EDGES = 6
_SMEARED_EDGES = 160  # the steepest are those that are not smeared


def _shown(light: NDArray[np.float32], sensor: Sensor) -> NDArray[np.uint8]:
    """Returns a picture (h, w, 3) in which light of 1 is white."""
    exposure = float(np.log2(1 / choose(light, None).gain))
    exposed = replace(sensor, exposure_ev=exposure, vignetting=0.0)
    return images.decode_picture(take(light.copy(), exposed).file)


@cache
def _flats() -> NDArray[np.float32]:
    """Returns the light (h, w, 3) of flat greys, one in the middle of each bin of levels."""
    middles = (LEVEL_BINS[1:] + LEVEL_BINS[:-1]) / 2
    greys = [np.full(_FLAT_PX, light) for light in decoded(middles)]
    half = len(greys) // 2
    return _grey(np.hstack([np.vstack(greys[:half]), np.vstack(greys[half:])]))


@cache
def _checks() -> NDArray[np.float32]:
    """Returns the light (h, w, 3) of checks that stand askew."""
    y, x = (np.mgrid[: _CHECKS_PX * _FINER, : _CHECKS_PX * _FINER] + 0.5) / _FINER
    u = x * np.cos(_TURN_RAD) + y * np.sin(_TURN_RAD)
    v = y * np.cos(_TURN_RAD) - x * np.sin(_TURN_RAD)
    bright = (np.floor(u / _CHECK_PX) + np.floor(v / _CHECK_PX)) % 2
    soft = cv2.GaussianBlur(bright, (0, 0), _OWN_BLUR_PX * _FINER)
    share = soft.reshape(_CHECKS_PX, _FINER, _CHECKS_PX, _FINER).mean(axis=(1, 3))
    dark, light = decoded(np.array([_DARK, _BRIGHT]))
    return _grey(dark + (light - dark) * share)


def _grey(light: Floats) -> NDArray[np.float32]:
    return np.repeat(light.astype(np.float32)[..., None], 3, axis=-1)
