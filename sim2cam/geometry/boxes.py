"""Axis-aligned boxes: in pictures as COCO has them, where pixel i covers [i, i + 1), and in space."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3

Box = tuple[float, float, float, float]


def mask_to_box(mask: NDArray[np.bool_]) -> Box | None:
    """Return the tight (x0, y0, x1, y1) of a mask (height, width), None when it is empty."""
    return extents_to_box(np.asarray(mask.any(axis=1)), np.asarray(mask.any(axis=0)))


def extents_to_box(rows: NDArray[np.bool_], columns: NDArray[np.bool_]) -> Box | None:
    """Return the tight box of a mask that has pixels in these rows (height,) and columns (width,)."""
    y, x = np.flatnonzero(rows), np.flatnonzero(columns)
    return (float(x[0]), float(y[0]), float(x[-1] + 1), float(y[-1] + 1)) if len(y) else None


def compute_box_corners(low_m: Vec3, high_m: Vec3) -> NDArray[np.float64]:
    """Return the corners (8, 3) of a box in space, metres: z changes first, x last."""
    return np.array(list(itertools.product(*zip(low_m, high_m, strict=True))))


def is_valid_box(box_xyxy: Box) -> bool:
    """Return whether a box has finite corners, the first above and to the left of the second."""
    x0, y0, x1, y1 = box_xyxy
    return all(map(math.isfinite, box_xyxy)) and x0 < x1 and y0 < y1


def xyxy_to_xywh(box: Box) -> Box:
    """Return (x, y, width, height), the form of COCO files."""
    x0, y0, x1, y1 = box
    return x0, y0, x1 - x0, y1 - y0


def xywh_to_xyxy(box: Box) -> Box:
    """Return (x0, y0, x1, y1)."""
    x, y, width, height = box
    return x, y, x + width, y + height


def bound_rotated_box(box: Box, rotation_deg: float) -> Box:
    """Return the tight (x0, y0, x1, y1) around a box that is rotated about its centre."""
    x0, y0, x1, y1 = box
    cos, sin = (abs(f(math.radians(rotation_deg))) for f in (math.cos, math.sin))
    half_x = ((x1 - x0) * cos + (y1 - y0) * sin) / 2
    half_y = ((x1 - x0) * sin + (y1 - y0) * cos) / 2
    x, y = (x0 + x1) / 2, (y0 + y1) / 2
    return x - half_x, y - half_y, x + half_x, y + half_y


def pairwise_iou(a_xyxy: NDArray[np.float64], b_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the intersection over union (n, m) of boxes (n, 4), (m, 4); 0 if both are empty."""
    shared, area_a, area_b = (
        _compute_intersections(a_xyxy, b_xyxy),
        _compute_areas(a_xyxy),
        _compute_areas(b_xyxy),
    )
    union = area_a[:, None] + area_b[None, :] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def pairwise_coverage(
    a_xyxy: NDArray[np.float64], b_xyxy: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return which shares (n, m) of boxes (n, 4) lie in boxes (m, 4); 0 of an empty one."""
    shared, area = _compute_intersections(a_xyxy, b_xyxy), _compute_areas(a_xyxy)[:, None]
    return np.asarray(np.divide(shared, area, out=np.zeros_like(shared), where=area > 0))


def _compute_intersections(
    a_xyxy: NDArray[np.float64], b_xyxy: NDArray[np.float64]
) -> NDArray[np.float64]:
    low = np.maximum(a_xyxy[:, None, :2], b_xyxy[None, :, :2])
    high = np.minimum(a_xyxy[:, None, 2:], b_xyxy[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(axis=-1))


def _compute_areas(boxes_xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.clip(boxes_xyxy[:, 2:] - boxes_xyxy[:, :2], 0, None).prod(axis=-1))


def expand_boxes(boxes_xyxy: NDArray[np.float64], expansion: float) -> NDArray[np.float64]:
    """Return boxes (n, 4) that reach further on each side, by a share of that side's length."""
    more = expansion * (boxes_xyxy[:, 2:] - boxes_xyxy[:, :2])
    return np.hstack([boxes_xyxy[:, :2] - more, boxes_xyxy[:, 2:] + more])


def is_inside_image(box: Box, width: int, height: int) -> bool:
    """Return whether a box lies within a picture of a size and does not reach its edge."""
    x0, y0, x1, y1 = box
    return x0 > 0 and y0 > 0 and x1 < width and y1 < height
