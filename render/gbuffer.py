"""G-buffer: the channels that a rasterizer renders of a view.

All channels but the radiance are sampled at pixel centres and never interpolated. Background
pixels are 0.

``radiance``
    linear RGB (h, w, 3) float32, averaged over the pixel.
``depth_m``
    (h, w) float32 along the optical axis.
``bodies``
    (h, w) uint32 number of the visible body, from 1 in the order of the scene.
``parts``
    (h, w) uint32 number of the visible part of that body, from 1.
``normals``
    (h, w, 3) float32 unit normals in the camera frame, without normal maps.
``cover``
    (h, w, words) uint32; bit i - 1 is set where labelled body i lies, visible or occluded.
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
"""Requested channels of a view."""


def decode_amodal_mask(amodal_bits: NDArray[np.uint32], label_id: int) -> NDArray[np.bool_]:
    """Return the amodal mask (h, w) of a labelled body."""
    word, bit = divmod(label_id - 1, BITS_PER_WORD)
    return np.asarray((amodal_bits[..., word] >> np.uint32(bit)) & 1 > 0)


def find_amodal_boxes(amodal_bits: NDArray[np.uint32]) -> dict[int, Box]:
    """Return the amodal box of each labelled body, by label id."""
    rows, columns = (
        np.bitwise_or.reduce(amodal_bits, axis=axis) for axis in (1, 0)
    )  # (h or w, words)
    boxes = {}
    for label_id in range(1, BITS_PER_WORD * amodal_bits.shape[2] + 1):
        occupied = (decode_amodal_mask(words[None], label_id)[0] for words in (rows, columns))
        box = extents_to_box(*occupied)
        if box is not None:
            boxes[label_id] = box
    return boxes
