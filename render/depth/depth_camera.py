"""Depth cameras: what each kind reads of a view, and its 16-bit pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import LensError, UsageError
from sim2cam.render.depth.active_stereo import measure_active_stereo
from sim2cam.render.depth.infrared import (
    DepthCameraInput,
    check_inputs,
    compute_returned_light,
    light_by_infrared_lamp,
)
from sim2cam.render.depth.structured_light import measure_structured_light
from sim2cam.render.depth.time_of_flight import measure_time_of_flight
from sim2cam.render.gbuffer import Channel
from sim2cam.render.optics.views import build_optics
from sim2cam.render.rasterizer import PinholeView, Rasterizer
from sim2cam.scene.camera import Camera
from sim2cam.scene.depth_camera import (
    UINT16_MAX,
    ActiveStereo,
    AnyDepthCamera,
    StructuredLight,
)
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float32]

_MARGIN_PX = 2
_INPUT_CHANNELS: tuple[Channel, ...] = ("radiance", "depth_m", "normals")


def render_sensor_depth(scene: Scene, camera: Camera, rasterizer: Rasterizer) -> NDArray[np.uint16]:
    """Return what the depth camera of a camera reads (h, w), in its unit, 0 where it reads nothing.

    It measures in the undistorted view that the lens's picture is made from; each pixel of the
    picture has the reading nearest to where it looks. The lamp is the only light meanwhile, and all
    stands as in the middle of the camera's exposure.

    Args:
        scene: settled.
        camera: one of its cameras.
        rasterizer: with the scene loaded, as it is again afterwards.

    Raises:
        UsageError: the camera has no depth camera.
        LensError: no single view shows what the lens sees.
        BackendError: the rasterizer cannot give normals.
    """
    if camera.depth_camera is None:
        raise UsageError(
            "the camera has no depth camera. Give it one, or its recipe a [domain.depth_camera]."
        )
    optics = build_optics(camera)
    if optics.pinhole is not None:
        depth = _measure_view(scene, optics.pinhole, camera.depth_camera, rasterizer)
        return to_uint16(depth, camera.depth_camera.depth_unit_m)
    if len(optics.patches) != 1:
        raise LensError(
            "the lens sees too wide for a depth camera, which has one flat picture. Use a "
            "narrower field or leave out sensor_depth."
        )
    face = optics.patches[0]
    view, places = face.make_view(1, _MARGIN_PX)
    x, y = np.rint(places).astype(np.intp)
    depth = _measure_view(scene, view, camera.depth_camera, rasterizer)[y, x] * face.depth_scale
    picture = depth.reshape(camera.height, camera.width)
    return to_uint16(picture, camera.depth_camera.depth_unit_m)


def _measure_view(
    scene: Scene, view: PinholeView, camera: AnyDepthCamera, rasterizer: Rasterizer
) -> Floats:
    rasterizer.load(light_by_infrared_lamp(scene, view))
    try:
        drawn = rasterizer.render(view, _INPUT_CHANNELS)
    finally:
        rasterizer.load(scene)
    seen = DepthCameraInput(
        drawn["depth_m"], compute_returned_light(drawn["radiance"]), drawn["normals"]
    )
    return measure_depth(view, seen, camera)


def measure_depth(view: PinholeView, inputs: DepthCameraInput, camera: AnyDepthCamera) -> Floats:
    """Return the depth (h, w) float32 that the camera reads, 0 where it reads none. Deterministic.

    Raises:
        UsageError: an array is not of the view's size.
    """
    check_inputs(view, inputs)
    if isinstance(camera, StructuredLight):
        return measure_structured_light(view, inputs, camera)
    if isinstance(camera, ActiveStereo):
        return measure_active_stereo(view, inputs, camera)
    return measure_time_of_flight(view, inputs, camera)


def to_uint16(depth_m: Floats, depth_unit_m: float) -> NDArray[np.uint16]:
    """Return depths (h, w) in whole units; 0, no reading, where 16 bits do not reach."""
    units = np.rint(depth_m / np.float64(depth_unit_m))
    return np.where(units <= UINT16_MAX, units, 0).astype(np.uint16)


def from_uint16(units: NDArray[np.uint16], depth_unit_m: float) -> Floats:
    """Return the depths (h, w) in metres; inverse of ``to_uint16`` up to half a unit."""
    return (units * np.float64(depth_unit_m)).astype(np.float32)
