"""Depth cameras: what each kind reads of a view, and its 16-bit pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.active_stereo import depth_by_stereo
from sim2cam.render.infrared import Seen, check_seen
from sim2cam.render.rasterizer import PinholeView
from sim2cam.render.structured_light import depth_by_pattern
from sim2cam.render.time_of_flight import depth_by_flight
from sim2cam.scene.depth_camera import (
    UINT16_MAX,
    ActiveStereo,
    AnyDepthCamera,
    StructuredLight,
)

Floats = NDArray[np.float32]


def measure_depth(view: PinholeView, seen: Seen, camera: AnyDepthCamera) -> Floats:
    """Returns the depth (h, w) float32 that the camera reads, 0 where it reads none. Deterministic.

    Raises:
        UsageError: an array is not of the view's size.
    """
    check_seen(view, seen)
    if isinstance(camera, StructuredLight):
        return depth_by_pattern(view, seen, camera)
    if isinstance(camera, ActiveStereo):
        return depth_by_stereo(view, seen, camera)
    return depth_by_flight(view, seen, camera)


def to_uint16(depth_m: Floats, depth_unit_m: float) -> NDArray[np.uint16]:
    """Returns depths (h, w) in whole units; 0, no reading, where 16 bits do not reach."""
    units = np.rint(depth_m / np.float64(depth_unit_m))
    return np.where(units <= UINT16_MAX, units, 0).astype(np.uint16)


def from_uint16(units: NDArray[np.uint16], depth_unit_m: float) -> Floats:
    """Returns the depths (h, w) in metres; inverse of ``to_uint16`` up to half a unit."""
    return (units * np.float64(depth_unit_m)).astype(np.float32)
