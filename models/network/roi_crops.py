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

from sim2cam.models.augment.crops import CropRules, draw_upright, warp
from sim2cam.models.network.roi_classifier import SURFACE_STRIDE_PX
from sim2cam.models.training.images import Picture

CATEGORY_PX, SURFACE_PX = 64, 160
FILL = 0.72
"""Share of a close-up's side that the longer side of the box takes."""

READ_FILLS = 0.65, 0.8
"""The same of those that categories are read from, each also mirrored where crops were: the mean of what four
views say is right more often than what one does (docs/decisions/0055-read-four-times.md)."""

_FILLS = (0.6, 0.85)  # while it learns: boxes that are found are not exact
_OFF_CENTRE = 0.07  # of the box's longer side


def side_px(*, poses: bool) -> int:
    """Returns the side of close-ups, in pixels."""
    return SURFACE_PX if poses else CATEGORY_PX


def close_ups_a_crop(*, categories: bool, poses: bool) -> int:
    """Returns how many close-ups are learned for each crop: what they show is learned more slowly than boxes."""
    return 4 if poses else 8 if categories else 0


class View(NamedTuple):
    """How an object is looked at.

    Attributes:
        fill: share of the close-up's side that the longer side of its box takes.
        is_mirrored: left and right.
    """

    fill: float = FILL
    is_mirrored: bool = False


PLAIN = View()


def read_views(*, poses: bool, flips: bool) -> tuple[View, ...]:
    """Returns how each object is looked at: once for its pose, or more often for its category alone.

    Args:
        poses: whether points of the surface are read.
        flips: whether close-ups were mirrored while it learned.
    """
    if poses:
        return (PLAIN,)
    return tuple(
        View(fill, flip) for flip in ((False, True) if flips else (False,)) for fill in READ_FILLS
    )


def close_up(
    rgb: NDArray[np.uint8], box_xyxy: NDArray[np.float64], side: int, view: View = PLAIN
) -> NDArray[np.uint8]:
    """Returns the close-up (side, side, 3) of a box (4,) in an image."""
    low, reach_px = close_up_square(box_xyxy, view.fill)
    scale = side / reach_px
    shown = warp(rgb, np.column_stack([scale * np.eye(2), -scale * low]), side)
    return np.ascontiguousarray(shown[:, ::-1]) if view.is_mirrored else shown


def close_up_square(
    box_xyxy: NDArray[np.float64], fill: float = FILL
) -> tuple[NDArray[np.float64], float]:
    """Returns the upper left corner (2,) and the side of what a close-up of a box (4,) shows, in its pixels."""
    reach_px = max(float((box_xyxy[2:] - box_xyxy[:2]).max()), 1.0) / fill
    return (box_xyxy[:2] + box_xyxy[2:]) / 2 - reach_px / 2, reach_px


def readable(picture: Picture, rules: CropRules) -> NDArray[np.bool_]:
    """Returns which objects (n,) of a picture are seen well enough for their category to be learned."""
    least = max(rules.min_visible, rules.min_read)
    return np.asarray(~picture.ignored & (picture.visible * picture.inside >= least))


def draw_close_up(
    picture: Picture, number: int, rules: CropRules, side: int, rng: np.random.Generator
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Returns a close-up of an object, and the affine map (2, 3) to it from the picture's edge-based pixels.

    It is mirrored as crops are, off its centre, and finer or coarser than the picture as far as crops are
    than one another. It stands as the picture does: which way is up tells what is upper and what is beside it
    (docs/decisions/0057-crops-are-turned-close-ups-stand.md).

    Args:
        picture: that shows it.
        number: of the object.
        rules: how crops are drawn.
        side: of the close-up.
        rng: source of chance.
    """
    linear = draw_upright(rules, rng) / sqrt(rules.scale_range[0] * rules.scale_range[1])
    outline = picture.outlines[number] @ linear.T
    low, high = outline.min(axis=0), outline.max(axis=0)
    longer = float((high - low).max())
    middle = (low + high) / 2 + rng.uniform(-_OFF_CENTRE, _OFF_CENTRE, 2) * longer
    reach_px = max(longer / rng.uniform(*_FILLS), 1.0)
    matrix = np.column_stack([linear, reach_px / 2 - middle]) / reach_px
    coarse = round(min(reach_px, side))
    shown = warp(picture.rgb, coarse * matrix, coarse)
    rgb = cv2.resize(shown, (side, side), interpolation=cv2.INTER_LINEAR)
    return np.asarray(rgb, np.uint8), side * matrix


def surface_in(
    picture: Picture, number: int, matrix: NDArray[np.float64], side: int
) -> NDArray[np.float32]:
    """Returns which points of an object a close-up of it shows (3, h/8, w/8), as
    ``SurfaceMaps.points`` has them.

    They are NaN where it shows something else, and all of them where the picture does not tell.

    Args:
        picture: that shows it.
        number: of the object.
        matrix: from the picture to the close-up, as ``draw_close_up`` returns it.
        side: of the close-up.
    """
    assert picture.points is not None
    assert picture.owners is not None
    cells = side // SURFACE_STRIDE_PX
    down, across = np.mgrid[:cells, :cells]
    centres = (np.stack([across, down], -1) + 0.5) * SURFACE_STRIDE_PX
    places = (centres - matrix[:, 2]) @ np.linalg.inv(matrix[:, :2]).T
    column, row = np.floor(places).astype(np.int64).transpose(2, 0, 1)
    height, width = picture.owners.shape
    is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    row, column = row.clip(0, height - 1), column.clip(0, width - 1)
    is_shown = is_inside & (picture.owners[row, column] == number + 1)
    points = np.where(is_shown[..., None], picture.points[row, column], np.nan)
    return points.transpose(2, 0, 1).astype(np.float32)
