"""The audit of films: flow and tracks against the depth and the poses of both pictures they join."""

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
_MAX_OUTSIDE_POINTS, _MAX_OUTSIDE_FRACTION = (
    3,
    0.25,
)  # of those at its edge: rounding moves some beyond
_MIN_STATIC_FRACTION = (
    0.25  # of what has no label; the rest may be things that move, as it says nowhere
)
_PIXEL_STRIDE = 37  # of so many pixels one is looked at
_MIN_STATIC_POINTS = 20
_ROLLING_SHUTTER_ITERATIONS = 5


def audit_flow(
    channel: ChannelName,
    sample: Sample,
    channels: ChannelArrays,
    target: Sample,
    target_ids: NDArray[np.uint16],
) -> Iterator[str]:
    """Yield where a flow is not what depth, poses and motion have, by object; then of the rest.

    Args:
        channel: of the flow.
        sample: whose flow it is; without a lens it is not audited.
        channels: its own, with ``target_ids`` and ``depth``.
        target: the sample to which the flow leads.
        target_ids: (h, w) its instance ids.
    """
    if sample.lens is None or target.lens is None:
        return
    there = {label.instance_id: label for label in target.objects or ()}
    rounded = {**channels, "depth": channels["depth"] + DEPTH_SCALE_M / 2}  # at most by so much
    for index, label in enumerate(sample.objects or ()):
        then = there.get(label.instance_id)
        if then is None or label.pose is None or then.pose is None:
            continue
        place = f"object {index} (category {label.category}): {channel}"
        rows, columns = _find_flow_pixels(channel, channels, label.instance_id)
        points = _unproject_to_object(label, sample, channels, rows, columns)
        farther = _unproject_to_object(label, sample, rounded, rows, columns)
        found = _compute_flow_targets(channel, channels, rows, columns)
        yield from _audit_reprojection(f"{place} is", points, found, then, target, farther)
        seen = channels[channel][rows, columns, 2] == FLOW_VISIBLE
        yield from _audit_visibility(place, found[seen], target_ids, label.instance_id)
    yield from _audit_static_background(channel, sample, channels, target)


def _audit_static_background(
    channel: ChannelName, sample: Sample, channels: ChannelArrays, target: Sample
) -> Iterator[str]:
    """Yield whether hardly anything that has no label stands still between two places of a camera."""
    here, there = make_world_label(sample.frame_info), make_world_label(target.frame_info)
    if here is None or there is None:
        return
    rows, columns = (places[::_PIXEL_STRIDE] for places in _find_flow_pixels(channel, channels, 0))
    if len(rows) < _MIN_STATIC_POINTS:
        return
    points = _unproject_to_object(here, sample, channels, rows, columns)
    found = _compute_flow_targets(channel, channels, rows, columns)
    try:
        off = _compute_pixel_distances(_project_rolling_shutter(points, there, target), found)
    except LensError as error:
        yield f"{channel} leads to what the other camera cannot see ({error})"
        return
    share = float((off <= _MAX_ERROR_PX).mean())
    if share < _MIN_STATIC_FRACTION:
        yield (
            f"{channel} of {share:.0%} of what has no label is what depth and the places of the camera "
            f"have, of at least {_MIN_STATIC_FRACTION:.0%}"
        )


def make_world_label(frame_info: FrameInfo | None) -> ObjectLabel | None:
    """Return all that stands still, as an object that is seen from a camera; None where it is unknown."""
    if frame_info is None or frame_info.camera_pose is None:
        return None
    return ObjectLabel("world", (0.0, 0.0, 0.0, 0.0), 0.0, pose=frame_info.camera_pose.inverse())


def _find_flow_pixels(
    channel: ChannelName, channels: ChannelArrays, instance_id: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows (n,) and columns (n,) of an object's pixels whose flow is known."""
    known = (channels[channel][..., 2] > 0) & (channels["depth"] > 0)
    rows, columns = np.nonzero((channels["ids"] == instance_id) & known)
    return rows, columns


def _unproject_to_object(
    label: ObjectLabel,
    sample: Sample,
    channels: ChannelArrays,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> Floats:
    """Return what pixels see (n, 3), in the frame of an object."""
    points = unproject_depth(sample, channels["depth"], rows, columns)
    return transform_to_object(points, label, sample, rows.astype(np.float64))


def _compute_flow_targets(
    channel: ChannelName, channels: ChannelArrays, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Floats:
    """Return the pixels (n, 2) to which a flow leads."""
    starts = np.stack([columns, rows], axis=1).astype(np.float64)
    return np.asarray(starts + channels[channel][rows, columns, :2])


def audit_tracks(tracks: PointTracks, sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield which tracked points are not where poses have them, by object.

    Args:
        tracks: of the sample.
        sample: without a lens it is not audited.
        channels: of the sample; with ``ids``, what is seen is audited too.
    """
    if sample.lens is None:
        return
    for index, label in enumerate(sample.objects or ()):
        chosen = tracks.instance_id == label.instance_id
        chosen &= ~np.isnan(tracks.pixel).any(axis=1)
        if label.pose is None or not chosen.any():
            continue
        place = f"object {index} (category {label.category}): its tracks"
        pixels, points = tracks.pixel[chosen], tracks.point_m[chosen]
        yield from _audit_reprojection(f"{place} are", points, pixels, label, sample)
        if "ids" in channels:
            seen = pixels[tracks.visible[chosen]]
            yield from _audit_visibility(place, seen, channels["ids"], label.instance_id)


def _audit_reprojection(
    location: str,
    points_m: Floats,
    pixels: Floats,
    label: ObjectLabel,
    sample: Sample,
    tolerance_points_m: Floats | None = None,
) -> Iterator[str]:
    """Yield whether points (n, 3) of an object are not at these pixels (n, 2) of a sample.

    They may be as far off as the other points (n, 3) are, which they could be by rounding as well.
    """
    if not len(points_m):
        return
    try:
        there = _project_rolling_shutter(points_m, label, sample)
        unsure = (
            0.0
            if tolerance_points_m is None
            else _compute_pixel_distances(
                _project_rolling_shutter(tolerance_points_m, label, sample), there
            )
        )
    except LensError as error:
        yield f"{location} at poses that cannot be seen ({error})"
        return
    off = _compute_pixel_distances(there, pixels)
    if (off > _MAX_ERROR_PX + unsure).any():
        yield f"{location} up to {off.max():.1f} px off what its pose has"


def _audit_visibility(
    location: str, pixels: Floats, ids: NDArray[np.uint16], instance_id: int | None
) -> Iterator[str]:
    """Yield whether too many pixels (n, 2) at which an object is said to be seen show another."""
    height, width = ids.shape
    limits = np.array([width - 1, height - 1])
    columns, rows = np.clip(np.rint(pixels), 0, limits).astype(np.intp).T
    mask = (ids == instance_id).astype(np.uint8)
    inner = cv2.erode(mask, np.ones((3, 3), np.uint8))
    wrong, at_edge = (int((shown[rows, columns] == 0).sum()) for shown in (mask, inner))
    if wrong > max(_MAX_OUTSIDE_POINTS, _MAX_OUTSIDE_FRACTION * at_edge):
        yield f"{location}: {wrong} of {len(pixels)} points that are seen are not in its mask"


def _compute_pixel_distances(pixels: Floats, others: Floats) -> Floats:
    """Return by how much pixels (n, 2) are apart in row or column (n,)."""
    return np.asarray(np.abs(pixels - others).max(axis=1))


def _project_rolling_shutter(points_m: Floats, label: ObjectLabel, sample: Sample) -> Floats:
    """Return the pixels (n, 2) of points of an object, each when the row that it lies on is exposed.

    Raises:
        LensError: the lens does not see one of them.
    """
    assert sample.lens is not None
    rows = np.full(len(points_m), (sample.height - 1) / 2)
    for _ in range(_ROLLING_SHUTTER_ITERATIONS):
        pixels = sample.lens.project(transform_to_camera(points_m, label, sample, rows))
        rows = np.clip(pixels[:, 1], 0, sample.height - 1)
    return pixels
