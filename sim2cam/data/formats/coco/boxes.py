"""Detection of boxes that are corners (x0, y0, x1, y1) instead of COCO's x, y, width, height."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

XYXY_MESSAGE = (
    "boxes look like corners (x0, y0, x1, y1): read as x, y, width, height, many reach far outside their "
    "images."
)
"""Error message if ``are_xyxy`` is true."""

_MIN_BOXES = 5
_MAX_EXTENT_FACTOR = 1.1  # over the image size
_MIN_FAR_FRACTION = 1 / 3
_ROUNDING_PX, _MIN_AREA_RATIO = 1, 0.95  # tolerances for rounded boxes


def are_xyxy(boxes: ArrayLike, sizes: ArrayLike, areas_px: ArrayLike) -> bool:
    """Return whether boxes that should be x, y, width, height are x0, y0, x1, y1.

    True if all boxes, as corners, lie in their images and are not smaller than the given areas, and
    as x, y, width, height many reach far outside. Amodal boxes can reach outside too, but then some
    box of the file does not satisfy x < width and y < height. False with fewer than 5 boxes.

    Args:
        boxes: all boxes of a file (n, 4), pixels.
        sizes: width and height of each box's image (n, 2), pixels.
        areas_px: visible area of each object (n,); NaN if unknown.
    """
    values, image_sizes = np.asarray(boxes, np.float64), np.asarray(sizes, np.float64)
    if len(values) < _MIN_BOXES:
        return False
    low, high = values[:, :2], values[:, 2:]
    is_inside = (low >= -_ROUNDING_PX) & (low < high) & (high <= image_sizes + _ROUNDING_PX)
    is_too_small = (high - low.clip(0)).prod(axis=1) < _MIN_AREA_RATIO * np.asarray(areas_px)
    is_far_outside = (low + high > _MAX_EXTENT_FACTOR * image_sizes).any(axis=1)
    return bool(
        is_inside.all() and not is_too_small.any() and is_far_outside.mean() >= _MIN_FAR_FRACTION
    )
