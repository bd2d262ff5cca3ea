"""Consistency of flow and tracks with depth and poses in sequences."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import DEPTH_SCALE_M, FLOW_VISIBLE, ChannelName
from sim2cam.data.checks.geometry import (
    ChannelArrays,
    Floats,
    transform_to_camera,
    transform_to_object,
    unproject_depth,
)
from sim2cam.data.sample import FrameInfo, ObjectLabel, Sample
from sim2cam.data.tracks import PointTracks
from sim2cam.errors import LensError

_MAX_ERROR_PX = 0.5
_MAX_OUTSIDE_POINTS = 3
_MAX_OUTSIDE_FRACTION = 0.25  # of points at the mask's edge, which rounding may move outside
_MIN_STATIC_FRACTION = 0.25  # of unlabelled pixels; unlabelled objects may move
_PIXEL_STRIDE = 37  # one of so many pixels is checked
_MIN_STATIC_POINTS = 20
_ROLLING_SHUTTER_ITERATIONS = 5


def audit_flow(
    channel: ChannelName,
    sample: Sample,
    channels: ChannelArrays,
    target: Sample,
    target_ids: NDArray[np.uint16],
) -> Iterator[str]:
    """Yield flow that contradicts depth, poses and motion, by object and for the static background.

    Args:
        sample: Sample with the flow; skipped without a lens.
        channels: Channels of the sample, with ``ids`` and ``depth``.
        target: Sample to which the flow leads.
        target_ids: (h, w) instance ids of the target.
    """
    if sample.lens is None or target.lens is None:
        return
    target_labels = {label.instance_id: label for label in target.objects or ()}
    # Depth plus its largest rounding error.
    rounded_channels = {**channels, "depth": channels["depth"] + DEPTH_SCALE_M / 2}
    for index, label in enumerate(sample.objects or ()):
        target_label = target_labels.get(label.instance_id)
        if target_label is None or label.pose is None or target_label.pose is None:
            continue
        location = f"object {index} (category {label.category}): {channel}"
        rows, columns = _find_flow_pixels(channel, channels, label.instance_id)
        points = _unproject_to_object(label, sample, channels, rows, columns)
        rounded_points = _unproject_to_object(label, sample, rounded_channels, rows, columns)
        target_pixels = _compute_flow_targets(channel, channels, rows, columns)
        yield from _audit_reprojection(
            f"{location} is", points, target_pixels, target_label, target, rounded_points
        )
        is_visible = channels[channel][rows, columns, 2] == FLOW_VISIBLE
        yield from _audit_visibility(
            location, target_pixels[is_visible], target_ids, label.instance_id
        )
    yield from _audit_static_background(channel, sample, channels, target)


def _audit_static_background(
    channel: ChannelName, sample: Sample, channels: ChannelArrays, target: Sample
) -> Iterator[str]:
    """Check that at least some unlabelled pixels are static between two camera poses."""
    world_label, target_world_label = (
        make_world_label(sample.frame_info),
        make_world_label(target.frame_info),
    )
    if world_label is None or target_world_label is None:
        return
    rows, columns = (
        indices[::_PIXEL_STRIDE] for indices in _find_flow_pixels(channel, channels, 0)
    )
    if len(rows) < _MIN_STATIC_POINTS:
        return
    points = _unproject_to_object(world_label, sample, channels, rows, columns)
    target_pixels = _compute_flow_targets(channel, channels, rows, columns)
    try:
        distances = _compute_pixel_distances(
            _project_rolling_shutter(points, target_world_label, target), target_pixels
        )
    except LensError as error:
        yield f"{channel} leads out of the other camera's field of view ({error})"
        return
    fraction = float((distances <= _MAX_ERROR_PX).mean())
    if fraction < _MIN_STATIC_FRACTION:
        yield (
            f"{channel} of only {fraction:.0%} of unlabelled pixels matches depth and camera poses; at least "
            f"{_MIN_STATIC_FRACTION:.0%} must"
        )


def make_world_label(frame_info: FrameInfo | None) -> ObjectLabel | None:
    """Return the static world as a labelled object, or None if the camera pose is unknown."""
    if frame_info is None or frame_info.camera_pose is None:
        return None
    return ObjectLabel("world", (0.0, 0.0, 0.0, 0.0), 0.0, pose=frame_info.camera_pose.inverse())


def _find_flow_pixels(
    channel: ChannelName, channels: ChannelArrays, instance_id: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows (n,) and columns (n,) of an object's pixels with known flow."""
    is_known = (channels[channel][..., 2] > 0) & (channels["depth"] > 0)
    rows, columns = np.nonzero((channels["ids"] == instance_id) & is_known)
    return rows, columns


def _unproject_to_object(
    label: ObjectLabel,
    sample: Sample,
    channels: ChannelArrays,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> Floats:
    """Return the points (n, 3) of pixels in the frame of an object."""
    points = unproject_depth(sample, channels["depth"], rows, columns)
    return transform_to_object(points, label, sample, rows.astype(np.float64))


def _compute_flow_targets(
    channel: ChannelName, channels: ChannelArrays, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Floats:
    """Return the pixels (n, 2) to which a flow leads."""
    starts = np.stack([columns, rows], axis=1).astype(np.float64)
    return np.asarray(starts + channels[channel][rows, columns, :2])


def audit_tracks(tracks: PointTracks, sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield tracked points that contradict poses, by object.

    Args:
        sample: The sample; skipped without a lens.
        channels: Channels of the sample; visibility is checked if ``ids`` is there.
    """
    if sample.lens is None:
        return
    for index, label in enumerate(sample.objects or ()):
        is_object = tracks.instance_id == label.instance_id
        is_object &= ~np.isnan(tracks.pixel).any(axis=1)
        if label.pose is None or not is_object.any():
            continue
        location = f"object {index} (category {label.category}): its tracks"
        pixels, points = tracks.pixel[is_object], tracks.point_m[is_object]
        yield from _audit_reprojection(f"{location} are", points, pixels, label, sample)
        if "ids" in channels:
            visible_pixels = pixels[tracks.visible[is_object]]
            yield from _audit_visibility(
                location, visible_pixels, channels["ids"], label.instance_id
            )


def _audit_reprojection(
    location: str,
    points_m: Floats,
    pixels: Floats,
    label: ObjectLabel,
    sample: Sample,
    tolerance_points_m: Floats | None = None,
) -> Iterator[str]:
    """Check that points (n, 3) of an object project to pixels (n, 2).

    The distance to the projections of ``tolerance_points_m``, points with the largest rounding error, is allowed.
    """
    if not len(points_m):
        return
    try:
        projected = _project_rolling_shutter(points_m, label, sample)
        tolerance = (
            0.0
            if tolerance_points_m is None
            else _compute_pixel_distances(
                _project_rolling_shutter(tolerance_points_m, label, sample), projected
            )
        )
    except LensError as error:
        yield f"{location} at points outside the lens's field of view ({error})"
        return
    distances = _compute_pixel_distances(projected, pixels)
    if (distances > _MAX_ERROR_PX + tolerance).any():
        yield f"{location} up to {distances.max():.1f} px from the projection of its pose"


def _audit_visibility(
    location: str, pixels: Floats, ids: NDArray[np.uint16], instance_id: int | None
) -> Iterator[str]:
    """Check that pixels (n, 2) of visible points of an object lie in its mask."""
    height, width = ids.shape
    limits = np.array([width - 1, height - 1])
    columns, rows = np.clip(np.rint(pixels), 0, limits).astype(np.intp).T
    mask = (ids == instance_id).astype(np.uint8)
    eroded_mask = cv2.erode(mask, np.ones((3, 3), np.uint8))
    outside_count, near_edge_count = (
        int((region[rows, columns] == 0).sum()) for region in (mask, eroded_mask)
    )
    if outside_count > max(_MAX_OUTSIDE_POINTS, _MAX_OUTSIDE_FRACTION * near_edge_count):
        yield f"{location}: {outside_count} of {len(pixels)} visible points are not in its mask"


def _compute_pixel_distances(pixels: Floats, others: Floats) -> Floats:
    """Return the largest coordinate difference (n,) between pixels (n, 2)."""
    return np.asarray(np.abs(pixels - others).max(axis=1))


def _project_rolling_shutter(points_m: Floats, label: ObjectLabel, sample: Sample) -> Floats:
    """Project points of an object to pixels (n, 2), each at the exposure time of its row."""
    assert sample.lens is not None
    rows = np.full(len(points_m), (sample.height - 1) / 2)
    for _ in range(_ROLLING_SHUTTER_ITERATIONS):
        pixels = sample.lens.project(transform_to_camera(points_m, label, sample, rows))
        rows = np.clip(pixels[:, 1], 0, sample.height - 1)
    return pixels
