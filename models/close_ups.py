"""Close-ups of objects, all brought to one size, from which a detector may read their categories.

Where categories differ in small marks, as faces of dice and playing cards do, a network that sees every object
equally large learns them from far fewer crops than maps that have to find objects of all sizes as well.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.models.crops import CropRules, draw_linear, warp
from sim2cam.models.pictures import Picture

CLOSE_UPS = 2  # for each crop of a training
CLOSE_UP_PX = 64
FILL = 0.72
"""Share of a close-up's side that the longer side of the box takes."""

_FILLS = (0.6, 0.85)  # while it learns: boxes that are found are not exact
_OFF_CENTRE = 0.07  # of the box's longer side


def close_up(rgb: NDArray[np.uint8], box_xyxy: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Returns the close-up (``CLOSE_UP_PX``, ``CLOSE_UP_PX``, 3) of a box (4,) in an image."""
    middle = (box_xyxy[:2] + box_xyxy[2:]) / 2
    scale = CLOSE_UP_PX * FILL / max(float((box_xyxy[2:] - box_xyxy[:2]).max()), 1.0)
    matrix = np.column_stack([scale * np.eye(2), CLOSE_UP_PX / 2 - scale * middle])
    return warp(rgb, matrix, CLOSE_UP_PX)


def readable(picture: Picture, rules: CropRules) -> NDArray[np.bool_]:
    """Returns which objects (n,) of a picture are seen well enough for their category to be learned."""
    least = max(rules.min_visible, rules.min_read)
    return np.asarray(~picture.ignored & (picture.visible >= least))


def draw_close_up(
    picture: Picture, number: int, rules: CropRules, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Returns a close-up of an object, turned and mirrored as crops are, off its centre, and no finer.

    Args:
        picture: that shows it.
        number: of the object.
        rules: how crops are drawn.
        rng: source of chance.
    """
    linear = draw_linear(picture, rules, rng)
    outline = picture.outlines[number] @ linear.T
    low, high = outline.min(axis=0), outline.max(axis=0)
    side = float((high - low).max())
    middle = (low + high) / 2 + rng.uniform(-_OFF_CENTRE, _OFF_CENTRE, 2) * side
    reach_px = side / rng.uniform(*_FILLS)
    coarse = round(min(max(reach_px, 1.0), CLOSE_UP_PX))
    shrink = coarse / reach_px
    shown = warp(
        picture.rgb, np.column_stack([shrink * linear, coarse / 2 - shrink * middle]), coarse
    )
    size = (CLOSE_UP_PX, CLOSE_UP_PX)
    return np.asarray(cv2.resize(shown, size, interpolation=cv2.INTER_LINEAR), np.uint8)
