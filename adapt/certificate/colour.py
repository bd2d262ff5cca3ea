"""Colour shift of objects relative to their surroundings."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import ImagePair, ObjectRegion

MIN_PIXELS = 30
_RING_PX = 8
_DARK_OFFSET = 12.0  # levels added before the logarithm, so that noise is no colour
_CLIPPED_LEVEL = 250
_SATURATION_FACTORS = np.geomspace(0.1, 3.0, 40)  # a change of saturation is allowed


def measure_colour_shifts(pair: ImagePair) -> list[float | None]:
    """Measure the colour shift of each object relative to its surroundings, apart from saturation.

    Colours are log(R/G) and log(B/G), so exposure and white balance cancel. None for objects with too few
    unclipped pixels inside or around them.
    """
    usable = (pair.before.max(axis=2) < _CLIPPED_LEVEL) & (pair.after.max(axis=2) < _CLIPPED_LEVEL)
    return [_measure_colour_shift(pair, region, usable) for region in pair.regions or ()]


def _measure_colour_shift(
    pair: ImagePair, region: ObjectRegion, usable_mask: NDArray[np.bool_]
) -> float | None:
    window = region.pad_window(_RING_PX, usable_mask.shape)
    mask = np.zeros(usable_mask.shape, np.bool_)[window]
    top, left = (region.window[i].start - window[i].start for i in (0, 1))
    height, width = region.mask.shape
    mask[top : top + height, left : left + width] = region.mask
    object_pixels = np.asarray(cv2.erode(mask.astype(np.uint8), np.ones((3, 3), np.uint8))) > 0
    ring_pixels = ~pair.object_mask[window] & usable_mask[window]
    object_pixels &= usable_mask[window]
    if min(object_pixels.sum(), ring_pixels.sum()) < MIN_PIXELS:
        return None
    before, after = (
        _compute_log_chroma(rgb[window][object_pixels])
        - _compute_log_chroma(rgb[window][ring_pixels])
        for rgb in (pair.before, pair.after)
    )
    return float(np.linalg.norm(after - _SATURATION_FACTORS[:, None] * before, axis=1).min())


def _compute_log_chroma(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return log(R/G) and log(B/G) (2,) of the mean of pixels (n, 3)."""
    red, green, blue = np.log(pixels.mean(axis=0) + _DARK_OFFSET)
    return np.array([red - green, blue - green])
