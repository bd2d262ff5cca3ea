"""The magnifications at which a picture is looked at, so that larger objects are seen as those trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

MIN_SIDE_RATIO = 0.4
"""Of the largest side trained on, from which on objects count at a smaller magnification. A half would leave
none out if two levels said the same of its size."""


@dataclass(frozen=True)
class PyramidLevel:
    """One magnification, and which objects count that are found at it.

    Attributes:
        input_scale: the magnification.
        min_side_px, max_side_px: longer sides of their boxes, at that scale.
    """

    input_scale: float
    min_side_px: float = 0.0
    max_side_px: float = math.inf


def build_pyramid(
    input_scale: float, trained_sizes_px: tuple[float, float] | None, image_side_px: int
) -> tuple[PyramidLevel, ...]:
    """Return the levels at which a picture is looked at, each half as large as the one before.

    The first one is that of the magnification. There are more as long as the picture has room for an
    object that is larger than those trained on. At each level objects count that are as large as the larger
    ones of those, at the first also smaller ones and at the last also larger ones (Singh and Davis 2018,
    "An analysis of scale invariance in object detection: SNIP").

    Args:
        input_scale: at which the smallest objects are looked at.
        trained_sizes_px: longer sides of the boxes trained on, from small to large; one level when None.
        image_side_px: the picture's longer side.
    """
    if trained_sizes_px is None:
        return (PyramidLevel(input_scale),)
    _, high = trained_sizes_px
    halvings = max(0, math.ceil(math.log2(image_side_px * input_scale / high)))
    return tuple(
        PyramidLevel(
            input_scale / 2**number,
            MIN_SIDE_RATIO * high if number else 0.0,
            high if number < halvings else math.inf,
        )
        for number in range(halvings + 1)
    )
