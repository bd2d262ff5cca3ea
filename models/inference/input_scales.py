"""Image pyramid for objects that are larger than those in the training data."""

from __future__ import annotations

import math
from dataclasses import dataclass

MIN_SIDE_RATIO = 0.4
"""Smallest side of objects at a coarser level, relative to the largest trained one.

0.5 would leave no gap if two levels predicted the same size; 0.4 leaves a margin.
"""

MULTI_SCALE_FACTORS = (1.0, 0.75, 1.25)
"""Factors on the input scale in a test at several scales; the first is that of the card."""


@dataclass(frozen=True)
class PyramidLevel:
    """Input scale of a pyramid level, with the object sizes it detects.

    Attributes:
        input_scale: the input scale.
        min_side_px, max_side_px: range of the longer box side, in pixels at this scale.
        halvings: number of times that the input scale was halved for this level.
    """

    input_scale: float
    min_side_px: float = 0.0
    max_side_px: float = math.inf
    halvings: int = 0


def build_pyramid(
    input_scale: float, trained_sizes_px: tuple[float, float] | None, image_side_px: int
) -> tuple[PyramidLevel, ...]:
    """Return the levels of an image pyramid, each half the size of the previous one.

    Levels are added as long as the image has room for objects larger than the trained ones. Each level accepts
    the upper part of the trained sizes, the first also smaller and the last also larger objects (Singh and
    Davis 2018, "An analysis of scale invariance in object detection: SNIP").

    Args:
        input_scale: input scale of the first level.
        trained_sizes_px: smallest and largest longer box side in the training data; None for one level.
        image_side_px: longer side of the image.
    """
    if trained_sizes_px is None:
        return (PyramidLevel(input_scale),)
    _, max_side_px = trained_sizes_px
    halvings = max(0, math.ceil(math.log2(image_side_px * input_scale / max_side_px)))
    return tuple(
        PyramidLevel(
            input_scale / 2**level,
            MIN_SIDE_RATIO * max_side_px if level else 0.0,
            max_side_px if level < halvings else math.inf,
            level,
        )
        for level in range(halvings + 1)
    )
