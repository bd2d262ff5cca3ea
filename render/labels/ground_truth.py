"""Ground truth that follows from depth, bodies, poses and lenses, through any lens.

A pixel's ray and depth give the point that it sees, the body's pose that point in the body's own
frame, and the poses of body and camera at another moment where it lies in another picture. Under a
rolling shutter that moment is that of the pixel's row.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.render.gbuffer import BITS_PER_WORD, GBuffer
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

_OCCLUSION_DEPTH_FRACTION = (
    0.005  # of its depth: a point that lies farther behind the surface seen is hidden
)
_OCCLUSION_DEPTH_M = 5e-4
_ROW_TIME_ITERATIONS = (
    5  # to find the row that a point is on when that row is exposed; each brings it 10 times nearer
)


@dataclass(frozen=True)
class RenderedView:
    """A scene at one moment, as one of its cameras sees it.

    Attributes:
        scene: bodies where they are then, when the exposure of the picture's middle is half over.
        camera: where it is then.
        gbuffer: at least ``bodies`` and ``compute_depth_m`` (h, w) of its picture, as the lens has them.
    """

    scene: Scene
    camera: Camera
    gbuffer: GBuffer


@dataclass(frozen=True)
class Flow:
    """Where the points seen in one picture are in another.

    Attributes:
        offset_px: (h, w, 2) float32, pixels to the right and down; 0 where nothing is seen.
        visible: (h, w) whether the point is seen in the other picture too.
    """

    offset_px: NDArray[np.float32]
    visible: NDArray[np.bool_]


@dataclass(frozen=True)
class ProjectedPoint:
    """A point of a body in one picture.

    Attributes:
        pixel: (x, y); NaN behind the camera.
        visible: whether it lies in the picture with nothing before it.
    """

    pixel: tuple[float, float]
    visible: bool


def compute_object_points(view: RenderedView) -> Floats:
    """Return the points (h, w, 3) seen, in the frames of their bodies, metres; 0 where nothing is.

    Over the extents of a body they are its normalized object coordinates (Wang et al. 2019).
    """
    bodies, depth = view.gbuffer["bodies"], view.gbuffer["depth_m"]
    rows, columns = np.nonzero(bodies)
    rays = view.camera.lens.unproject(np.stack([columns, rows], axis=1).astype(np.float64))
    if view.camera.lens.depth_along == "axis":
        rays = rays / rays[:, 2:]
    seconds = view.camera.compute_row_times_s()[rows]
    points = view.camera.get_motion().to_parent(rays * depth[rows, columns][:, None], seconds)
    found = np.zeros((*bodies.shape, 3))
    number = bodies[rows, columns]
    for index in np.unique(number):
        on_it = number == index
        course = view.scene.bodies[index - 1].get_motion()
        found[rows[on_it], columns[on_it]] = course.from_parent(points[on_it], seconds[on_it])
    return found


def compute_flow(source: RenderedView, target: RenderedView) -> Flow:
    """Return the optical flow from one shot to another; forward or backward, as they are given.

    Args:
        source: whose pixels are asked for.
        target: the same bodies, in the same order.
    """
    bodies = source.gbuffer["bodies"]
    seen = bodies > 0
    rows, columns = np.nonzero(seen)
    number = bodies[seen]
    pixels, depth = _project_at_row_time(compute_object_points(source)[seen], number, target)
    offset = np.zeros((*bodies.shape, 2), np.float32)
    offset[seen] = pixels - np.stack([columns, rows], axis=1)
    visible = np.zeros(bodies.shape, np.bool_)
    visible[seen] = _find_visible_points(pixels, depth, number, target.gbuffer)
    return Flow(offset, visible)


def project_body_points(
    points_m: Floats, body: str, view: RenderedView
) -> tuple[ProjectedPoint, ...]:
    """Return where points of a body are in a shot; over a sequence, their tracks.

    Args:
        points_m: (n, 3) in the body's frame; keypoints, for instance.
        body: its name.
        view: of a scene that holds it.
    """
    names = [other.name for other in view.scene.bodies]
    number = np.full(len(points_m), names.index(body) + 1, np.uint32)
    pixels, depth = _project_at_row_time(points_m, number, view)
    visible = _find_visible_points(pixels, depth, number, view.gbuffer)
    return tuple(
        ProjectedPoint((float(x), float(y)), bool(is_visible))
        for (x, y), is_visible in zip(pixels, visible, strict=True)
    )


def count_occluded_pixels(
    ids: NDArray[np.uint16], amodal_bits: NDArray[np.uint32]
) -> dict[tuple[int, int], int]:
    """Return who hides whom: (instance id before, instance id behind) -> pixels.

    Args:
        ids: (h, w) instance ids.
        amodal_bits: (h, w, words) as the G-buffer has it.
    """
    found: dict[tuple[int, int], int] = {}
    for front in np.unique(ids[ids > 0]):
        hidden = amodal_bits[ids == front]  # (n, words)
        for word, bits in enumerate(hidden.T):
            for bit in range(BITS_PER_WORD):
                count = int(((bits >> np.uint32(bit)) & 1).sum())
                behind = word * BITS_PER_WORD + bit + 1
                if count and behind != front:
                    found[int(front), behind] = count
    return found


def _project_at_row_time(
    points_m: Floats, body_ids: NDArray[np.uint32], view: RenderedView
) -> tuple[Floats, Floats]:
    """Return pixels (n, 2) and depth (n,) of points (n, 3) of bodies (n,), when their rows are exposed."""
    camera = view.camera
    seconds = np.zeros(len(points_m))
    for _ in range(_ROW_TIME_ITERATIONS if camera.get_row_delay_s() else 1):
        points = _transform_to_camera(points_m, body_ids, view, seconds)
        pixels = _project_to_pixels(points, view)
        rows = np.clip(np.nan_to_num(pixels[:, 1]), 0, camera.height - 1)
        seconds = (rows - (camera.height - 1) / 2) * camera.get_row_delay_s()
    return pixels, _compute_depth(points, view)


def _transform_to_camera(
    points_m: Floats, body_ids: NDArray[np.uint32], view: RenderedView, seconds: Floats
) -> Floats:
    """Return points (n, 3) of bodies (n,), each at its own time (n,), in the frame of the camera."""
    found = np.empty((len(points_m), 3))
    for index in np.unique(body_ids):
        on_it = body_ids == index
        course = view.scene.bodies[index - 1].get_motion()
        found[on_it] = course.to_parent(points_m[on_it], seconds[on_it])
    return view.camera.get_motion().from_parent(found, seconds)


def _project_to_pixels(points_m: Floats, view: RenderedView) -> Floats:
    """Return the pixels (n, 2) of points (n, 3) in the camera's frame; NaN where it sees none."""
    pixels = np.full((len(points_m), 2), np.nan)
    before = view.camera.lens.can_project(points_m)
    pixels[before] = view.camera.lens.project(points_m[before])
    return pixels


def _compute_depth(points_m: Floats, view: RenderedView) -> Floats:
    """Return the depth (n,) of points (n, 3) as the camera's lens has it."""
    along_ray = view.camera.lens.depth_along == "ray"
    return np.asarray(np.linalg.norm(points_m, axis=1) if along_ray else points_m[:, 2])


def _find_visible_points(
    pixels: Floats, depth_m: Floats, body_ids: NDArray[np.uint32], gbuffer: GBuffer
) -> NDArray[np.bool_]:
    """Return which points (n,) of bodies lie in the picture with nothing before them.

    The pixel of such a point shows its body, and it is as deep as that is there or beside there.
    """
    height, width = gbuffer["bodies"].shape
    with np.errstate(invalid="ignore"):
        fits = (pixels >= -0.5) & (pixels < [width - 0.5, height - 0.5])  # (n, 2)
        inside = np.asarray(fits.all(axis=1))
    places = np.where(inside[:, None], pixels, 0)
    columns, rows = np.rint(places).astype(np.intp).T
    left, top = np.floor(places).astype(np.intp).T
    nearest, farthest = np.full(len(pixels), np.inf), np.full(len(pixels), -np.inf)
    for down, right in itertools.product((0, 1), (0, 1)):
        at = np.clip(top + down, 0, height - 1), np.clip(left + right, 0, width - 1)
        same, depth = gbuffer["bodies"][at] == body_ids, gbuffer["depth_m"][at]
        nearest = np.where(same, np.minimum(nearest, depth), nearest)
        farthest = np.where(same, np.maximum(farthest, depth), farthest)
    tolerance = _OCCLUSION_DEPTH_M + _OCCLUSION_DEPTH_FRACTION * depth_m
    near = (depth_m > nearest - tolerance) & (depth_m < farthest + tolerance)
    return np.asarray(inside & near & (gbuffer["bodies"][rows, columns] == body_ids))
