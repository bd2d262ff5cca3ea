"""Levels: from the bytes of a photo to light and back, as far as a photo tells.

The curve of sRGB is undone and so is the roll-off before white; the contrast that a camera's tone
curve adds, and the colour it adds, no photo of unknown things tells.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.sensor import Sensor

Floats = NDArray[np.float64]

TONE_CONTRAST = (0.8, 1.4)
"""Least and most that the tone curve's contrast is taken for."""
SATURATION = (0.7, 1.3)
"""The same of the colours'."""

MIDDLE_GREY = 0.18
"""Light that contrast leaves, of ``render.camera.tone``."""

_SHOULDER = Sensor.tone_shoulder
_SHOULDER_RANGE = 1 - _SHOULDER


def decode_levels(levels: NDArray[Any]) -> Floats:
    """Return linear light, 0 to 1 and a little more, of levels, 0 to 255."""
    share = np.clip(np.asarray(levels, np.float64) / 255, 0, 1)
    light = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    bent = np.maximum((1 - light) / _SHOULDER_RANGE, 1e-3)
    return np.asarray(
        np.where(light > _SHOULDER, _SHOULDER - _SHOULDER_RANGE * np.log(bent), light)
    )


def encode_levels(radiance: NDArray[Any]) -> Floats:
    """Return levels, 0 to 255, of linear light."""
    given = np.clip(np.asarray(radiance, np.float64), 0, None)
    bent = np.where(
        given > _SHOULDER,
        1 - _SHOULDER_RANGE * np.exp((_SHOULDER - given) / _SHOULDER_RANGE),
        given,
    )
    share = np.where(
        bent <= 0.0031308, bent * 12.92, 1.055 * np.maximum(bent, 1e-9) ** (1 / 2.4) - 0.055
    )
    return np.asarray(255 * share)
