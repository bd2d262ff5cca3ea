"""Conversion of masks to one polygon each, for formats without pixel masks."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_UPSAMPLING = 2  # moves outlines to a quarter pixel inside the mask's edge, from half a pixel


def trace_outline(mask: NDArray[np.bool_]) -> Floats:
    """Return the vertices (n, 2) of a polygon around a mask (h, w); pixel *i* covers [i, i + 1).

    Separate pieces and holes are connected by zero-width bridges, so one polygon covers the mask under the
    even-odd rule. It runs a quarter pixel inside the mask's edge, so rounding down returns mask pixels. The
    polygon of an empty mask is empty.
    """
    upsampled = mask.astype(np.uint8).repeat(_UPSAMPLING, axis=0).repeat(_UPSAMPLING, axis=1)
    rings, _ = cv2.findContours(upsampled, cv2.RETR_CCOMP, cv2.CHAIN_APPROX_SIMPLE)
    if not rings:
        return np.zeros((0, 2))
    corners = (np.asarray(ring[:, 0], np.int32) for ring in rings)
    polygon, *other_rings = sorted(corners, key=cv2.contourArea, reverse=True)
    for ring in other_rings:
        polygon = _bridge_ring(polygon, ring)
    return (polygon + 0.5) / _UPSAMPLING


def _bridge_ring(polygon: NDArray[np.int32], ring: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a polygon extended by a ring, connected at the nearest pair of vertices."""
    squared_distances = ((polygon[:, None] - ring) ** 2).sum(axis=2)  # (n, m)
    polygon_index, ring_index = np.unravel_index(
        int(squared_distances.argmin()), squared_distances.shape
    )
    rotated_ring = np.roll(ring, -int(ring_index), axis=0)
    return np.concatenate(
        [polygon[: polygon_index + 1], rotated_ring, rotated_ring[:1], polygon[polygon_index:]]
    )
