"""Infrared light of a camera's own lamp: what comes back from each point that it sees."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import UsageError
from sim2cam.render.rasterizer import PinholeView
from sim2cam.scene.light import Environment, PointLight
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float32]

_BLACK = (0.0, 0.0, 0.0)
_UNIT_LAMP = (math.pi,) * 3  # gives radiance 1 to a white matt surface that faces it 1 m away


@dataclass(frozen=True)
class DepthCameraInput:
    """What stands before a depth camera, pixel by pixel.

    Attributes:
        depth_m: (h, w) along the optical axis, 0 where nothing is.
        returned_light: (h, w) light of the lamp that comes back; 1 from a white matt surface that faces
            the camera 1 m away.
        normals: (h, w, 3) unit vectors in the camera frame; without them every surface counts as
            facing the camera where it matters how it lies.
    """

    depth_m: Floats
    returned_light: Floats
    normals: Floats | None = None


def light_by_infrared_lamp(scene: Scene, view: PinholeView) -> Scene:
    """Return the scene with a lamp at the lens for its only light.

    Drawn, its ``radiance`` is what ``compute_returned_light`` wants: with glints, grazing light and falloff.
    """
    lamp = PointLight(view.pose.position_m, _UNIT_LAMP)
    return replace(scene, environment=Environment(_BLACK, _BLACK, (), (lamp,)))


def compute_returned_light(radiance: Floats) -> Floats:
    """Return the returned light (h, w) for the linear RGB radiance (h, w, 3) of a flashlit scene.

    Infrared is taken to be returned as the best returned colour: most dyes are clear there, while
    what is black with soot stays black. Our choice, for want of spectra.
    """
    return np.asarray(radiance.max(axis=-1), dtype=np.float32)


def compute_lambertian_return(
    view: PinholeView, depth_m: Floats, reflectance: Floats, normals: Floats | None = None
) -> Floats:
    """Return the returned light (h, w) of matt surfaces, by Lambert's law and the distance.

    Args:
        view: the camera.
        depth_m: (h, w), 0 where nothing is.
        reflectance: (h, w), 0 to 1.
        normals: (h, w, 3) as ``Seen`` has them.
    """
    seen = DepthCameraInput(depth_m, reflectance, normals)
    distance = np.where(depth_m > 0, depth_m * compute_ray_lengths(view), np.inf)
    return np.asarray(
        reflectance * compute_incidence_cosines(view, seen) / distance**2, dtype=np.float32
    )


def compute_ray_lengths(view: PinholeView) -> Floats:
    """Return the distance (h, w) of points over their depth."""
    x, y = _make_ray_grid(view)
    return np.asarray(np.sqrt(x * x + y * y + 1), dtype=np.float32)


def compute_incidence_cosines(view: PinholeView, inputs: DepthCameraInput) -> Floats:
    """Return the cosine (h, w) between ray and normal; 1 without normals."""
    if inputs.normals is None:
        return np.ones_like(inputs.depth_m)
    x, y = _make_ray_grid(view)
    along = inputs.normals[..., 0] * x + inputs.normals[..., 1] * y + inputs.normals[..., 2]
    return np.asarray(np.clip(np.abs(along) / compute_ray_lengths(view), 0, 1), dtype=np.float32)


def check_inputs(view: PinholeView, inputs: DepthCameraInput) -> None:
    """Refuse arrays that are not of the view's size.

    Raises:
        UsageError: naming the array.
    """
    size = (view.height, view.width)
    expected = {"depth_m": size, "returned_light": size, "normals": (*size, 3)}
    for name, shape in expected.items():
        array = getattr(inputs, name)
        if array is not None and array.shape != shape:
            raise UsageError(
                f"{name} is {array.shape}, but the view is {view.width}x{view.height}: "
                f"give it as {shape}."
            )


def _make_ray_grid(view: PinholeView) -> tuple[Floats, Floats]:
    """Return x (1, w) and y (h, 1) of the points seen at a depth of 1."""
    x = (np.arange(view.width, dtype=np.float32) - view.cx_px) / view.focal_px
    y = (np.arange(view.height, dtype=np.float32) - view.cy_px) / view.focal_px
    return x.astype(np.float32)[None, :], y.astype(np.float32)[:, None]
