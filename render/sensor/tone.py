"""Tone: from linear light to the contrast of a picture, all over it and part by part."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_MIDDLE_GREY = 0.18
_DOWNSCALE = 4  # pixels a side over which large parts are told from small ones
_WINDOW_FRACTION = 1 / 16  # half the side of a large part, over the longer side of the picture
_EDGE_STD_STOPS = 1.0  # standard deviation of brightness that is an edge of a part
_MIN_LUMINANCE = 1e-3


def apply_tone_curve(linear: Floats, contrast: float, shoulder: float, saturation: float) -> Floats:
    """Return light (h, w, 3), 0 to 1, by a power law through middle grey, rolled off at white.

    Args:
        linear: (h, w, 3).
        contrast: the exponent.
        shoulder: level above which light is rolled off; 1 cuts it off at white instead.
        saturation: what the distance from grey is multiplied by.
    """
    curved = np.maximum(linear, 0)
    curved /= np.float32(_MIDDLE_GREY)
    cv2.pow(curved, contrast, curved)
    curved *= _MIDDLE_GREY
    _roll_off_highlights(curved, shoulder)
    colours = saturation * np.eye(3) + (1 - saturation) / 3
    cv2.transform(curved, colours.astype(np.float32), curved)
    return np.asarray(np.clip(curved, 0, 1, out=curved))


def _roll_off_highlights(light: Floats, shoulder: float) -> None:
    """Bend what is brighter than the shoulder towards 1, in place."""
    if shoulder >= 1:
        np.minimum(light, 1, out=light)
        return
    room = np.float32(1 - shoulder)
    bent = shoulder - light
    bent /= room
    np.exp(bent, out=bent)
    bent *= -room
    bent += 1
    np.copyto(light, bent, where=light > shoulder)


def compress_local_tone(linear: Floats, strength: float) -> Floats:
    """Return light (h, w, 3) whose large parts differ less; colours, and what is in them, stay.

    Large parts are told by the fast guided filter (He and Sun 2015, arXiv:1505.00996) of the
    brightness in stops, guided by itself, so that no halo is left at their edges.

    Args:
        linear: (h, w, 3).
        strength: share of the difference that is taken out; the mean brightness in stops stays.
    """
    if strength <= 0:
        return linear
    height, width = linear.shape[:2]
    size = (max(1, width // _DOWNSCALE), max(1, height // _DOWNSCALE))
    stops = np.log2(np.maximum(linear.mean(axis=-1), _MIN_LUMINANCE))
    guide = _fit_guided_filter(
        np.asarray(cv2.resize(stops, size, interpolation=cv2.INTER_AREA), np.float32)
    )
    slope, offset = (cv2.resize(plane, (width, height)) for plane in guide)
    part = slope * stops + offset
    gain = np.exp2(np.float32(strength) * (part.mean(dtype=np.float64) - part))
    return np.asarray(linear * gain[..., None], dtype=np.float32)


def _fit_guided_filter(luminance_stops: Floats) -> tuple[Floats, Floats]:
    """Return slope and offset (h, w) that make large parts of a brightness out of it."""
    side = 2 * round(_WINDOW_FRACTION * max(luminance_stops.shape)) + 1

    def mean(plane: Floats) -> Floats:
        return np.asarray(cv2.blur(plane, (side, side), borderType=cv2.BORDER_REFLECT))

    middle = mean(luminance_stops)
    variance = np.maximum(mean(luminance_stops * luminance_stops) - middle * middle, 0)
    slope = np.asarray(variance / (variance + _EDGE_STD_STOPS**2), dtype=np.float32)
    return mean(slope), mean(middle - slope * middle)
