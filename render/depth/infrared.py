"""Infrared light of a depth camera's lamp that returns from each visible point."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import UsageError
from sim2cam.render.gbuffer import PinholeView
from sim2cam.scene.light import Environment, PointLight
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float32]

_BLACK = (0.0, 0.0, 0.0)
_UNIT_LAMP = (math.pi,) * 3  # radiance 1 from a white matt surface that faces it at 1 m


@dataclass(frozen=True)
class DepthCameraInput:
    """Rendered input of a depth camera model.

    Attributes:
        depth_m: (h, w) along the optical axis, 0 for the background.
        returned_light: (h, w) returned light of the lamp; 1 from a white matt surface that faces
            the camera at 1 m.
        normals: (h, w, 3) unit vectors in the camera frame; None if all surfaces face the camera.
    """

    depth_m: Floats
    returned_light: Floats
    normals: Floats | None = None


def replace_lights_by_lamp(scene: Scene, view: PinholeView) -> Scene:
    """Return the scene with a lamp at the lens as the only light.

    Its rendered ``radiance`` is the input of ``compute_returned_light``.
    """
    lamp = PointLight(view.pose.position_m, _UNIT_LAMP)
    return replace(scene, environment=Environment(_BLACK, _BLACK, (), (lamp,)))


def compute_returned_light(radiance: Floats) -> Floats:
    """Return the returned light (h, w) of the linear RGB radiance (h, w, 3) under the lamp.

    Infrared reflectance is approximated by the brightest colour channel: most dyes are transparent
    to infrared, while carbon black is not.
    """
    return np.asarray(radiance.max(axis=-1), dtype=np.float32)


def compute_ray_lengths(view: PinholeView) -> Floats:
    """Return the ratio (h, w) of distance to depth."""
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
    """Raise UsageError if an array does not have the size of the view."""
    size = (view.height, view.width)
    expected = {"depth_m": size, "returned_light": size, "normals": (*size, 3)}
    for name, shape in expected.items():
        array = getattr(inputs, name)
        if array is not None and array.shape != shape:
            raise UsageError(
                f"{name} has shape {array.shape}, but the view is {view.width}x{view.height}. "
                f"Expected shape: {shape}."
            )


def _make_ray_grid(view: PinholeView) -> tuple[Floats, Floats]:
    """Return x (1, w) and y (h, 1) of the pixel rays at depth 1."""
    x = (np.arange(view.width, dtype=np.float32) - view.cx_px) / view.focal_px
    y = (np.arange(view.height, dtype=np.float32) - view.cy_px) / view.focal_px
    return x.astype(np.float32)[None, :], y.astype(np.float32)[:, None]
