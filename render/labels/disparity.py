"""Disparity between a camera and a second camera or projector to its right.

Disparities are in pixels, 0 for the background.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_DISPARITY_TOLERANCE_PX = (
    1.0  # positions are whole pixels, so smaller differences are the same surface
)
_CLOSING_KERNEL = np.ones((1, 3), np.uint8)


def convert_depth_disparity(values: Floats, focal_px: float, baseline_m: float) -> Floats:
    """Convert depths (h, w) in metres to disparities in pixels, or disparities to depths."""
    product = np.float32(focal_px * baseline_m)
    quotient = np.divide(product, values, out=np.zeros_like(values), where=values > 0)
    return np.asarray(quotient, dtype=np.float32)


def warp_to_right_view(disparity: Floats) -> Floats:
    """Return the disparity (h, w) of the nearest point at each pixel of the right camera."""
    rows, columns = np.nonzero(disparity > 0)
    values = disparity[rows, columns]
    right_columns = np.rint(columns - values).astype(np.intp)
    inside = right_columns >= 0
    nearest = np.zeros_like(disparity)
    # of coinciding points the rightmost is the nearest, and is written last
    nearest[rows[inside], right_columns[inside]] = values[inside]
    # surfaces that face the right camera are stretched: close gaps of one pixel
    return np.asarray(cv2.morphologyEx(nearest, cv2.MORPH_CLOSE, _CLOSING_KERNEL), dtype=np.float32)


def find_occluded_pixels(disparity: Floats) -> NDArray[np.bool_]:
    """Return the mask (h, w) of pixels that a nearer surface hides from the right camera.

    Left of an edge between depths z1 < z2, the occluded strip is f b (1 / z1 - 1 / z2) pixels wide.
    """
    right_columns = np.rint(np.arange(disparity.shape[1], dtype=np.float32) - disparity).astype(
        np.intp
    )
    nearest = warp_to_right_view(disparity)
    blocking = np.take_along_axis(nearest, np.maximum(right_columns, 0), axis=1)
    return np.asarray(
        (disparity > 0) & (right_columns >= 0) & (blocking > disparity + _DISPARITY_TOLERANCE_PX)
    )
