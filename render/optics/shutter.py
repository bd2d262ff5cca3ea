"""The shutter: each row of a picture is the mean of what it sees while it gathers light.

That time is cut into slices, in each of which bodies, shadows and camera stand where their twists
have brought them, and only the rows that are exposed then are drawn. Of still scenes, and of what
moves less than a pixel, there is one slice: the same bytes as without a shutter. Labels are those of
the moment at which the exposure of their row is half over, within an eighth of a pixel.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.motion import ZERO_TWIST
from sim2cam.render.gbuffer import Channel, GBuffer
from sim2cam.render.labels.ground_truth import RenderedView, compute_flow
from sim2cam.render.optics.views import Optics, build_optics
from sim2cam.render.optics.warp import warp_labels, warp_radiance
from sim2cam.render.rasterizer import PinholeView, Rasterizer
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

MAX_TIME_SLICES = 64
"""Most slices of a picture; what moves more pixels than that leaves steps as long as it is over."""

_MAX_SLICE_BLUR_PX = (
    1.0  # in a slice; pixels are as wide, so that slices side by side leave no steps
)
_MAX_BAND_SKEW_PX = 0.25  # from one band of rows to the next
_MOTION_STRIDE = 4  # motion is looked up at every fourth pixel, both ways
_MOTION_TIME_FRACTION = 0.05  # share of the whole time over which motion is measured


@dataclass(frozen=True, eq=False)
class ExposureResult:
    """What a camera gathered.

    Attributes:
        radiance: (h, w, 3), the mean over each row's exposure.
        ground_truth: label channels, at the middle of each row's exposure.
        coverage: (h, w) share of its exposure in which a pixel saw the body that ``ground_truth`` names.
    """

    radiance: NDArray[np.float32]
    ground_truth: GBuffer
    coverage: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _TimeSlice:
    """A part of the time in which a picture is exposed.

    Attributes:
        offset_s: its middle, from the middle of the whole.
        start_row, stop_row: rows that are exposed then, the last left out.
        row_weights: of the exposure of each of them.
    """

    offset_s: float
    start_row: int
    stop_row: int
    row_weights: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _RenderContext:
    """What is drawn: a scene loaded in a rasterizer, and a camera with its optics."""

    scene: Scene
    camera: Camera
    optics: Optics
    rasterizer: Rasterizer

    def has_moving_bodies(self) -> bool:
        """Return whether any body does."""
        return any(body.get_motion().twist != ZERO_TWIST for body in self.scene.bodies)

    def advance_to(self, time_slice: _TimeSlice, *, is_sliced: bool) -> Optics:
        """Bring everything to where it is in a slice and returns the optics of its rows."""
        if not is_sliced:
            return self.optics
        if self.has_moving_bodies():
            self.rasterizer.load(self.scene.advance(time_slice.offset_s))
        there = self.optics.with_pose(self.camera.advance(time_slice.offset_s).pose)
        return there.crop_rows(time_slice.start_row, time_slice.stop_row)

    def rewind(self) -> None:
        """Bring everything back to the middle of the exposure."""
        if self.has_moving_bodies():
            self.rasterizer.load(self.scene)

    def render_labels(self, optics: Optics, channels: Collection[Channel]) -> GBuffer:
        """Return label channels."""
        return warp_labels(optics, lambda view: self.rasterizer.render(view, channels))

    def render_radiance(self, optics: Optics) -> NDArray[np.float32]:
        """Return the radiance (h, w, 3)."""
        return warp_radiance(optics, self._render_view_radiance)

    def _render_view_radiance(self, view: PinholeView) -> NDArray[np.float32]:
        return np.asarray(self.rasterizer.render(view, {"radiance"})["radiance"])


def expose(
    scene: Scene,
    camera: Camera,
    rasterizer: Rasterizer,
    channels: Collection[Channel],
    *,
    with_coverage: bool = False,
) -> ExposureResult:
    """Return what a camera gathers of the scene loaded in the rasterizer, which stays loaded.

    Args:
        scene: bodies where they are, and moving as they do, in the middle of the exposure.
        camera: one that looks at it.
        rasterizer: with the scene loaded.
        channels: label channels, ``bodies`` and ``compute_depth_m`` among them.
        with_coverage: whether the coverage of pixels is measured; it is 1 otherwise.

    Raises:
        LensError: the camera's lens does not see every pixel.
        BackendError: the rasterizer cannot give a channel.
    """
    stage = _RenderContext(scene, camera, build_optics(camera), rasterizer)
    speed = _estimate_max_speed_px_s(stage)
    truth = _render_bands(stage, _make_row_bands(camera, speed), channels)
    slices = _make_time_slices(camera, speed)
    radiance, coverage = _accumulate_slices(stage, slices, truth["bodies"], with_coverage)
    return ExposureResult(_add_flicker(radiance, stage, slices), truth, coverage)


def _add_flicker(
    radiance: NDArray[np.float32], context: _RenderContext, time_slices: list[_TimeSlice]
) -> NDArray[np.float32]:
    """Return the radiance (h, w, 3) with what flickering lights add to each row over their mean.

    Light adds up: they are drawn once more, alone, and each row takes them as they are on the mean of
    its exposure.
    """
    light, camera = context.scene.environment, context.camera
    alone = light.extract_flickering()
    if light.flicker is None or alone is None:
        return radiance
    exposure_s = camera.shutter.exposure_s if camera.shutter else 0.0
    cycles = light.flicker.hertz * camera.compute_row_times_s()
    level = np.cos(2 * math.pi * cycles + light.flicker.phase_rad)
    level *= np.sinc(light.flicker.hertz * exposure_s)
    dull = tuple(
        replace(b, material=replace(b.material, emission=0.0)) for b in context.scene.bodies
    )
    lit = replace(context, scene=replace(context.scene, bodies=dull, environment=alone))
    lit.rasterizer.load(lit.scene)
    unseen = np.zeros((camera.height, camera.width), np.uint32)
    most, _ = _accumulate_slices(lit, time_slices, unseen, False)
    context.rasterizer.load(context.scene)
    return np.asarray(radiance + most * level[:, None, None], np.float32)


def render_ground_truth(
    scene: Scene, camera: Camera, rasterizer: Rasterizer, channels: Collection[Channel]
) -> GBuffer:
    """Return the label channels that ``expose`` gives, without gathering light."""
    stage = _RenderContext(scene, camera, build_optics(camera), rasterizer)
    return _render_bands(stage, _make_row_bands(camera, _estimate_max_speed_px_s(stage)), channels)


def _render_bands(
    context: _RenderContext, bands: list[_TimeSlice], channels: Collection[Channel]
) -> GBuffer:
    """Return label channels (h, ...), drawn band by band."""
    of_many = len(bands) > 1
    parts = [
        context.render_labels(context.advance_to(band, is_sliced=of_many), channels)
        for band in bands
    ]
    if of_many:
        context.rewind()
    return {channel: np.concatenate([part[channel] for part in parts]) for channel in parts[0]}


def _accumulate_slices(
    context: _RenderContext,
    time_slices: list[_TimeSlice],
    body_ids: NDArray[np.uint32],
    with_coverage: bool,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the radiance (h, w, 3), and the share (h, w) of time in which these bodies are seen."""
    light = np.zeros((*body_ids.shape, 3), np.float32)
    share = np.full(body_ids.shape, 0 if with_coverage else 1, np.float32)
    of_many = len(time_slices) > 1
    for moment in time_slices:
        optics = context.advance_to(moment, is_sliced=of_many)
        rows = slice(moment.start_row, moment.stop_row)
        light[rows] += moment.row_weights[:, None, None] * context.render_radiance(optics)
        if with_coverage:
            same = context.render_labels(optics, {"bodies", "depth_m"})["bodies"] == body_ids[rows]
            share[rows] += moment.row_weights[:, None] * same
    if of_many:
        context.rewind()
    return light, np.where(body_ids > 0, np.minimum(share, 1), np.float32(0))


def _make_row_bands(camera: Camera, speed_px_s: float) -> list[_TimeSlice]:
    """Return bands of rows whose exposures are half over at about the same time."""
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
    """Return the slices in which a picture is exposed; their shares of each row add up to 1."""
    middles = camera.compute_row_times_s()
    exposure = camera.shutter.exposure_s if camera.shutter else 0.0
    skew = float(np.ptp(middles))
    wanted = speed_px_s * max((exposure + skew) / _MAX_SLICE_BLUR_PX, skew / _MAX_BAND_SKEW_PX)
    count = min(MAX_TIME_SLICES, max(1, math.ceil(wanted)))
    if count == 1:
        return [_TimeSlice(0.0, 0, camera.height, _make_unit_weights(camera.height))]
    half = (exposure + skew) / 2
    edges = np.linspace(-half, half, count + 1)
    found = []
    for start, end in itertools.pairwise(edges.tolist()):
        since, until = (
            np.maximum(start, middles - exposure / 2),
            np.minimum(end, middles + exposure / 2),
        )
        rows = np.flatnonzero(until > since)
        shares = ((until - since)[rows] / exposure).astype(np.float32)
        if len(rows):
            found.append(_TimeSlice((start + end) / 2, int(rows[0]), int(rows[-1]) + 1, shares))
    return found


def _make_unit_weights(count: int) -> NDArray[np.float32]:
    return np.ones(count, np.float32)


def _estimate_max_speed_px_s(context: _RenderContext) -> float:
    """Return how fast the fastest point moves that is seen in the middle of the exposure."""
    camera = context.camera
    if camera.shutter is None or not (
        context.has_moving_bodies() or camera.get_motion().twist != ZERO_TWIST
    ):
        return 0.0
    drawn = context.render_labels(context.optics, {"bodies", "depth_m"})
    bodies = np.zeros_like(drawn["bodies"])
    bodies[::_MOTION_STRIDE, ::_MOTION_STRIDE] = drawn["bodies"][::_MOTION_STRIDE, ::_MOTION_STRIDE]
    seconds = _MOTION_TIME_FRACTION * (camera.shutter.exposure_s + abs(camera.shutter.readout_s))
    now = replace(camera, shutter=None)
    then = RenderedView(context.scene.advance(seconds), now.advance(seconds), drawn)
    moved = compute_flow(
        RenderedView(context.scene, now, {**drawn, "bodies": bodies}), then
    ).offset_px
    return float(np.nanmax(np.linalg.norm(moved, axis=-1))) / seconds
