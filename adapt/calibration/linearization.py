"""Conversion between the levels of a photo and linear light.

It inverts the sRGB curve and the roll-off of highlights. The contrast and saturation of a camera's
tone curve cannot be estimated from photos of unknown scenes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.sensor import Sensor

Floats = NDArray[np.float64]

TONE_CONTRAST = (0.8, 1.4)
"""Assumed range of the tone curve's contrast."""
SATURATION = (0.7, 1.3)
"""Assumed range of the saturation."""

MIDDLE_GREY = 0.18
"""Pivot of the contrast in linear light, as in ``render.sensor``."""

_SHOULDER = Sensor.tone_shoulder
_SHOULDER_RANGE = 1 - _SHOULDER


def decode_levels(levels: NDArray[Any]) -> Floats:
    """Return linear light, from 0 to slightly above 1, of levels from 0 to 255."""
    share = np.clip(np.asarray(levels, np.float64) / 255, 0, 1)
    light = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    headroom = np.maximum((1 - light) / _SHOULDER_RANGE, 1e-3)
    return np.asarray(
        np.where(light > _SHOULDER, _SHOULDER - _SHOULDER_RANGE * np.log(headroom), light)
    )


def encode_levels(radiance: NDArray[Any]) -> Floats:
    """Return levels, 0 to 255, of linear light."""
    light = np.clip(np.asarray(radiance, np.float64), 0, None)
    rolled_off = np.where(
        light > _SHOULDER,
        1 - _SHOULDER_RANGE * np.exp((_SHOULDER - light) / _SHOULDER_RANGE),
        light,
    )
    share = np.where(
        rolled_off <= 0.0031308,
        rolled_off * 12.92,
        1.055 * np.maximum(rolled_off, 1e-9) ** (1 / 2.4) - 0.055,
    )
    return np.asarray(255 * share)
