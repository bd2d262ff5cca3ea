"""Tiles: the parts of a picture that is too large to go through a network at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

STRIDE = 4
"""Sides of what enters a generator, of ours or of published ones, are multiples of this."""


class TileSpan(NamedTuple):
    """One side of a tile.

    Attributes:
        input_slice: pixels of the image that it is made from.
        crop_slice: of what is made of them, what is free of the tile's own edges.
        output_slice: where that lies in the image.
    """

    input_slice: slice
    crop_slice: slice
    output_slice: slice


def split_into_tiles(length: int, context_px: int, tile_px: int) -> Iterator[TileSpan]:
    """Yield the tiles along a side, as equal as can be.

    Args:
        length: of the side, pixels; a multiple of ``STRIDE``.
        context_px: what a tile sees beyond what is kept of it; a multiple of ``STRIDE``.
        tile_px: that are kept of each, at most; a multiple of ``STRIDE``.
    """
    count = math.ceil(length / tile_px)
    step = STRIDE * math.ceil(length / count / STRIDE)
    for start in range(0, length, step):
        stop = min(start + step, length)
        first = max(start - context_px, 0)
        seen = slice(first, min(stop + context_px, length))
        yield TileSpan(seen, slice(start - first, stop - first), slice(start, stop))
