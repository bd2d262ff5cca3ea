"""Global tone curve and local tone compression."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_MIDDLE_GREY = 0.18
_DOWNSCALE = 4  # the guided filter runs at a quarter of the resolution
_WINDOW_FRACTION = 1 / 16  # radius of the filter window over the longer side of the image
_EDGE_STD_STOPS = 1.0  # standard deviation of brightness at which the filter preserves edges
_MIN_LUMINANCE = 1e-3


def apply_tone_curve(linear: Floats, contrast: float, shoulder: float, saturation: float) -> Floats:
    """Apply a power-law tone curve through middle grey, with highlight roll-off.

    Args:
        linear: (h, w, 3) linear RGB.
        contrast: exponent of the curve.
        shoulder: level above which highlights roll off; 1 clips at white instead.
        saturation: factor of the distance from grey.

    Returns:
        (h, w, 3) linear RGB, 0 to 1.
    """
    curved = np.maximum(linear, 0)
    curved /= np.float32(_MIDDLE_GREY)
    cv2.pow(curved, contrast, curved)
    curved *= _MIDDLE_GREY
    _roll_off_highlights(curved, shoulder)
    saturation_matrix = saturation * np.eye(3) + (1 - saturation) / 3
    cv2.transform(curved, saturation_matrix.astype(np.float32), curved)
    return np.asarray(np.clip(curved, 0, 1, out=curved))


def _roll_off_highlights(light: Floats, shoulder: float) -> None:
    """Compress levels above the shoulder towards 1, in place."""
    if shoulder >= 1:
        np.minimum(light, 1, out=light)
        return
    headroom = np.float32(1 - shoulder)
    compressed = shoulder - light
    compressed /= headroom
    np.exp(compressed, out=compressed)
    compressed *= -headroom
    compressed += 1
    np.copyto(light, compressed, where=light > shoulder)


def compress_local_tone(linear: Floats, strength: float) -> Floats:
    """Compress brightness differences between large regions; preserve colour and local contrast.

    Regions are found by a self-guided fast guided filter (He and Sun 2015, arXiv:1505.00996) of
    brightness in stops, which leaves no halos at edges. The mean brightness in stops is preserved.

    Args:
        linear: (h, w, 3) linear RGB.
        strength: share of the differences to remove, 0 to 1.
    """
    if strength <= 0:
        return linear
    height, width = linear.shape[:2]
    size = (max(1, width // _DOWNSCALE), max(1, height // _DOWNSCALE))
    stops = np.log2(np.maximum(linear.mean(axis=-1), _MIN_LUMINANCE))
    coefficients = _fit_guided_filter(
        np.asarray(cv2.resize(stops, size, interpolation=cv2.INTER_AREA), np.float32)
    )
    slope, offset = (cv2.resize(plane, (width, height)) for plane in coefficients)
    region_stops = slope * stops + offset
    gain = np.exp2(np.float32(strength) * (region_stops.mean(dtype=np.float64) - region_stops))
    return np.asarray(linear * gain[..., None], dtype=np.float32)


def _fit_guided_filter(luminance_stops: Floats) -> tuple[Floats, Floats]:
    """Return slope and offset (h, w) of the guided filter."""
    side = 2 * round(_WINDOW_FRACTION * max(luminance_stops.shape)) + 1

    def mean(plane: Floats) -> Floats:
        return np.asarray(cv2.blur(plane, (side, side), borderType=cv2.BORDER_REFLECT))

    window_mean = mean(luminance_stops)
    variance = np.maximum(mean(luminance_stops * luminance_stops) - window_mean * window_mean, 0)
    slope = np.asarray(variance / (variance + _EDGE_STD_STOPS**2), dtype=np.float32)
    return mean(slope), mean(window_mean - slope * window_mean)
