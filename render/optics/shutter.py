"""Shutter: motion blur and rolling shutter.

The exposure is split into time slices. In each slice bodies, shadows and camera are at their poses,
and only exposed rows are rendered. Scenes with motion below a pixel have one slice, with the same
bytes as without a shutter. Labels are those at mid-exposure of their row, within an eighth of a
pixel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.motion import ZERO_TWIST
from sim2cam.render.gbuffer import Channel, GBuffer, Rasterizer
from sim2cam.render.labels.ground_truth import RenderedView, compute_flow
from sim2cam.render.optics.views import Optics, build_optics
from sim2cam.render.optics.warp import warp_labels, warp_radiance
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

MAX_TIME_SLICES = 64
"""Maximum number of slices of an image; motion of more pixels leaves visible steps."""

_MAX_SLICE_BLUR_PX = 1.0  # motion per slice of at most a pixel leaves no visible steps
_MAX_BAND_SKEW_PX = 0.25  # from one band of rows to the next
_MOTION_STRIDE = 4  # motion is measured in every fourth row and column
_MOTION_TIME_FRACTION = 0.05  # of exposure plus readout, over which motion is measured


@dataclass(frozen=True, eq=False)
class ExposureResult:
    """Result of an exposure.

    Attributes:
        radiance: (h, w, 3), averaged over the exposure of each row.
        ground_truth: label channels at mid-exposure of each row.
        coverage: (h, w) share of the exposure in which a pixel showed the body of ``ground_truth``.
    """

    radiance: NDArray[np.float32]
    ground_truth: GBuffer
    coverage: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _TimeSlice:
    """A part of the exposure of an image.

    Attributes:
        offset_s: centre of the slice, relative to the centre of the exposure.
        start_row, stop_row: exposed rows, ``stop_row`` excluded.
        row_weights: share of the exposure of each row.
    """

    offset_s: float
    start_row: int
    stop_row: int
    row_weights: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _RenderContext:
    """A scene, and a camera with its optics."""

    scene: Scene
    camera: Camera
    optics: Optics
    rasterizer: Rasterizer

    def has_moving_bodies(self) -> bool:
        """Return whether any body moves."""
        return any(body.get_motion().twist != ZERO_TWIST for body in self.scene.bodies)

    def advance_to(self, time_slice: _TimeSlice) -> _RenderContext:
        """Return scene and optics of the rows of a slice, at its time."""
        scene = self.scene
        if self.has_moving_bodies():
            scene = scene.advance(time_slice.offset_s)
        optics = self.optics.with_pose(self.camera.advance(time_slice.offset_s).pose)
        rows = optics.crop_rows(time_slice.start_row, time_slice.stop_row)
        return replace(self, scene=scene, optics=rows)

    def render_labels(self, channels: Collection[Channel]) -> GBuffer:
        """Render label channels."""
        return warp_labels(
            self.optics, lambda view: self.rasterizer.render(self.scene, view, channels)
        )

    def render_radiance(self) -> NDArray[np.float32]:
        """Render the radiance (h, w, 3)."""
        return warp_radiance(
            self.optics,
            lambda view: self.rasterizer.render(self.scene, view, {"radiance"})["radiance"],
        )


def expose(
    scene: Scene,
    camera: Camera,
    rasterizer: Rasterizer,
    channels: Collection[Channel],
    *,
    with_coverage: bool = False,
) -> ExposureResult:
    """Expose one image with motion blur and rolling shutter.

    Args:
        scene: scene with poses and velocities at mid-exposure.
        camera: camera to render.
        rasterizer: rasterizer to render with.
        channels: label channels, including ``bodies`` and ``depth_m``.
        with_coverage: whether to measure the coverage of pixels; otherwise it is 1.

    Raises:
        LensError: the lens cannot render every pixel.
        BackendError: the rasterizer does not support a channel.
    """
    context = _RenderContext(scene, camera, build_optics(camera), rasterizer)
    speed_px_s = _estimate_max_speed_px_s(context)
    ground_truth = _render_bands(context, _make_row_bands(camera, speed_px_s), channels)
    time_slices = _make_time_slices(camera, speed_px_s)
    radiance, coverage = _accumulate_slices(
        context, time_slices, ground_truth["bodies"], with_coverage
    )
    return ExposureResult(_add_flicker(radiance, context, time_slices), ground_truth, coverage)


def _add_flicker(
    radiance: NDArray[np.float32], context: _RenderContext, time_slices: list[_TimeSlice]
) -> NDArray[np.float32]:
    """Add the flicker of lights to the radiance (h, w, 3).

    The flickering lights are rendered alone; each row adds them, scaled by the mean deviation from
    their average during its exposure.
    """
    environment, camera = context.scene.environment, context.camera
    flickering = environment.extract_flickering()
    if environment.flicker is None or flickering is None:
        return radiance
    exposure_s = camera.shutter.exposure_s if camera.shutter else 0.0
    cycles = environment.flicker.hertz * camera.compute_row_times_s()
    levels = np.cos(2 * math.pi * cycles + environment.flicker.phase_rad)
    levels *= np.sinc(environment.flicker.hertz * exposure_s)
    unlit_bodies = tuple(
        replace(body, material=replace(body.material, emission=0.0))
        for body in context.scene.bodies
    )
    flicker_context = replace(
        context, scene=replace(context.scene, bodies=unlit_bodies, environment=flickering)
    )
    no_bodies = np.zeros((camera.height, camera.width), np.uint32)
    flicker_radiance, _ = _accumulate_slices(flicker_context, time_slices, no_bodies, False)
    return np.asarray(radiance + flicker_radiance * levels[:, None, None], np.float32)


def render_ground_truth(
    scene: Scene, camera: Camera, rasterizer: Rasterizer, channels: Collection[Channel]
) -> GBuffer:
    """Render the label channels of ``expose`` without radiance."""
    context = _RenderContext(scene, camera, build_optics(camera), rasterizer)
    return _render_bands(
        context, _make_row_bands(camera, _estimate_max_speed_px_s(context)), channels
    )


def _render_bands(
    context: _RenderContext, bands: list[_TimeSlice], channels: Collection[Channel]
) -> GBuffer:
    """Render label channels (h, ...) band by band."""
    moments = [context.advance_to(band) for band in bands] if len(bands) > 1 else [context]
    parts = [moment.render_labels(channels) for moment in moments]
    return {channel: np.concatenate([part[channel] for part in parts]) for channel in parts[0]}


def _accumulate_slices(
    context: _RenderContext,
    time_slices: list[_TimeSlice],
    body_ids: NDArray[np.uint32],
    with_coverage: bool,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the radiance (h, w, 3), and the share (h, w) of time in which pixels show ``body_ids``."""
    radiance = np.zeros((*body_ids.shape, 3), np.float32)
    coverage = np.full(body_ids.shape, 0 if with_coverage else 1, np.float32)
    for time_slice in time_slices:
        moment = context.advance_to(time_slice) if len(time_slices) > 1 else context
        rows = slice(time_slice.start_row, time_slice.stop_row)
        radiance[rows] += time_slice.row_weights[:, None, None] * moment.render_radiance()
        if with_coverage:
            bodies = moment.render_labels({"bodies", "depth_m"})["bodies"]
            is_same_body = bodies == body_ids[rows]
            coverage[rows] += time_slice.row_weights[:, None] * is_same_body
    return radiance, np.where(body_ids > 0, np.minimum(coverage, 1), np.float32(0))


def _make_row_bands(camera: Camera, speed_px_s: float) -> list[_TimeSlice]:
    """Return bands of rows with about the same mid-exposure time."""
    seconds = camera.compute_row_times_s()
    skew = speed_px_s * float(np.ptp(seconds))
    count = min(camera.height, max(1, math.ceil(skew / _MAX_BAND_SKEW_PX)))
    parts = np.array_split(np.arange(camera.height), count)
    return [
        _TimeSlice(
            float(seconds[rows].mean()),
            int(rows[0]),
            int(rows[-1]) + 1,
            _make_unit_weights(len(rows)),
        )
        for rows in parts
    ]


def _make_time_slices(camera: Camera, speed_px_s: float) -> list[_TimeSlice]:
    """Return the time slices of an exposure; the weights of each row add up to 1."""
    row_times_s = camera.compute_row_times_s()
    exposure = camera.shutter.exposure_s if camera.shutter else 0.0
    skew = float(np.ptp(row_times_s))
    slice_count = speed_px_s * max((exposure + skew) / _MAX_SLICE_BLUR_PX, skew / _MAX_BAND_SKEW_PX)
    count = min(MAX_TIME_SLICES, max(1, math.ceil(slice_count)))
    if count == 1:
        return [_TimeSlice(0.0, 0, camera.height, _make_unit_weights(camera.height))]
    half = (exposure + skew) / 2
    edges = np.linspace(-half, half, count + 1)
    slices = []
    for start, end in itertools.pairwise(edges.tolist()):
        since, until = (
            np.maximum(start, row_times_s - exposure / 2),
            np.minimum(end, row_times_s + exposure / 2),
        )
        rows = np.flatnonzero(until > since)
        weights = ((until - since)[rows] / exposure).astype(np.float32)
        if len(rows):
            slices.append(_TimeSlice((start + end) / 2, int(rows[0]), int(rows[-1]) + 1, weights))
    return slices


def _make_unit_weights(count: int) -> NDArray[np.float32]:
    return np.ones(count, np.float32)


def _estimate_max_speed_px_s(context: _RenderContext) -> float:
    """Return the speed of the fastest visible point at mid-exposure."""
    camera = context.camera
    if camera.shutter is None or not (
        context.has_moving_bodies() or camera.get_motion().twist != ZERO_TWIST
    ):
        return 0.0
    gbuffer = context.render_labels({"bodies", "depth_m"})
    bodies = np.zeros_like(gbuffer["bodies"])
    bodies[::_MOTION_STRIDE, ::_MOTION_STRIDE] = gbuffer["bodies"][
        ::_MOTION_STRIDE, ::_MOTION_STRIDE
    ]
    seconds = _MOTION_TIME_FRACTION * (camera.shutter.exposure_s + abs(camera.shutter.readout_s))
    still_camera = replace(camera, shutter=None)
    later = RenderedView(context.scene.advance(seconds), still_camera.advance(seconds), gbuffer)
    offset_px = compute_flow(
        RenderedView(context.scene, still_camera, {**gbuffer, "bodies": bodies}), later
    ).offset_px
    return float(np.nanmax(np.linalg.norm(offset_px, axis=-1))) / seconds
