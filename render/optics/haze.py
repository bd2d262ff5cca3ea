"""Haze: extinction and airlight between scene and camera."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.optics.views import compute_pixel_rays
from sim2cam.scene.camera import Camera
from sim2cam.scene.light import Haze

Floats = NDArray[np.float32]


def apply_haze(radiance: Floats, haze: Haze, camera: Camera, depth_m: Floats) -> Floats:
    """Attenuate the radiance (h, w, 3) and add airlight.

    Extinction follows Beer's law, and airlight Koschmieder's (Narasimhan and Nayar 2002, "Vision
    and the atmosphere"). Mixed pixels at edges take the distance at their centre.

    Args:
        radiance: (h, w, 3) linear RGB, after the lens.
        haze: extinction and airlight.
        camera: camera with the lens.
        depth_m: (h, w) depth; 0 for the background, at infinity.
    """
    if haze.extinction_per_m == 0:
        return radiance  # also for the background, where the exponent is not defined
    transmission = np.exp(-haze.extinction_per_m * compute_distances_m(camera, depth_m))[..., None]
    airlight = np.array(haze.airlight, np.float32)
    return np.asarray(radiance * transmission + airlight * (1 - transmission), np.float32)


def compute_distances_m(camera: Camera, depth_m: Floats) -> Floats:
    """Return the distance (h, w) to the visible surface, infinite for the background."""
    depth_or_inf = np.where(depth_m > 0, depth_m, np.inf)
    if camera.lens.depth_along == "ray":
        return np.asarray(depth_or_inf, np.float32)
    cosines = compute_pixel_rays(camera.lens, camera.width, camera.height)[2]
    return np.asarray(depth_or_inf / cosines, np.float32)
