"""Haze: air between the scene and the camera, which dims what is far and shines itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.optics.views import compute_pixel_rays
from sim2cam.scene.camera import Camera
from sim2cam.scene.light import Haze

Floats = NDArray[np.float32]


def apply_haze(radiance: Floats, haze: Haze, camera: Camera, depth_m: Floats) -> Floats:
    """Return the light (h, w, 3) that is left behind the air, with the air's own.

    Light is lost by Beer's law, and air gains what it scatters by Koschmieder's (Narasimhan and Nayar
    2002, "Vision and the atmosphere"). Pixels at edges take the way to what is in their middle.

    Args:
        radiance: (h, w, 3) linear RGB, where the lens projects it.
        haze: the air.
        camera: whose lens it is.
        depth_m: (h, w) depth of what is seen, 0 where nothing is: infinitely far.
    """
    if haze.extinction_per_m == 0:
        return radiance  # also from infinitely far
    left = np.exp(-haze.extinction_per_m * compute_distances_m(camera, depth_m))[..., None]
    air = np.array(haze.airlight, np.float32)
    return np.asarray(radiance * left + air * (1 - left), np.float32)


def compute_distances_m(camera: Camera, depth_m: Floats) -> Floats:
    """Return the way (h, w) from the camera to what is seen, infinite where nothing is."""
    far = np.where(depth_m > 0, depth_m, np.inf)
    if camera.lens.depth_along == "ray":
        return np.asarray(far, np.float32)
    ahead = compute_pixel_rays(camera.lens, camera.width, camera.height)[2]
    return np.asarray(far / ahead, np.float32)
