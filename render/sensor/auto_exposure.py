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

METERED_LEVEL = 0.4
"""Linear level that the meter gives the picture's upper middle: bright, as phones expose."""

_METERED_QUANTILE = 0.6
_HIGHLIGHT_QUANTILE = 0.99
_HIGHLIGHT_LEVEL = 0.95  # the meter darkens rather than lose more than the brightest per cent
_NORM = 6  # of colour, by which the light's is judged
_MOST_WHITE = 4.0  # what the white balance multiplies at most, and divides by
_GRID = 4  # every fourth pixel is metered, both ways


@dataclass(frozen=True)
class Settings:
    """What the automatics chose.

    Attributes:
        gain: level at the sensor, in its saturation, over radiance.
        red, blue: what those are multiplied by for the sake of the white balance.
    """

    gain: float
    red: float = 1.0
    blue: float = 1.0


@dataclass(frozen=True)
class Earlier:
    """What they chose before.

    Attributes:
        settings: then.
        seconds: since then; 0 for another eye of the same camera, which takes them over.
    """

    settings: Settings
    seconds: float


def choose(
    light: NDArray[np.float32], automatics: Automatics | None, earlier: Earlier | None = None
) -> Settings:
    """Returns what the automatics choose for a picture.

    Args:
        light: (h, w, 3) that falls on the sensor.
        automatics: None for a meter without lag and no white balance.
        earlier: what they chose for the picture before; None for the first one.
    """
    if earlier is not None and earlier.seconds <= 0:
        return earlier.settings
    of = automatics or Automatics()
    metered = light[::_GRID, ::_GRID]
    red, blue = _white(metered, of.white_balance)
    gain = _gain(metered) if of.fixed_gain is None else of.fixed_gain
    if earlier is None:
        return Settings(gain, red, blue)
    before = earlier.settings
    return Settings(
        _followed(before.gain, gain, earlier.seconds, of.exposure_lag_s),
        _followed(before.red, red, earlier.seconds, of.white_lag_s),
        _followed(before.blue, blue, earlier.seconds, of.white_lag_s),
    )


def _gain(metered: NDArray[np.float32]) -> float:
    levels = np.quantile(metered.mean(axis=-1), [_METERED_QUANTILE, _HIGHLIGHT_QUANTILE])
    middle, high = np.maximum(levels, 1e-6)
    return float(min(METERED_LEVEL / middle, _HIGHLIGHT_LEVEL / high))


def _white(metered: NDArray[np.float32], share: float) -> tuple[float, float]:
    """Returns what red and blue are multiplied by to take a share of the mean's colour out.

    The mean is that of the sixth power, in which bright parts count most.
    """
    if share <= 0:
        return 1.0, 1.0
    levels = metered.astype(np.float64) / max(float(metered.max()), 1e-6)
    red, green, blue = np.maximum((levels**_NORM).mean(axis=(0, 1)), 1e-12) ** (1 / _NORM)
    gains = np.clip([green / red, green / blue], 1 / _MOST_WHITE, _MOST_WHITE) ** share
    return float(gains[0]), float(gains[1])


def _followed(before: float, wanted: float, seconds: float, lag_s: float) -> float:
    """Returns what has gone from one value to another for a time, exponentially and in stops."""
    if lag_s <= 0:
        return wanted
    return float(wanted * (before / wanted) ** math.exp(-seconds / lag_s))
