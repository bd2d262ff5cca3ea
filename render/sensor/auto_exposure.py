"""Automatic exposure and white balance.

In a sequence the settings follow the light with a lag, so each frame takes those of the previous
one as an argument.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.sensor import Automatics

METERING_TARGET = 0.4
"""Linear level of the metered quantile after exposure: bright, as on phones."""

_METERING_QUANTILE = 0.6
_HIGHLIGHT_QUANTILE = 0.99
_HIGHLIGHT_LEVEL = 0.95  # at most 1 % of the pixels exceeds this level
_MINKOWSKI_NORM = 6  # norm of each channel, for the estimate of the illuminant (shades of grey)
_MAX_WHITE_GAIN = 4.0  # white balance gains are limited to 1/4 to 4
_METERING_STRIDE = 4  # every fourth row and column is metered


@dataclass(frozen=True)
class AutoSettings:
    """Automatic settings of a frame.

    Attributes:
        gain: ratio of sensor level (1 is saturation) to radiance.
        red_gain, blue_gain: white balance gains.
    """

    gain: float
    red_gain: float = 1.0
    blue_gain: float = 1.0


@dataclass(frozen=True)
class PreviousSettings:
    """Automatic settings of the previous frame.

    Attributes:
        settings: settings of the previous frame.
        elapsed_s: time since then; 0 for the right camera of a pair, which copies the settings.
    """

    settings: AutoSettings
    elapsed_s: float


def choose_settings(
    radiance: NDArray[np.float32],
    automatics: Automatics | None,
    previous: PreviousSettings | None = None,
) -> AutoSettings:
    """Choose exposure and white balance of a frame.

    Args:
        radiance: (h, w, 3) radiance at the sensor.
        automatics: parameters; None for metering without lag and no white balance.
        previous: settings of the previous frame; None for the first frame.
    """
    if previous is not None and previous.elapsed_s <= 0:
        return previous.settings
    parameters = automatics or Automatics()
    metered = radiance[::_METERING_STRIDE, ::_METERING_STRIDE]
    red, blue = _estimate_white_balance(metered, parameters.white_balance)
    gain = _meter_exposure(metered) if parameters.fixed_gain is None else parameters.fixed_gain
    if previous is None:
        return AutoSettings(gain, red, blue)
    last = previous.settings
    return AutoSettings(
        _smooth_over_time(last.gain, gain, previous.elapsed_s, parameters.exposure_lag_s),
        _smooth_over_time(last.red_gain, red, previous.elapsed_s, parameters.white_lag_s),
        _smooth_over_time(last.blue_gain, blue, previous.elapsed_s, parameters.white_lag_s),
    )


def _meter_exposure(pixels: NDArray[np.float32]) -> float:
    levels = np.quantile(pixels.mean(axis=-1), [_METERING_QUANTILE, _HIGHLIGHT_QUANTILE])
    metered, highlight = np.maximum(levels, 1e-6)
    return float(min(METERING_TARGET / metered, _HIGHLIGHT_LEVEL / highlight))


def _estimate_white_balance(pixels: NDArray[np.float32], strength: float) -> tuple[float, float]:
    """Return red and blue gains that remove a share of the illuminant's colour.

    The illuminant is the Minkowski mean of order 6, dominated by bright pixels.
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
    """Return the value between ``previous`` and ``target`` after exponential smoothing in stops."""
    if lag_s <= 0:
        return target
    return float(target * (previous / target) ** math.exp(-elapsed_s / lag_s))
