"""What a detector says of a picture, and the steps to it that all detectors have in common."""

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
"""Before calibration; enough for a precision-recall curve. Users choose a higher one."""

MAX_DETECTIONS = 300
NMS_IOU = 0.6
NMS_COVERAGE = 0.8
"""Share of a box's area in another one, from which on it is mostly inside."""
MIN_SURFACE_POINTS = 4
"""Of a surface, that tell how it lies."""
_MIN_VIEW_COSINE = (
    0.05  # cosine to the middle of the points, below which a plane before it is of no use
)


@dataclass(frozen=True, eq=False)
class SurfacePoints:
    """Which points of an object's surface a detector sees, and where.

    Attributes:
        object_points_m: in the object's frame (n, 3).
        image_points: pixels as boxes have them (n, 2).
        uncertainties_px: how far off they are (n,), the scale of a Laplace distribution of either
            coordinate.
    """

    object_points_m: Floats
    image_points: Floats
    uncertainties_px: Floats

    def project_to_plane(self, lens: CentralLens) -> NormalizedPoints | None:
        """Return what is seen before a camera that is turned to its middle, where any lens will do.

        None where fewer than ``MIN_SURFACE_POINTS`` are told that the lens meets, they lie in one place, or too far
        apart for a plane.

        Args:
            lens: through which it is seen.
        """
        pixels = self.image_points - PIXEL_CENTRE_OFFSET
        met = np.asarray(np.isfinite(np.hstack([pixels, self.object_points_m])).all(axis=1))
        met[met] = lens.can_unproject(pixels[met])
        if met.sum() < MIN_SURFACE_POINTS:
            return None
        rays = lens.unproject(pixels[met])
        middle = rays.mean(axis=0)
        if (rays @ middle).min() < _MIN_VIEW_COSINE * np.linalg.norm(middle):
            return None
        ahead, places = center_rays(rays)
        in_pixels, in_plane = (np.linalg.norm(np.ptp(on, axis=0)) for on in (pixels[met], places))
        if not min(in_pixels, in_plane) > 0:
            return None
        spreads = self.uncertainties_px[met] * in_plane / in_pixels
        return NormalizedPoints(ahead, self.object_points_m[met], places, spreads)


@dataclass(frozen=True, eq=False)
class NormalizedPoints:
    """A surface, seen in the plane z = 1 before a camera that is turned to its middle.

    Attributes:
        camera_rotation: turns the camera's frame into the one of that camera.
        object_points_m: in the object's frame (n, 3).
        plane_points: in the plane (n, 2).
        uncertainties: how far off these are (n,), in the plane.
    """

    camera_rotation: Rotation
    object_points_m: Floats
    plane_points: Floats
    uncertainties: Floats


@dataclass(frozen=True)
class Prediction:
    """What a detector says of an image.

    Attributes:
        detections: what lies in it, surest first.
        ood_score: how unlike what the detector was trained on it is, over the limits of its card; None
            where not measured.
        ood_statistics: what that was told from.
        surfaces: what is seen of that of each detection; None without poses.
        category_masks: the pixels that show each category, by its name; None without masks.
        category_probabilities: probabilities (n, c) of the categories of what surely is an object; None of models of
            torchvision.
    """

    detections: tuple[Detection, ...]
    ood_score: float | None
    ood_statistics: OodStatistics | None
    surfaces: tuple[SurfacePoints, ...] | None
    category_masks: dict[str, RleMask] | None = None
    category_probabilities: Floats | None = field(default=None, compare=False)

    @property
    def is_ood(self) -> bool:
        """Whether the image is beyond a limit, so that what is said of it may be worth nothing."""
        return self.ood_score is not None and self.ood_score > 1


def rescale_image(rgb: NDArray[np.uint8], input_scale: float) -> NDArray[np.uint8]:
    """Return a picture magnified; its sides have a pixel at least."""
    if input_scale == 1.0:
        return rgb
    smooth = cv2.INTER_AREA if input_scale < 1 else cv2.INTER_LINEAR
    height, width = (round(side * input_scale) for side in rgb.shape[:2])
    if not (height and width):  # OpenCV refuses a side of 0
        size = max(1, width), max(1, height)
        return np.asarray(cv2.resize(rgb, size, interpolation=smooth), np.uint8)
    return np.asarray(
        cv2.resize(rgb, None, fx=input_scale, fy=input_scale, interpolation=smooth), np.uint8
    )


def suppress_non_maxima(
    boxes_xyxy: Floats, input_scales: Sequence[float], categories: Sequence[int] | None = None
) -> list[int]:
    """Return which boxes, sorted by falling score, are not mostly a surer one's.

    Nor does one lie mostly inside, or mostly around, a surer one that was found at another magnification:
    parts of an object, and groups of objects, look like objects of another size.

    Args:
        boxes_xyxy: (n, 4).
        input_scales: at which they were found (n,).
        categories: class indices (n,) where boxes are of whole objects: what hides an object lies inside its
            box then, so that only one of the same category goes for being inside or around. None where boxes
            are of what is seen.
    """
    is_duplicate = pairwise_iou(boxes_xyxy, boxes_xyxy) > NMS_IOU
    inside = pairwise_coverage(boxes_xyxy, boxes_xyxy) > NMS_COVERAGE
    apart = np.not_equal.outer(input_scales, input_scales)
    if categories is not None:
        apart &= np.equal.outer(categories, categories)
    is_duplicate |= apart & (inside | inside.T)
    kept: list[int] = []
    for index in range(len(boxes_xyxy)):
        if not is_duplicate[index, kept].any():
            kept.append(index)
    return kept
