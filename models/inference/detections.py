"""Predictions of a detector, and processing steps that all detectors share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.boxes import pairwise_coverage, pairwise_iou
from sim2cam.geometry.central_lens import CentralLens, center_rays
from sim2cam.geometry.run_length import RleMask
from sim2cam.metrics.detection import Detection
from sim2cam.models.reliability.ood import OodStatistics
from sim2cam.models.training.images import PIXEL_CENTRE_OFFSET

Floats = NDArray[np.float64]

SCORE_FLOOR = 0.05
"""Lowest score before calibration, low enough for a precision-recall curve."""

MAX_DETECTIONS = 300
NMS_IOU = 0.6
NMS_COVERAGE = 0.8
"""Share of a box's area inside another box from which on it counts as contained."""
MIN_SURFACE_POINTS = 4
"""Points that a pose needs."""
_MIN_VIEW_COSINE = 0.05  # smallest cosine between a ray and the mean ray for a central projection


@dataclass(frozen=True, eq=False)
class SurfacePoints:
    """Points of an object's surface with their predicted image positions.

    Attributes:
        object_points_m: points in the object frame (n, 3).
        image_points: positions in pixels, box coordinates (n, 2).
        uncertainties_px: scale of the Laplace distribution of each coordinate (n,).
    """

    object_points_m: Floats
    image_points: Floats
    uncertainties_px: Floats

    def project_to_plane(self, lens: CentralLens) -> NormalizedPoints | None:
        """Project the points to the plane z = 1 of a camera that is rotated towards them.

        Return None if the lens unprojects fewer than ``MIN_SURFACE_POINTS`` points, or if the points coincide or
        are too far apart for a plane.
        """
        pixels = self.image_points - PIXEL_CENTRE_OFFSET
        is_valid = np.asarray(np.isfinite(np.hstack([pixels, self.object_points_m])).all(axis=1))
        is_valid[is_valid] = lens.can_unproject(pixels[is_valid])
        if is_valid.sum() < MIN_SURFACE_POINTS:
            return None
        rays = lens.unproject(pixels[is_valid])
        mean_ray = rays.mean(axis=0)
        if (rays @ mean_ray).min() < _MIN_VIEW_COSINE * np.linalg.norm(mean_ray):
            return None
        camera_rotation, plane_points = center_rays(rays)
        span_px, span = (
            np.linalg.norm(np.ptp(points, axis=0)) for points in (pixels[is_valid], plane_points)
        )
        if not min(span_px, span) > 0:
            return None
        uncertainties = self.uncertainties_px[is_valid] * span / span_px
        return NormalizedPoints(
            camera_rotation, self.object_points_m[is_valid], plane_points, uncertainties
        )


@dataclass(frozen=True, eq=False)
class NormalizedPoints:
    """Surface points in the plane z = 1 of a camera that is rotated towards them.

    Attributes:
        camera_rotation: rotation from the camera frame to that of the rotated camera.
        object_points_m: points in the object frame (n, 3).
        plane_points: points in the plane (n, 2).
        uncertainties: uncertainties of the plane points (n,), in the plane.
    """

    camera_rotation: Rotation
    object_points_m: Floats
    plane_points: Floats
    uncertainties: Floats


@dataclass(frozen=True)
class Prediction:
    """Prediction of a detector for one image.

    Attributes:
        detections: detections by falling score.
        ood_score: OOD score relative to the threshold of the card, above 1 for OOD; None without a threshold.
        ood_statistics: statistics behind the OOD score.
        surfaces: surface points of each detection; None without poses.
        category_masks: mask of each category by name; None without masks.
        category_probabilities: category probabilities (n, c) of confident objects; None for torchvision models.
    """

    detections: tuple[Detection, ...]
    ood_score: float | None
    ood_statistics: OodStatistics | None
    surfaces: tuple[SurfacePoints, ...] | None
    category_masks: dict[str, RleMask] | None = None
    category_probabilities: Floats | None = field(default=None, compare=False)

    @property
    def is_ood(self) -> bool:
        """Whether the image is out-of-distribution, so that the prediction may be worthless."""
        return self.ood_score is not None and self.ood_score > 1


def rescale_image(rgb: NDArray[np.uint8], input_scale: float) -> NDArray[np.uint8]:
    """Return an image resized by ``input_scale``, at least one pixel wide and high."""
    if input_scale == 1.0:
        return rgb
    interpolation = cv2.INTER_AREA if input_scale < 1 else cv2.INTER_LINEAR
    height, width = (round(side * input_scale) for side in rgb.shape[:2])
    if not (height and width):  # OpenCV refuses a side of 0
        size = max(1, width), max(1, height)
        return np.asarray(cv2.resize(rgb, size, interpolation=interpolation), np.uint8)
    return np.asarray(
        cv2.resize(rgb, None, fx=input_scale, fy=input_scale, interpolation=interpolation), np.uint8
    )


def suppress_non_maxima(
    boxes_xyxy: Floats, scale_groups: Sequence[float], categories: Sequence[int] | None = None
) -> list[int]:
    """Return the indices of boxes that non-maximum suppression keeps.

    A box is also suppressed if it is contained in, or contains, a better box from another group of input scales:
    parts and groups of objects resemble objects of another size.

    Args:
        boxes_xyxy: (n, 4), by falling score.
        scale_groups: group of the input scale at which each box was detected (n,), such as the pyramid level.
        categories: class indices (n,) of amodal boxes: occluders lie inside the box of a hidden object, so
            containment counts only within a category. None for boxes of visible parts.
    """
    is_duplicate = pairwise_iou(boxes_xyxy, boxes_xyxy) > NMS_IOU
    is_inside = pairwise_coverage(boxes_xyxy, boxes_xyxy) > NMS_COVERAGE
    is_across_scales = np.not_equal.outer(scale_groups, scale_groups)
    if categories is not None:
        is_across_scales &= np.equal.outer(categories, categories)
    is_duplicate |= is_across_scales & (is_inside | is_inside.T)
    kept: list[int] = []
    for index in range(len(boxes_xyxy)):
        if not is_duplicate[index, kept].any():
            kept.append(index)
    return kept
