"""Depth images of all kinds of depth cameras, in 16 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import LensError, UsageError
from sim2cam.render.depth.active_stereo import measure_active_stereo
from sim2cam.render.depth.infrared import (
    DepthCameraInput,
    check_inputs,
    compute_returned_light,
    replace_lights_by_lamp,
)
from sim2cam.render.depth.structured_light import measure_structured_light
from sim2cam.render.depth.time_of_flight import measure_time_of_flight
from sim2cam.render.gbuffer import Channel, PinholeView, Rasterizer
from sim2cam.render.optics.views import build_optics
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
    """Render the depth image (h, w) of a depth camera, in its depth unit; 0 without a reading.

    The depth camera measures the undistorted view under the lens; each pixel of the image takes
    the nearest reading. The infrared lamp is the only light, and nothing moves.

    Args:
        scene: settled scene.
        camera: one of its cameras.
        rasterizer: rasterizer to render with.

    Raises:
        UsageError: the camera has no depth camera.
        LensError: the field of view needs more than one undistorted view.
        BackendError: the rasterizer does not support normals.
    """
    if camera.depth_camera is None:
        raise UsageError(
            "the camera has no depth camera. Add one, or [domain.depth_camera] to the recipe."
        )
    optics = build_optics(camera)
    if optics.pinhole is not None:
        depth = _measure_view(scene, optics.pinhole, camera.depth_camera, rasterizer)
        return to_uint16(depth, camera.depth_camera.depth_unit_m)
    if len(optics.patches) != 1:
        raise LensError(
            "the field of view of the lens is too wide for a depth camera. Use a narrower one, or "
            "leave out sensor_depth."
        )
    patch = optics.patches[0]
    view, positions = patch.make_view(1, _MARGIN_PX)
    x, y = np.rint(positions).astype(np.intp)
    depth = _measure_view(scene, view, camera.depth_camera, rasterizer)[y, x] * patch.depth_scale
    image = depth.reshape(camera.height, camera.width)
    return to_uint16(image, camera.depth_camera.depth_unit_m)


def _measure_view(
    scene: Scene, view: PinholeView, camera: AnyDepthCamera, rasterizer: Rasterizer
) -> Floats:
    gbuffer = rasterizer.render(replace_lights_by_lamp(scene, view), view, _INPUT_CHANNELS)
    inputs = DepthCameraInput(
        gbuffer["depth_m"], compute_returned_light(gbuffer["radiance"]), gbuffer["normals"]
    )
    return measure_depth(view, inputs, camera)


def measure_depth(view: PinholeView, inputs: DepthCameraInput, camera: AnyDepthCamera) -> Floats:
    """Return the measured depth (h, w) float32, 0 without a reading. Deterministic.

    Raises:
        UsageError: an array does not have the size of the view.
    """
    check_inputs(view, inputs)
    if isinstance(camera, StructuredLight):
        return measure_structured_light(view, inputs, camera)
    if isinstance(camera, ActiveStereo):
        return measure_active_stereo(view, inputs, camera)
    return measure_time_of_flight(view, inputs, camera)


def to_uint16(depth_m: Floats, depth_unit_m: float) -> NDArray[np.uint16]:
    """Convert depths (h, w) to whole depth units; 0 (no reading) where they exceed 16 bits."""
    units = np.rint(depth_m / np.float64(depth_unit_m))
    return np.where(units <= UINT16_MAX, units, 0).astype(np.uint16)
