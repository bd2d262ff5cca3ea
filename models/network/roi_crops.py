"""Close-ups of objects, all brought to one size, from which a detector may read what they are and how they lie.

Where categories differ in small marks, as faces of dice and playing cards do, a network that sees every object
equally large learns them from far fewer crops than maps that have to find objects of all sizes as well.
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
"""Share of a close-up's side that the longer side of the box takes."""

INFERENCE_BOX_FRACTIONS = 0.65, 0.8
"""The same of those that categories are read from, each also mirrored where crops were: the mean of what four
views say is right more often than what one does (docs/decisions/0055-read-four-times.md)."""

_TRAINING_BOX_FRACTIONS = (0.6, 0.85)  # while it learns: boxes that are found are not exact
_MAX_CENTRE_OFFSET = 0.07  # of the box's longer side


def get_roi_side_px(*, poses: bool) -> int:
    """Return the side of close-ups, in pixels."""
    return SURFACE_CROP_PX if poses else CLASSIFIER_CROP_PX


def count_roi_crops(*, roi_classifier: bool, poses: bool) -> int:
    """Return how many close-ups are learned for each crop: what they show is learned more slowly than boxes."""
    return 4 if poses else 8 if roi_classifier else 0


class RoiView(NamedTuple):
    """How an object is looked at.

    Attributes:
        box_fraction: share of the close-up's side that the longer side of its box takes.
        is_flipped: left and right.
    """

    box_fraction: float = BOX_FRACTION
    is_flipped: bool = False


DEFAULT_ROI_VIEW = RoiView()


def select_roi_views(*, poses: bool, flips: bool) -> tuple[RoiView, ...]:
    """Return how each object is looked at: once for its pose, or more often for its category alone.

    Args:
        poses: whether points of the surface are read.
        flips: whether close-ups were mirrored while it learned.
    """
    if poses:
        return (DEFAULT_ROI_VIEW,)
    return tuple(
        RoiView(fill, flip)
        for flip in ((False, True) if flips else (False,))
        for fill in INFERENCE_BOX_FRACTIONS
    )


def crop_roi(
    rgb: NDArray[np.uint8],
    box_xyxy: NDArray[np.float64],
    side: int,
    roi_view: RoiView = DEFAULT_ROI_VIEW,
) -> NDArray[np.uint8]:
    """Return the close-up (side, side, 3) of a box (4,) in an image."""
    low, reach_px = compute_roi_square(box_xyxy, roi_view.box_fraction)
    scale = side / reach_px
    shown = warp_crop(rgb, np.column_stack([scale * np.eye(2), -scale * low]), side)
    return np.ascontiguousarray(shown[:, ::-1]) if roi_view.is_flipped else shown


def compute_roi_square(
    box_xyxy: NDArray[np.float64], box_fraction: float = BOX_FRACTION
) -> tuple[NDArray[np.float64], float]:
    """Return the upper left corner (2,) and the side of what a close-up of a box (4,) shows, in its pixels."""
    reach_px = max(float((box_xyxy[2:] - box_xyxy[:2]).max()), 1.0) / box_fraction
    return (box_xyxy[:2] + box_xyxy[2:]) / 2 - reach_px / 2, reach_px


def select_classifiable(image: AnnotatedImage, crop_config: CropConfig) -> NDArray[np.bool_]:
    """Return which objects (n,) of a picture are seen well enough for their category to be learned."""
    least = max(crop_config.min_visible, crop_config.min_category_visible)
    return np.asarray(~image.ignored & (image.visible_fractions * image.inside_fractions >= least))


def sample_roi_crop(
    image: AnnotatedImage,
    object_index: int,
    crop_config: CropConfig,
    side: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return a close-up of an object, and the affine map (2, 3) to it from the picture's edge-based pixels.

    It is mirrored as crops are, off its centre, and finer or coarser than the picture as far as crops are
    than one another. It stands as the picture does: which way is up tells what is upper and what is beside it
    (docs/decisions/0057-crops-are-turned-close-ups-stand.md).

    Args:
        image: that shows it.
        object_index: of the object.
        crop_config: how crops are drawn.
        side: of the close-up.
        rng: source of chance.
    """
    linear = sample_scale_and_flip(crop_config, rng) / sqrt(
        crop_config.scale_range[0] * crop_config.scale_range[1]
    )
    outline = image.outlines[object_index] @ linear.T
    low, high = outline.min(axis=0), outline.max(axis=0)
    longer = float((high - low).max())
    middle = (low + high) / 2 + rng.uniform(-_MAX_CENTRE_OFFSET, _MAX_CENTRE_OFFSET, 2) * longer
    reach_px = max(longer / rng.uniform(*_TRAINING_BOX_FRACTIONS), 1.0)
    matrix = np.column_stack([linear, reach_px / 2 - middle]) / reach_px
    coarse = round(min(reach_px, side))
    shown = warp_crop(image.rgb, coarse * matrix, coarse)
    rgb = cv2.resize(shown, (side, side), interpolation=cv2.INTER_LINEAR)
    return np.asarray(rgb, np.uint8), side * matrix


def crop_object_coordinates(
    image: AnnotatedImage, object_index: int, matrix: NDArray[np.float64], side: int
) -> NDArray[np.float32]:
    """Return which points of an object a close-up of it shows (3, h/8, w/8), as
    ``SurfaceMaps.points`` has them.

    They are NaN where it shows something else, and all of them where the picture does not tell.

    Args:
        image: that shows it.
        object_index: of the object.
        matrix: from the picture to the close-up, as ``sample_roi_crop`` returns it.
        side: of the close-up.
    """
    assert image.object_coordinates is not None
    assert image.instance_map is not None
    cells = side // SURFACE_STRIDE_PX
    down, across = np.mgrid[:cells, :cells]
    centres = (np.stack([across, down], -1) + 0.5) * SURFACE_STRIDE_PX
    places = (centres - matrix[:, 2]) @ np.linalg.inv(matrix[:, :2]).T
    column, row = np.floor(places).astype(np.int64).transpose(2, 0, 1)
    height, width = image.instance_map.shape
    is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    row, column = row.clip(0, height - 1), column.clip(0, width - 1)
    is_shown = is_inside & (image.instance_map[row, column] == object_index + 1)
    points = np.where(is_shown[..., None], image.object_coordinates[row, column], np.nan)
    return points.transpose(2, 0, 1).astype(np.float32)
