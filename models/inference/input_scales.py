"""The magnifications at which a picture is looked at, so that larger objects are seen as those trained on."""

from __future__ import annotations

import math
from dataclasses import dataclass

LEAST = 0.4
"""Of the largest side trained on, from which on objects count at a smaller magnification. A half would leave
none out if two levels said the same of its size."""


@dataclass(frozen=True)
class Level:
    """One magnification, and which objects count that are found at it.

    Attributes:
        scale: the magnification.
        least_px, most_px: longer sides of their boxes, at that scale.
    """

    scale: float
    least_px: float = 0.0
    most_px: float = math.inf


def pyramid(
    magnification: float, trained_px: tuple[float, float] | None, longest_px: int
) -> tuple[Level, ...]:
    """Returns the levels at which a picture is looked at, each half as large as the one before.

    The first one is that of the magnification. There are more as long as the picture has room for an
    object that is larger than those trained on. At each level objects count that are as large as the larger
    ones of those, at the first also smaller ones and at the last also larger ones (Singh and Davis 2018,
    "An analysis of scale invariance in object detection: SNIP").

    Args:
        magnification: at which the smallest objects are looked at.
        trained_px: longer sides of the boxes trained on, from small to large; one level when None.
        longest_px: the picture's longer side.
    """
    if trained_px is None:
        return (Level(magnification),)
    _, high = trained_px
    halvings = max(0, math.ceil(math.log2(longest_px * magnification / high)))
    return tuple(
        Level(
            magnification / 2**number,
            LEAST * high if number else 0.0,
            high if number < halvings else math.inf,
        )
        for number in range(halvings + 1)
    )
