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

from sim2cam.geometry.motion import STILL
from sim2cam.render.gbuffer import Channel, GBuffer
from sim2cam.render.labels.ground_truth import Shot, flow
from sim2cam.render.optics.views import Optics, optics_of
from sim2cam.render.optics.warp import color_through, labels_through
from sim2cam.render.rasterizer import PinholeView, Rasterizer
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

MAX_SLICES = 64
"""Most slices of a picture; what moves more pixels than that leaves steps as long as it is over."""

_BLUR_PX = 1.0  # in a slice; pixels are as wide, so that slices side by side leave no steps
_SKEW_PX = 0.25  # from one band of rows to the next
_GRID = 4  # motion is looked up at every fourth pixel, both ways
_MOMENT = 0.05  # share of the whole time over which motion is measured


@dataclass(frozen=True, eq=False)
class Exposure:
    """What a camera gathered.

    Attributes:
        radiance: (h, w, 3), the mean over each row's exposure.
        truth: label channels, at the middle of each row's exposure.
        coverage: (h, w) share of its exposure in which a pixel saw the body that ``truth`` names.
    """

    radiance: NDArray[np.float32]
    truth: GBuffer
    coverage: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Slice:
    """A part of the time in which a picture is exposed.

    Attributes:
        seconds: its middle, from the middle of the whole.
        first, last: rows that are exposed then, the last left out.
        shares: of the exposure of each of them.
    """

    seconds: float
    first: int
    last: int
    shares: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Stage:
    """What is drawn: a scene loaded in a rasterizer, and a camera with its optics."""

    scene: Scene
    camera: Camera
    optics: Optics
    rasterizer: Rasterizer

    def moves(self) -> bool:
        """Returns whether any body does."""
        return any(body.course().twist != STILL for body in self.scene.bodies)

    def optics_at(self, moment: _Slice, *, of_many: bool) -> Optics:
        """Brings everything to where it is in a slice and returns the optics of its rows."""
        if not of_many:
            return self.optics
        if self.moves():
            self.rasterizer.load(self.scene.after(moment.seconds))
        there = self.optics.seen_from(self.camera.after(moment.seconds).pose)
        return there.of_rows(moment.first, moment.last)

    def rewind(self) -> None:
        """Brings everything back to the middle of the exposure."""
        if self.moves():
            self.rasterizer.load(self.scene)

    def labels(self, optics: Optics, wanted: Collection[Channel]) -> GBuffer:
        """Returns label channels."""
        return labels_through(optics, lambda view: self.rasterizer.draw(view, wanted))

    def radiance(self, optics: Optics) -> NDArray[np.float32]:
        """Returns the radiance (h, w, 3)."""
        return color_through(optics, self._radiance)

    def _radiance(self, view: PinholeView) -> NDArray[np.float32]:
        return np.asarray(self.rasterizer.draw(view, {"radiance"})["radiance"])


def expose(
    scene: Scene,
    camera: Camera,
    rasterizer: Rasterizer,
    wanted: Collection[Channel],
    *,
    with_coverage: bool = False,
) -> Exposure:
    """Returns what a camera gathers of the scene loaded in the rasterizer, which stays loaded.

    Args:
        scene: bodies where they are, and moving as they do, in the middle of the exposure.
        camera: one that looks at it.
        rasterizer: with the scene loaded.
        wanted: label channels, ``bodies`` and ``depth_m`` among them.
        with_coverage: whether the coverage of pixels is measured; it is 1 otherwise.

    Raises:
        LensError: the camera's lens does not see every pixel.
        BackendError: the rasterizer cannot give a channel.
    """
    stage = _Stage(scene, camera, optics_of(camera), rasterizer)
    speed = _fastest_px_s(stage)
    truth = _truth(stage, _bands(camera, speed), wanted)
    slices = _slices(camera, speed)
    radiance, coverage = _gathered(stage, slices, truth["bodies"], with_coverage)
    return Exposure(_with_flicker(radiance, stage, slices), truth, coverage)


def _with_flicker(
    radiance: NDArray[np.float32], stage: _Stage, slices: list[_Slice]
) -> NDArray[np.float32]:
    """Returns the radiance (h, w, 3) with what flickering lights add to each row over their mean.

    Light adds up: they are drawn once more, alone, and each row takes them as they are on the mean of
    its exposure.
    """
    light, camera = stage.scene.environment, stage.camera
    alone = light.unsteady()
    if light.flicker is None or alone is None:
        return radiance
    exposure_s = camera.shutter.exposure_s if camera.shutter else 0.0
    cycles = light.flicker.hertz * camera.row_seconds()
    level = np.cos(2 * math.pi * cycles + light.flicker.phase_rad)
    level *= np.sinc(light.flicker.hertz * exposure_s)
    dull = tuple(replace(b, material=replace(b.material, emission=0.0)) for b in stage.scene.bodies)
    lit = replace(stage, scene=replace(stage.scene, bodies=dull, environment=alone))
    lit.rasterizer.load(lit.scene)
    unseen = np.zeros((camera.height, camera.width), np.uint32)
    most, _ = _gathered(lit, slices, unseen, False)
    stage.rasterizer.load(stage.scene)
    return np.asarray(radiance + most * level[:, None, None], np.float32)


def truth_of(
    scene: Scene, camera: Camera, rasterizer: Rasterizer, wanted: Collection[Channel]
) -> GBuffer:
    """Returns the label channels that ``expose`` gives, without gathering light."""
    stage = _Stage(scene, camera, optics_of(camera), rasterizer)
    return _truth(stage, _bands(camera, _fastest_px_s(stage)), wanted)


def _truth(stage: _Stage, bands: list[_Slice], wanted: Collection[Channel]) -> GBuffer:
    """Returns label channels (h, ...), drawn band by band."""
    of_many = len(bands) > 1
    parts = [stage.labels(stage.optics_at(band, of_many=of_many), wanted) for band in bands]
    if of_many:
        stage.rewind()
    return {channel: np.concatenate([part[channel] for part in parts]) for channel in parts[0]}


def _gathered(
    stage: _Stage, slices: list[_Slice], bodies: NDArray[np.uint32], with_coverage: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the radiance (h, w, 3), and the share (h, w) of time in which these bodies are seen."""
    light = np.zeros((*bodies.shape, 3), np.float32)
    share = np.full(bodies.shape, 0 if with_coverage else 1, np.float32)
    of_many = len(slices) > 1
    for moment in slices:
        optics = stage.optics_at(moment, of_many=of_many)
        rows = slice(moment.first, moment.last)
        light[rows] += moment.shares[:, None, None] * stage.radiance(optics)
        if with_coverage:
            same = stage.labels(optics, {"bodies", "depth_m"})["bodies"] == bodies[rows]
            share[rows] += moment.shares[:, None] * same
    if of_many:
        stage.rewind()
    return light, np.where(bodies > 0, np.minimum(share, 1), np.float32(0))


def _bands(camera: Camera, speed_px_s: float) -> list[_Slice]:
    """Returns bands of rows whose exposures are half over at about the same time."""
    seconds = camera.row_seconds()
    skew = speed_px_s * float(np.ptp(seconds))
    count = min(camera.height, max(1, math.ceil(skew / _SKEW_PX)))
    parts = np.array_split(np.arange(camera.height), count)
    return [
        _Slice(float(seconds[rows].mean()), int(rows[0]), int(rows[-1]) + 1, _ones(len(rows)))
        for rows in parts
    ]


def _slices(camera: Camera, speed_px_s: float) -> list[_Slice]:
    """Returns the slices in which a picture is exposed; their shares of each row add up to 1."""
    middles = camera.row_seconds()
    exposure = camera.shutter.exposure_s if camera.shutter else 0.0
    skew = float(np.ptp(middles))
    wanted = speed_px_s * max((exposure + skew) / _BLUR_PX, skew / _SKEW_PX)
    count = min(MAX_SLICES, max(1, math.ceil(wanted)))
    if count == 1:
        return [_Slice(0.0, 0, camera.height, _ones(camera.height))]
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
            found.append(_Slice((start + end) / 2, int(rows[0]), int(rows[-1]) + 1, shares))
    return found


def _ones(count: int) -> NDArray[np.float32]:
    return np.ones(count, np.float32)


def _fastest_px_s(stage: _Stage) -> float:
    """Returns how fast the fastest point moves that is seen in the middle of the exposure."""
    camera = stage.camera
    if camera.shutter is None or not (stage.moves() or camera.course().twist != STILL):
        return 0.0
    drawn = stage.labels(stage.optics, {"bodies", "depth_m"})
    bodies = np.zeros_like(drawn["bodies"])
    bodies[::_GRID, ::_GRID] = drawn["bodies"][::_GRID, ::_GRID]
    seconds = _MOMENT * (camera.shutter.exposure_s + abs(camera.shutter.readout_s))
    now = replace(camera, shutter=None)
    then = Shot(stage.scene.after(seconds), now.after(seconds), drawn)
    moved = flow(Shot(stage.scene, now, {**drawn, "bodies": bodies}), then).offset_px
    return float(np.nanmax(np.linalg.norm(moved, axis=-1))) / seconds
