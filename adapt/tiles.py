"""Tiles: the parts of a picture that is too large to go through a network at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

STRIDE = 4
"""Sides of what enters a generator, of ours or of published ones, are multiples of this."""


class Span(NamedTuple):
    """One side of a tile.

    Attributes:
        seen: pixels of the image that it is made from.
        kept: of what is made of them, what is free of the tile's own edges.
        made: where that lies in the image.
    """

    seen: slice
    kept: slice
    made: slice


def spans(length: int, reach_px: int, tile_px: int) -> Iterator[Span]:
    """Yields the tiles along a side, as equal as can be.

    Args:
        length: of the side, pixels; a multiple of ``STRIDE``.
        reach_px: what a tile sees beyond what is kept of it; a multiple of ``STRIDE``.
        tile_px: that are kept of each, at most; a multiple of ``STRIDE``.
    """
    count = math.ceil(length / tile_px)
    step = STRIDE * math.ceil(length / count / STRIDE)
    for start in range(0, length, step):
        stop = min(start + step, length)
        first = max(start - reach_px, 0)
        seen = slice(first, min(stop + reach_px, length))
        yield Span(seen, slice(start - first, stop - first), slice(start, stop))
