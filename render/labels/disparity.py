"""Disparity: how far a point moves from the camera's picture to that of an eye at its right.

The eye may be a camera or a projector. Disparities are in pixels, 0 where nothing is.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_DISPARITY_TOLERANCE_PX = (
    1.0  # what is nearer by less is no other surface: positions are whole pixels
)
_CLOSING_KERNEL = np.ones((1, 3), np.uint8)


def convert_depth_disparity(values: Floats, focal_px: float, baseline_m: float) -> Floats:
    """Return the disparity (h, w) of depths (h, w), or the depth of disparities, in metres."""
    product = np.float32(focal_px * baseline_m)
    found = np.divide(product, values, out=np.zeros_like(values), where=values > 0)
    return np.asarray(found, dtype=np.float32)


def warp_to_right_view(disparity: Floats) -> Floats:
    """Return the disparity (h, w) of the nearest point at each pixel of the right eye."""
    rows, columns = np.nonzero(disparity > 0)
    values = disparity[rows, columns]
    places = np.rint(columns - values).astype(np.intp)
    inside = places >= 0
    nearest = np.zeros_like(disparity)
    # Of points that fall together the rightmost is the nearest, and the last to be written.
    nearest[rows[inside], places[inside]] = values[inside]
    # A surface that turns to the right eye is wider there: its columns lie up to two pixels apart.
    return np.asarray(cv2.morphologyEx(nearest, cv2.MORPH_CLOSE, _CLOSING_KERNEL), dtype=np.float32)


def find_occluded_pixels(disparity: Floats) -> NDArray[np.bool_]:
    """Return where (h, w) the right eye's sight is blocked by something in the picture.

    Left of an edge between depths z1 < z2 that is f b (1 / z1 - 1 / z2) pixels.
    """
    places = np.rint(np.arange(disparity.shape[1], dtype=np.float32) - disparity).astype(np.intp)
    nearest = warp_to_right_view(disparity)
    blocking = np.take_along_axis(nearest, np.maximum(places, 0), axis=1)
    return np.asarray(
        (disparity > 0) & (places >= 0) & (blocking > disparity + _DISPARITY_TOLERANCE_PX)
    )
