"""Automatics: how a camera chooses its exposure and its white, picture by picture.

Within a film they follow the light with a lag; what they were is a value that is handed from one
picture to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.sensor import Automatics

METERING_TARGET = 0.4
"""Linear level that the meter gives the picture's upper middle: bright, as phones expose."""

_METERING_QUANTILE = 0.6
_HIGHLIGHT_QUANTILE = 0.99
_HIGHLIGHT_LEVEL = 0.95  # the meter darkens rather than lose more than the brightest per cent
_MINKOWSKI_NORM = 6  # of colour, by which the light's is judged
_MAX_WHITE_GAIN = 4.0  # what the white balance multiplies at most, and divides by
_METERING_STRIDE = 4  # every fourth pixel is metered, both ways


@dataclass(frozen=True)
class AutoSettings:
    """What the automatics chose.

    Attributes:
        gain: level at the sensor, in its saturation, over radiance.
        red_gain, blue_gain: what those are multiplied by for the sake of the white balance.
    """

    gain: float
    red_gain: float = 1.0
    blue_gain: float = 1.0


@dataclass(frozen=True)
class PreviousSettings:
    """What they chose before.

    Attributes:
        settings: then.
        elapsed_s: since then; 0 for another eye of the same camera, which takes them over.
    """

    settings: AutoSettings
    elapsed_s: float


def choose_settings(
    radiance: NDArray[np.float32],
    automatics: Automatics | None,
    previous: PreviousSettings | None = None,
) -> AutoSettings:
    """Return what the automatics choose for a picture.

    Args:
        radiance: (h, w, 3) that falls on the sensor.
        automatics: None for a meter without lag and no white balance.
        previous: what they chose for the picture before; None for the first one.
    """
    if previous is not None and previous.elapsed_s <= 0:
        return previous.settings
    of = automatics or Automatics()
    metered = radiance[::_METERING_STRIDE, ::_METERING_STRIDE]
    red, blue = _estimate_white_balance(metered, of.white_balance)
    gain = _meter_exposure(metered) if of.fixed_gain is None else of.fixed_gain
    if previous is None:
        return AutoSettings(gain, red, blue)
    before = previous.settings
    return AutoSettings(
        _smooth_over_time(before.gain, gain, previous.elapsed_s, of.exposure_lag_s),
        _smooth_over_time(before.red_gain, red, previous.elapsed_s, of.white_lag_s),
        _smooth_over_time(before.blue_gain, blue, previous.elapsed_s, of.white_lag_s),
    )


def _meter_exposure(pixels: NDArray[np.float32]) -> float:
    levels = np.quantile(pixels.mean(axis=-1), [_METERING_QUANTILE, _HIGHLIGHT_QUANTILE])
    middle, high = np.maximum(levels, 1e-6)
    return float(min(METERING_TARGET / middle, _HIGHLIGHT_LEVEL / high))


def _estimate_white_balance(pixels: NDArray[np.float32], strength: float) -> tuple[float, float]:
    """Return what red and blue are multiplied by to take a share of the mean's colour out.

    The mean is that of the sixth power, in which bright parts count most.
    """
    if strength <= 0:
        return 1.0, 1.0
    levels = pixels.astype(np.float64) / max(float(pixels.max()), 1e-6)
    red, green, blue = np.maximum((levels**_MINKOWSKI_NORM).mean(axis=(0, 1)), 1e-12) ** (
        1 / _MINKOWSKI_NORM
    )
    gains = np.clip([green / red, green / blue], 1 / _MAX_WHITE_GAIN, _MAX_WHITE_GAIN) ** strength
    return float(gains[0]), float(gains[1])


def _smooth_over_time(previous: float, target: float, elapsed_s: float, lag_s: float) -> float:
    """Return what has gone from one value to another for a time, exponentially and in stops."""
    if lag_s <= 0:
        return target
    return float(target * (previous / target) ** math.exp(-elapsed_s / lag_s))
