"""Overlapping tiles for images that are too large for one forward pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

STRIDE = 4
"""Heights and widths of generator inputs are multiples of it."""


class TileSpan(NamedTuple):
    """A tile along one axis.

    Attributes:
        input_slice: pixels of the image that enter the network, with context.
        crop_slice: part of the network's output that is kept, without context.
        output_slice: position of that part in the image.
    """

    input_slice: slice
    crop_slice: slice
    output_slice: slice


def split_into_tiles(length: int, context_px: int, tile_px: int) -> Iterator[TileSpan]:
    """Yield tiles of nearly equal length along one axis.

    Args:
        length: length of the axis in pixels; a multiple of ``STRIDE``.
        context_px: context on each side of the kept part; a multiple of ``STRIDE``.
        tile_px: largest length of the kept part; a multiple of ``STRIDE``.
    """
    count = math.ceil(length / tile_px)
    step = STRIDE * math.ceil(length / count / STRIDE)
    for start in range(0, length, step):
        stop = min(start + step, length)
        context_start = max(start - context_px, 0)
        input_slice = slice(context_start, min(stop + context_px, length))
        yield TileSpan(
            input_slice, slice(start - context_start, stop - context_start), slice(start, stop)
        )
