"""RoI crops: objects resampled to one size for classification and pose estimation.

Where categories differ in small marks, as faces of dice or playing cards, a network with objects at one size learns
them from far fewer crops than a detector of all sizes.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.models.augment.crops import CropConfig, sample_scale_and_flip, warp_crop
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX
from sim2cam.models.training.images import AnnotatedImage

CLASSIFIER_CROP_PX, SURFACE_CROP_PX = 64, 160
BOX_FRACTION = 0.72
"""Longer side of the box relative to the side of the RoI crop."""

INFERENCE_BOX_FRACTIONS = 0.65, 0.8
"""Box fractions of the crops for classification at inference, each also flipped if training crops were.

The mean of four views is more often right than one view (docs/decisions/0017-detector.md).
"""

ROI_CROPS_PER_CROP = 4
"""RoI crops per training crop: better than 2 and 8 on development photos of dice after the same CPU time."""

_TRAINING_BOX_FRACTIONS = (0.6, 0.85)  # varied because detected boxes are inexact
_MAX_CENTRE_OFFSET = 0.07  # of the box's longer side


def get_roi_side_px(*, poses: bool) -> int:
    """Return the side of RoI crops in pixels."""
    return SURFACE_CROP_PX if poses else CLASSIFIER_CROP_PX


class RoiView(NamedTuple):
    """Scale and flip of an RoI crop.

    Attributes:
        box_fraction: longer side of the box relative to the side of the crop.
        is_flipped: whether the crop is mirrored horizontally.
    """

    box_fraction: float = BOX_FRACTION
    is_flipped: bool = False


DEFAULT_ROI_VIEW = RoiView()


def select_roi_views(*, poses: bool, flips: bool) -> tuple[RoiView, ...]:
    """Return the views of each object: one for poses, several for classification.

    Args:
        poses: whether poses are predicted.
        flips: whether training crops were mirrored.
    """
    if poses:
        return (DEFAULT_ROI_VIEW,)
    return tuple(
        RoiView(box_fraction, is_flipped)
        for is_flipped in ((False, True) if flips else (False,))
        for box_fraction in INFERENCE_BOX_FRACTIONS
    )


def crop_roi(
    rgb: NDArray[np.uint8],
    box_xyxy: NDArray[np.float64],
    side: int,
    roi_view: RoiView = DEFAULT_ROI_VIEW,
) -> NDArray[np.uint8]:
    """Return the RoI crop (side, side, 3) of a box (4,) in an image."""
    low, side_px = compute_roi_square(box_xyxy, roi_view.box_fraction)
    scale = side / side_px
    crop = warp_crop(rgb, np.column_stack([scale * np.eye(2), -scale * low]), side)
    return np.ascontiguousarray(crop[:, ::-1]) if roi_view.is_flipped else crop


def compute_roi_square(
    box_xyxy: NDArray[np.float64], box_fraction: float = BOX_FRACTION
) -> tuple[NDArray[np.float64], float]:
    """Return upper left corner (2,) and side of the square that an RoI crop of a box (4,) covers."""
    side_px = max(float((box_xyxy[2:] - box_xyxy[:2]).max()), 1.0) / box_fraction
    return (box_xyxy[:2] + box_xyxy[2:]) / 2 - side_px / 2, side_px


def select_classifiable(image: AnnotatedImage, crop_config: CropConfig) -> NDArray[np.bool_]:
    """Return a mask (n,) of the objects visible enough to learn their category."""
    min_visible = max(crop_config.min_visible, crop_config.min_category_visible)
    return np.asarray(
        ~image.ignored & (image.visible_fractions * image.inside_fractions >= min_visible)
    )


def sample_roi_crop(
    image: AnnotatedImage,
    object_index: int,
    crop_config: CropConfig,
    side: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Sample an RoI crop of an object; return it with the affine map (2, 3) from image to crop.

    The crop is flipped and blurred by downscaling as training crops are, and off-centre. It is not rotated,
    because the upright direction helps to separate the top from the sides
    (docs/decisions/0017-detector.md).
    """
    linear = sample_scale_and_flip(crop_config, rng) / sqrt(
        crop_config.scale_range[0] * crop_config.scale_range[1]
    )
    outline = image.outlines[object_index] @ linear.T
    low, high = outline.min(axis=0), outline.max(axis=0)
    longer_side = float((high - low).max())
    centre = (low + high) / 2 + rng.uniform(
        -_MAX_CENTRE_OFFSET, _MAX_CENTRE_OFFSET, 2
    ) * longer_side
    side_px = max(longer_side / rng.uniform(*_TRAINING_BOX_FRACTIONS), 1.0)
    matrix = np.column_stack([linear, side_px / 2 - centre]) / side_px
    coarse_side = round(min(side_px, side))
    coarse_crop = warp_crop(image.rgb, coarse_side * matrix, coarse_side)
    rgb = cv2.resize(coarse_crop, (side, side), interpolation=cv2.INTER_LINEAR)
    return np.asarray(rgb, np.uint8), side * matrix


def crop_object_coordinates(
    image: AnnotatedImage, object_index: int, matrix: NDArray[np.float64], side: int
) -> NDArray[np.float32]:
    """Return the object coordinates in an RoI crop (3, h/8, w/8), see ``SurfaceMaps``.

    They are NaN where the object is not visible, and everywhere if the image has no coordinates.

    Args:
        matrix: affine map from image to crop, from ``sample_roi_crop``.
    """
    assert image.object_coordinates is not None
    assert image.instance_map is not None
    cells = side // SURFACE_STRIDE_PX
    rows, columns = np.mgrid[:cells, :cells]
    centres = (np.stack([columns, rows], -1) + 0.5) * SURFACE_STRIDE_PX
    positions = (centres - matrix[:, 2]) @ np.linalg.inv(matrix[:, :2]).T
    column, row = np.floor(positions).astype(np.int64).transpose(2, 0, 1)
    height, width = image.instance_map.shape
    is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    row, column = row.clip(0, height - 1), column.clip(0, width - 1)
    is_visible = is_inside & (image.instance_map[row, column] == object_index + 1)
    coordinates = np.where(is_visible[..., None], image.object_coordinates[row, column], np.nan)
    return coordinates.transpose(2, 0, 1).astype(np.float32)
