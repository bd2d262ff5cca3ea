"""Whether objects keep their colours against what is around them."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.image_pair import ImagePair, ObjectRegion

MIN_PIXELS = 30
_RING_PX = 8
_DARK_OFFSET = (
    12.0  # levels that are added, so that the noise of dark pixels does not count as colour
)
_CLIPPED_LEVEL = 250
_SATURATION_FACTORS = np.geomspace(
    0.1, 3.0, 40
)  # a translation may make all colours paler or stronger


def measure_colour_shifts(pair: ImagePair) -> list[float | None]:
    """Return how far each object's colour moved against that around it, apart from saturation.

    Colours are logarithms of red over green and blue over green, so that neither exposure nor white
    balance moves an object's colour against its surroundings. None of an object of which, or around
    which, too little is neither covered nor clipped.
    """
    usable = (pair.before.max(axis=2) < _CLIPPED_LEVEL) & (pair.after.max(axis=2) < _CLIPPED_LEVEL)
    return [_measure_colour_shift(pair, region, usable) for region in pair.regions or ()]


def _measure_colour_shift(
    pair: ImagePair, region: ObjectRegion, usable_mask: NDArray[np.bool_]
) -> float | None:
    window = region.pad_window(_RING_PX, usable_mask.shape)
    inside = np.zeros(usable_mask.shape, np.bool_)[window]
    top, left = (region.window[i].start - window[i].start for i in (0, 1))
    height, width = region.mask.shape
    inside[top : top + height, left : left + width] = region.mask
    inner = np.asarray(cv2.erode(inside.astype(np.uint8), np.ones((3, 3), np.uint8))) > 0
    around = ~pair.object_mask[window] & usable_mask[window]
    inner &= usable_mask[window]
    if min(inner.sum(), around.sum()) < MIN_PIXELS:
        return None
    before, after = (
        _compute_log_chroma(rgb[window][inner]) - _compute_log_chroma(rgb[window][around])
        for rgb in (pair.before, pair.after)
    )
    return float(np.linalg.norm(after - _SATURATION_FACTORS[:, None] * before, axis=1).min())


def _compute_log_chroma(pixels: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Return the mean colour (2,) of pixels (n, 3): logarithms of red and blue over green."""
    red, green, blue = np.log(pixels.mean(axis=0) + _DARK_OFFSET)
    return np.array([red - green, blue - green])
