"""Boxes of COCO files and results: whether they are the corners that others write in their place."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

XYXY_MESSAGE = (
    "boxes look like corners (x0, y0, x1, y1): as COCO's, which are x, y, width, height, many reach far "
    "beyond their pictures."
)
"""What is said of a file of which ``are_xyxy`` is true."""

_MIN_BOXES = 5
_MAX_EXTENT_FACTOR = 1.1  # sides of a picture
_MIN_FAR_FRACTION = 1 / 3
_ROUNDING_PX, _MIN_AREA_RATIO = 1, 0.95  # what rounding takes of sides and areas


def are_xyxy(boxes: ArrayLike, sizes: ArrayLike, areas_px: ArrayLike) -> bool:
    """Return whether what should be x, y, width, height is x0, y0, x1, y1.

    It is where as corners all boxes lie in their pictures and hold the areas said beside them, and as COCO's
    many reach far beyond. Boxes of whole objects may reach beyond too, but then others of their file are no
    corners: these take x < width and y < height of every one. Fewer than 5 boxes do not tell.

    Args:
        boxes: of a whole file, (n, 4), pixels.
        sizes: width and height of the picture of each, (n, 2), pixels.
        areas_px: of what is seen of each object (n,); NaN where it is not said.
    """
    numbers, ends = np.asarray(boxes, np.float64), np.asarray(sizes, np.float64)
    if len(numbers) < _MIN_BOXES:
        return False
    low, high = numbers[:, :2], numbers[:, 2:]
    within = (low >= -_ROUNDING_PX) & (low < high) & (high <= ends + _ROUNDING_PX)
    too_small = (high - low.clip(0)).prod(axis=1) < _MIN_AREA_RATIO * np.asarray(areas_px)
    far = (low + high > _MAX_EXTENT_FACTOR * ends).any(axis=1)
    return bool(within.all() and not too_small.any() and far.mean() >= _MIN_FAR_FRACTION)
