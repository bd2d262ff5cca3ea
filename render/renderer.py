"""Renderer: scenes to frames, on the backend of this process."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import CHANNELS, OutputName
from sim2cam.data.sample import ObjectLabel
from sim2cam.errors import BackendError, UsageError, suggest_name
from sim2cam.render.backends.mitsuba import PathTracedRasterizer
from sim2cam.render.backends.opengl.rasterizer import OpenGLRasterizer
from sim2cam.render.backends.tiny_renderer import TinyRasterizer
from sim2cam.render.depth.depth_camera import render_sensor_depth
from sim2cam.render.frame import Frame, annotate, make_channels, make_labels
from sim2cam.render.gbuffer import (
    LABEL_CHANNELS,
    Channel,
    GBuffer,
    PinholeView,
    Rasterizer,
    convert_to_instance_ids,
)
from sim2cam.render.labels.ground_truth import RenderedView
from sim2cam.render.labels.objects import find_occlusions
from sim2cam.render.labels.stereo import compute_stereo_channels, make_right_camera
from sim2cam.render.optics.lens_effects import apply_optics
from sim2cam.render.optics.shutter import ExposureResult, expose, render_ground_truth
from sim2cam.render.sensor.auto_exposure import PreviousSettings
from sim2cam.render.sensor.sensor import CapturedImage, capture_image
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

BACKEND_VARIABLE = "SIM2CAM_BACKEND"
BACKENDS = ("egl", "osmesa", "tiny", "mitsuba")

_OPTIONAL_CHANNELS: tuple[Channel, ...] = ("parts", "normals")
_RIGHT_CAMERA_CHANNELS: tuple[Channel, ...] = ("depth_m", "bodies")
_STEREO_OUTPUTS: tuple[OutputName, ...] = ("right", "disparity", "shared")


@dataclass(frozen=True)
class Renderer:
    """Renderer of scenes with one rasterizer."""

    rasterizer: Rasterizer

    @property
    def name(self) -> str:
        """Backend and device, for provenance."""
        return self.rasterizer.name

    @contextmanager
    def open(self, scene: Scene) -> Iterator[Stage]:
        """Load a settled scene for rendering, and release its device memory at the end.

        Stages may be open at the same time: each renders its own scene.

        Raises:
            BackendError: the rasterizer does not support the scene.
        """
        self.rasterizer.load(scene)
        try:
            yield Stage(scene, self.rasterizer)
        finally:
            self.rasterizer.release()


@dataclass(frozen=True)
class Stage:
    """A settled scene and the rasterizer that renders it; see ``Renderer.open``."""

    scene: Scene
    rasterizer: Rasterizer

    def render(self, view: PinholeView, channels: Collection[Channel]) -> GBuffer:
        """Render channels of an undistorted view; see ``Rasterizer``."""
        return self.rasterizer.render(self.scene, view, channels)

    def label(self, camera: Camera) -> tuple[ObjectLabel, ...]:
        """Return the labels of the frame of a camera without rendering its image."""
        gbuffer = render_ground_truth(self.scene, camera, self.rasterizer, LABEL_CHANNELS)
        ids = convert_to_instance_ids(self.scene, gbuffer["bodies"])
        return annotate(self.scene, camera, ids, gbuffer["cover"])

    def shoot(
        self,
        camera: Camera,
        outputs: Collection[OutputName],
        previous: PreviousSettings | None = None,
    ) -> Frame:
        """Render the frame of a camera.

        Args:
            camera: camera in the scene.
            outputs: channels and files to make in addition to the image and its labels.
            previous: automatic settings of the previous frame; None for the first frame.

        Raises:
            LensError: the lens cannot render every pixel, or does not suit a channel.
            UsageError: a channel needs a depth camera, right camera or mosaic that the camera lacks.
            BackendError: the rasterizer does not support a channel.
        """
        gbuffer_channels = {*LABEL_CHANNELS, *(c for c in _OPTIONAL_CHANNELS if c in outputs)}
        exposure = expose(
            self.scene, camera, self.rasterizer, gbuffer_channels,
            with_coverage="coverage" in outputs,
        )  # fmt: skip
        capture = self._capture(exposure, camera, previous)
        view = RenderedView(self.scene, camera, exposure.ground_truth)
        ids = convert_to_instance_ids(self.scene, view.gbuffer["bodies"])
        objects = make_labels(view, ids, outputs)
        channels = make_channels(view, ids, outputs)
        if "coverage" in outputs:
            channels["coverage"] = exposure.coverage
        if "sensor_depth" in outputs:
            channels["sensor_depth"] = render_sensor_depth(self.scene, camera, self.rasterizer)
        if "raw" in outputs:
            channels["raw"] = _get_raw(capture)
        right = None
        if any(name in outputs for name in _STEREO_OUTPUTS):
            right, right_view = self._shoot_right(camera, capture)
            if "disparity" in outputs or "shared" in outputs:
                channels |= compute_stereo_channels(view, right_view)
        has_occlusions = "occlusions" in outputs
        return Frame(
            image=capture.encoded,
            channels={
                name: channels[name] for name in CHANNELS if name in outputs and name in channels
            },
            objects=objects,
            occlusions=find_occlusions(objects, ids, view.gbuffer["cover"])
            if has_occlusions
            else None,
            right=right if "right" in outputs else None,
            view=view,
            auto_settings=capture.auto_settings,
        )

    def _shoot_right(self, left: Camera, capture: CapturedImage) -> tuple[bytes, RenderedView]:
        """Return encoded image and view of the right camera, with the settings of the left one."""
        camera = make_right_camera(left)
        exposure = expose(self.scene, camera, self.rasterizer, _RIGHT_CAMERA_CHANNELS)
        settings = PreviousSettings(capture.auto_settings, 0.0)
        view = RenderedView(self.scene, camera, exposure.ground_truth)
        return self._capture(exposure, camera, settings).encoded, view

    def _capture(
        self, exposure: ExposureResult, camera: Camera, previous: PreviousSettings | None
    ) -> CapturedImage:
        radiance, depth_m = exposure.radiance, exposure.ground_truth["depth_m"]
        haze = self.scene.environment.haze
        light = apply_optics(radiance, depth_m, camera, haze)
        return capture_image(light, camera.sensor, previous)


@functools.cache
def get_renderer() -> Renderer:
    """Return the renderer of this process.

    Environment variable ``SIM2CAM_BACKEND`` (``egl``, ``osmesa``, ``tiny``, or ``mitsuba`` for
    path-traced light) selects the backend. The default is EGL, or TinyRenderer without EGL. The
    renderer is never closed: a second EGL context in a process disturbs the first.

    Raises:
        BackendError: the selected backend is unknown or cannot start.
    """
    backend = os.environ.get(BACKEND_VARIABLE, "")
    match backend:
        case "egl" | "osmesa":
            return Renderer(OpenGLRasterizer(backend))
        case "tiny":
            return Renderer(TinyRasterizer())
        case "mitsuba":
            return Renderer(PathTracedRasterizer(_create_first_available()))
        case "":
            return Renderer(_create_first_available())
    raise BackendError(
        f"{BACKEND_VARIABLE}={backend}: unknown backend. {suggest_name(backend, BACKENDS)}"
    )


def _create_first_available() -> Rasterizer:
    try:
        return OpenGLRasterizer("egl")
    except BackendError:
        return TinyRasterizer()


def _get_raw(capture: CapturedImage) -> NDArray[np.uint16]:
    if capture.raw is None:
        raise UsageError(
            "channel 'raw' needs a sensor with a mosaic, which the camera lacks. Add one to the sensor, "
            "or [domain.mosaic] to the recipe."
        )
    return capture.raw
