"""Axis-aligned boxes in images (pixel i covers [i, i + 1), as in COCO) and in 3D."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3

Box = tuple[float, float, float, float]

MAX_SHRINKAGE = 0.45
"""Largest part of a side that a negative padding removes at each end."""


def mask_to_box(mask: NDArray[np.bool_]) -> Box | None:
    """Return the tight box (x0, y0, x1, y1) of a mask (h, w), or None if it is empty."""
    return extents_to_box(np.asarray(mask.any(axis=1)), np.asarray(mask.any(axis=0)))


def extents_to_box(rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Box | None:
    """Return the tight box of a mask from its non-empty rows (h,) and columns (w,)."""
    y, x = np.flatnonzero(rows), np.flatnonzero(columns)
    return (float(x[0]), float(y[0]), float(x[-1] + 1), float(y[-1] + 1)) if len(y) else None


def compute_box_corners(low_m: Vec3, high_m: Vec3) -> NDArray[np.float64]:
    """Return the corners (8, 3) of a 3D box in metres; z varies fastest, x slowest."""
    return np.array(list(itertools.product(*zip(low_m, high_m, strict=True))))


def is_valid_box(box_xyxy: Box) -> bool:
    """Return whether a box is finite with x0 < x1 and y0 < y1."""
    x0, y0, x1, y1 = box_xyxy
    return all(map(math.isfinite, box_xyxy)) and x0 < x1 and y0 < y1


def xyxy_to_xywh(box: Box) -> Box:
    """Convert a box to (x, y, width, height), the form of COCO files."""
    x0, y0, x1, y1 = box
    return x0, y0, x1 - x0, y1 - y0


def xywh_to_xyxy(box: Box) -> Box:
    """Convert a box to (x0, y0, x1, y1)."""
    x, y, width, height = box
    return x, y, x + width, y + height


def bound_rotated_box(box: Box, rotation_deg: float) -> Box:
    """Return the tight box around a box rotated about its centre."""
    x0, y0, x1, y1 = box
    cos, sin = (abs(function(math.radians(rotation_deg))) for function in (math.cos, math.sin))
    half_x = ((x1 - x0) * cos + (y1 - y0) * sin) / 2
    half_y = ((x1 - x0) * sin + (y1 - y0) * cos) / 2
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    return x - half_x, y - half_y, x + half_x, y + half_y


def pairwise_iou(a_xyxy: NDArray[np.float64], b_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the intersection over union (n, m) of boxes (n, 4) and (m, 4); 0 for empty unions."""
    intersection = _compute_intersections(a_xyxy, b_xyxy)
    union = _compute_areas(a_xyxy)[:, None] + _compute_areas(b_xyxy)[None, :] - intersection
    return np.asarray(
        np.divide(intersection, union, out=np.zeros_like(intersection), where=union > 0)
    )


def pairwise_coverage(
    a_xyxy: NDArray[np.float64], b_xyxy: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the fraction (n, m) of boxes (n, 4) inside boxes (m, 4); 0 for empty boxes."""
    intersection, area = _compute_intersections(a_xyxy, b_xyxy), _compute_areas(a_xyxy)[:, None]
    return np.asarray(
        np.divide(intersection, area, out=np.zeros_like(intersection), where=area > 0)
    )


def _compute_intersections(
    a_xyxy: NDArray[np.float64], b_xyxy: NDArray[np.float64]
) -> NDArray[np.float64]:
    low = np.maximum(a_xyxy[:, None, :2], b_xyxy[None, :, :2])
    high = np.minimum(a_xyxy[:, None, 2:], b_xyxy[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=-1))


def _compute_areas(boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.clip(boxes_xyxy[:, 2:] - boxes_xyxy[:, :2], 0, None).prod(axis=-1))


def pad_boxes(boxes_xyxy: NDArray[np.float64], padding_px: float) -> NDArray[np.float64]:
    """Return boxes (n, 4) padded on each side; a negative padding shrinks them, by ``MAX_SHRINKAGE`` at most."""
    sides = boxes_xyxy[:, 2:] - boxes_xyxy[:, :2]
    paddings = np.maximum(padding_px, -MAX_SHRINKAGE * sides)
    return np.hstack([boxes_xyxy[:, :2] - paddings, boxes_xyxy[:, 2:] + paddings])


def is_inside_image(box: Box, width: int, height: int) -> bool:
    """Return whether a box is inside an image and does not touch its edge."""
    x0, y0, x1, y1 = box
    return x0 > 0 and y0 > 0 and x1 < width and y1 < height
