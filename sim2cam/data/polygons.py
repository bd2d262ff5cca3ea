"""Outlines: masks as one polygon each, for formats that have no pixels."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_UPSAMPLING = (
    2  # so that an outline runs a quarter of a pixel inside the pixels' edges, not half a one
)


def trace_outline(mask: NDArray[np.bool_]) -> Floats:
    """Return the corners (n, 2) of a polygon around a mask (h, w), pixel *i* being [i, i + 1).

    Pieces that lie apart, and holes, are joined to the whole by bridges without a width, so that
    one polygon is all of it (filled by the even-odd rule). It runs a quarter of a pixel inside the
    mask's edge, so that rounding down finds the mask's own pixels. Empty for an empty mask.
    """
    finer = mask.astype(np.uint8).repeat(_UPSAMPLING, axis=0).repeat(_UPSAMPLING, axis=1)
    rings, _ = cv2.findContours(finer, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    if not rings:
        return np.zeros((0, 2))
    corners = (np.asarray(ring[:, 0], np.int32) for ring in rings)
    whole, *others = sorted(corners, key=cv2.contourArea, reverse=True)
    for ring in others:
        whole = _bridge_ring(whole, ring)
    return (whole + 0.5) / _UPSAMPLING


def _bridge_ring(polygon: NDArray[np.int32], ring: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a polygon that leaves another at its corner nearest to a ring, goes round, and back."""
    apart = ((polygon[:, None] - ring) ** 2).sum(axis=2)  # (n, m)
    at, to = np.unravel_index(int(apart.argmin()), apart.shape)
    round_trip = np.roll(ring, -int(to), axis=0)
    return np.concatenate([polygon[: at + 1], round_trip, round_trip[:1], polygon[at:]])
