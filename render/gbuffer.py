"""The G-buffer: everything a rasterizer knows of a view, pixel by pixel.

All channels but the radiance are taken at the pixels' centres and never mixed:

``radiance``
    linear RGB (h, w, 3) float32, the mean over the pixel.
``compute_depth_m``
    (h, w) float32 along the optical axis, 0 where nothing is.
``bodies``
    (h, w) uint32, number (from 1) of the body seen, in the order of the scene; 0 where nothing is.
``parts``
    (h, w) uint32, number (from 1) of the part of that body; 0 where nothing is.
``normals``
    (h, w, 3) float32 unit vectors of the surface in the camera frame, 0 where nothing is; relief
    that is only painted as a normal map is not in them.
``cover``
    (h, w, words) uint32; bit i - 1 says that labelled body i lies behind the pixel, seen or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import Box, extents_to_box

Channel = Literal["radiance", "depth_m", "bodies", "parts", "normals", "cover"]
CHANNELS: frozenset[Channel] = frozenset(get_args(Channel))
BITS_PER_WORD = 32

GBuffer = Mapping[Channel, NDArray[Any]]
"""The channels of a view that were asked for."""


def decode_amodal_mask(amodal_bits: NDArray[np.uint32], label_id: int) -> NDArray[np.bool_]:
    """Return the pixels (h, w) behind which a labelled body lies, seen or not."""
    word, bit = divmod(label_id - 1, BITS_PER_WORD)
    return np.asarray((amodal_bits[..., word] >> np.uint32(bit)) & 1 > 0)


def find_amodal_boxes(amodal_bits: NDArray[np.uint32]) -> dict[int, Box]:
    """Return the boxes of the pixels behind which each labelled body lies, by its number."""
    rows, columns = (
        np.bitwise_or.reduce(amodal_bits, axis=axis) for axis in (1, 0)
    )  # (h or w, words)
    found = {}
    for number in range(1, BITS_PER_WORD * amodal_bits.shape[2] + 1):
        lines = (decode_amodal_mask(line[None], number)[0] for line in (rows, columns))
        box = extents_to_box(*lines)
        if box is not None:
            found[number] = box
    return found
