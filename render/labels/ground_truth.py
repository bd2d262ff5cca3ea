"""Object coordinates, optical flow, point visibility and occlusion, for any lens.

Ray and depth of a pixel give its visible point; the pose of the body gives that point in the body
frame; the poses of body and camera at another time give its pixel in another image. With a rolling
shutter, the time is that of the pixel's row.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import FLOW_OCCLUDED, FLOW_VISIBLE, ChannelName
from sim2cam.data.tracks import PointTracks
from sim2cam.render.gbuffer import BITS_PER_WORD, GBuffer, assign_label_ids
from sim2cam.scene.camera import Camera
from sim2cam.scene.scene import Scene

Floats = NDArray[np.float64]

FLOW_CHANNELS: tuple[ChannelName, ...] = ("flow_backward", "flow_forward")
"""Optical flow to the previous and to the next frame."""

_OCCLUSION_DEPTH_FRACTION = (
    0.005  # of the depth: points farther behind the visible surface are occluded
)
_OCCLUSION_DEPTH_M = 5e-4
_ROW_TIME_ITERATIONS = 5  # each reduces the error of a point's row about 10 times


@dataclass(frozen=True)
class RenderedView:
    """G-buffer of one camera at one time.

    Attributes:
        scene: scene at mid-exposure of the central row.
        camera: camera at that time.
        gbuffer: channels of the image, at least ``bodies`` and ``depth_m`` (h, w), after the lens.
    """

    scene: Scene
    camera: Camera
    gbuffer: GBuffer


@dataclass(frozen=True)
class Flow:
    """Optical flow from one image to another.

    Attributes:
        offset_px: (h, w, 2) float32, pixels to the right and down; 0 for the background.
        visible: (h, w) whether the point is visible in the other image, too.
    """

    offset_px: NDArray[np.float32]
    visible: NDArray[np.bool_]


@dataclass(frozen=True)
class ProjectedPoint:
    """A point of a body in one image.

    Attributes:
        pixel: (x, y); NaN outside the field of view.
        visible: whether the point is inside the image and not occluded.
    """

    pixel: tuple[float, float]
    visible: bool


def compute_object_points(view: RenderedView) -> Floats:
    """Return the visible points (h, w, 3) in metres, in the frames of their bodies.

    Divided by the extents of a body they are normalized object coordinates (Wang et al. 2019).
    Background pixels are 0.
    """
    bodies, depth = view.gbuffer["bodies"], view.gbuffer["depth_m"]
    rows, columns = np.nonzero(bodies)
    rays = view.camera.lens.unproject(np.stack([columns, rows], axis=1).astype(np.float64))
    if view.camera.lens.depth_along == "axis":
        rays = rays / rays[:, 2:]
    seconds = view.camera.compute_row_times_s()[rows]
    points = view.camera.get_motion().to_parent(rays * depth[rows, columns][:, None], seconds)
    object_points = np.zeros((*bodies.shape, 3))
    body_ids = bodies[rows, columns]
    for body_id in np.unique(body_ids):
        mask = body_ids == body_id
        motion = view.scene.bodies[body_id - 1].get_motion()
        object_points[rows[mask], columns[mask]] = motion.from_parent(points[mask], seconds[mask])
    return object_points


def compute_flow(source: RenderedView, target: RenderedView) -> Flow:
    """Return the optical flow from one view to another.

    Args:
        source: view at whose pixels the flow is given.
        target: view of the same bodies, in the same order.
    """
    bodies = source.gbuffer["bodies"]
    is_body = bodies > 0
    rows, columns = np.nonzero(is_body)
    body_ids = bodies[is_body]
    pixels, depth = _project_at_row_time(compute_object_points(source)[is_body], body_ids, target)
    offset = np.zeros((*bodies.shape, 2), np.float32)
    offset[is_body] = pixels - np.stack([columns, rows], axis=1)
    visible = np.zeros(bodies.shape, np.bool_)
    visible[is_body] = _find_visible_points(pixels, depth, body_ids, target.gbuffer)
    return Flow(offset, visible)


def compute_flow_channel(source: RenderedView, target: RenderedView) -> NDArray[np.float32]:
    """Return the optical flow between two views as a channel.

    Returns:
        (h, w, 3): offset to the right and down in pixels, and the visibility state; 0 without flow.
    """
    flow = compute_flow(source, target)
    is_valid = (source.gbuffer["bodies"] > 0) & np.isfinite(flow.offset_px).all(axis=-1)
    state = np.where(flow.visible, FLOW_VISIBLE, FLOW_OCCLUDED)
    channel = np.concatenate([flow.offset_px, state[..., None]], axis=-1)
    return np.where(is_valid[..., None], channel, 0).astype(np.float32)


def project_body_points(
    points_m: Floats, body: str, view: RenderedView
) -> tuple[ProjectedPoint, ...]:
    """Project points of a body and test their visibility.

    Args:
        points_m: (n, 3) in the body frame, for example keypoints.
        body: name of the body.
        view: view of a scene with that body.
    """
    names = [scene_body.name for scene_body in view.scene.bodies]
    body_ids = np.full(len(points_m), names.index(body) + 1, np.uint32)
    pixels, depth = _project_at_row_time(points_m, body_ids, view)
    visible = _find_visible_points(pixels, depth, body_ids, view.gbuffer)
    return tuple(
        ProjectedPoint((float(x), float(y)), bool(is_visible))
        for (x, y), is_visible in zip(pixels, visible, strict=True)
    )


def track_labelled_points(
    points_m: Mapping[str, NDArray[np.float64]], view: RenderedView
) -> PointTracks:
    """Return the pixels and visibility of points of labelled bodies.

    Args:
        points_m: name of a body to its points (n, 3), in the frame of the body.
        view: rendered view of the scene.
    """
    label_ids = assign_label_ids(view.scene)
    tracked = [
        point
        for name, body_points in points_m.items()
        for point in project_body_points(body_points, name, view)
    ]
    return PointTracks(
        np.repeat([label_ids[name] for name in points_m], [len(p) for p in points_m.values()]),
        np.concatenate(list(points_m.values())),
        np.array([point.pixel for point in tracked]),
        np.array([point.visible for point in tracked]),
    )


def count_occluded_pixels(
    ids: NDArray[np.uint16], amodal_bits: NDArray[np.uint32]
) -> dict[tuple[int, int], int]:
    """Return the number of occluded pixels of each pair of objects.

    Args:
        ids: (h, w) instance ids.
        amodal_bits: (h, w, words), channel ``cover`` of the G-buffer.

    Returns:
        (instance id in front, instance id behind) to pixels.
    """
    counts: dict[tuple[int, int], int] = {}
    for front in np.unique(ids[ids > 0]):
        hidden = amodal_bits[ids == front]  # (n, words)
        for word, bits in enumerate(hidden.T):
            for bit in range(BITS_PER_WORD):
                count = int(((bits >> np.uint32(bit)) & 1).sum())
                behind = word * BITS_PER_WORD + bit + 1
                if count and behind != front:
                    counts[int(front), behind] = count
    return counts


def _project_at_row_time(
    points_m: Floats, body_ids: NDArray[np.uint32], view: RenderedView
) -> tuple[Floats, Floats]:
    """Return pixels (n, 2) and depth (n,) of points (n, 3) at the exposure of their rows."""
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
    """Return points (n, 3) of bodies (n,), each at its time (n,), in the camera frame."""
    world_points = np.empty((len(points_m), 3))
    for body_id in np.unique(body_ids):
        mask = body_ids == body_id
        motion = view.scene.bodies[body_id - 1].get_motion()
        world_points[mask] = motion.to_parent(points_m[mask], seconds[mask])
    return view.camera.get_motion().from_parent(world_points, seconds)


def _project_to_pixels(points_m: Floats, view: RenderedView) -> Floats:
    """Return the pixels (n, 2) of points (n, 3) in the camera frame; NaN outside the field of view."""
    pixels = np.full((len(points_m), 2), np.nan)
    can_project = view.camera.lens.can_project(points_m)
    pixels[can_project] = view.camera.lens.project(points_m[can_project])
    return pixels


def _compute_depth(points_m: Floats, view: RenderedView) -> Floats:
    """Return the depth (n,) of points (n, 3), along the axis or the ray as the lens defines it."""
    along_ray = view.camera.lens.depth_along == "ray"
    return np.asarray(np.linalg.norm(points_m, axis=1) if along_ray else points_m[:, 2])


def _find_visible_points(
    pixels: Floats, depth_m: Floats, body_ids: NDArray[np.uint32], gbuffer: GBuffer
) -> NDArray[np.bool_]:
    """Return whether points (n,) of bodies are inside the image and not occluded.

    The pixel of a visible point shows its body, and the depth of the point is within the range of
    the four surrounding pixels.
    """
    height, width = gbuffer["bodies"].shape
    with np.errstate(invalid="ignore"):
        is_within = (pixels >= -0.5) & (pixels < [width - 0.5, height - 0.5])  # (n, 2)
        inside = np.asarray(is_within.all(axis=1))
    positions = np.where(inside[:, None], pixels, 0)
    columns, rows = np.rint(positions).astype(np.intp).T
    left, top = np.floor(positions).astype(np.intp).T
    nearest, farthest = np.full(len(pixels), np.inf), np.full(len(pixels), -np.inf)
    for down, right in itertools.product((0, 1), (0, 1)):
        index = np.clip(top + down, 0, height - 1), np.clip(left + right, 0, width - 1)
        is_body, depth = gbuffer["bodies"][index] == body_ids, gbuffer["depth_m"][index]
        nearest = np.where(is_body, np.minimum(nearest, depth), nearest)
        farthest = np.where(is_body, np.maximum(farthest, depth), farthest)
    tolerance = _OCCLUSION_DEPTH_M + _OCCLUSION_DEPTH_FRACTION * depth_m
    matches_depth = (depth_m > nearest - tolerance) & (depth_m < farthest + tolerance)
    return np.asarray(inside & matches_depth & (gbuffer["bodies"][rows, columns] == body_ids))
