"""Geometric consistency of poses, boxes and channels of rendered samples.

Each check uses stored values only, so it detects errors of every earlier stage, as a pose in a wrong frame,
depth along the ray instead of the axis, or labels of another image.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import DEPTH_SCALE_M, ChannelName
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.errors import LensError
from sim2cam.geometry.boxes import compute_box_corners
from sim2cam.geometry.motion import ZERO_TWIST, RigidMotion
from sim2cam.geometry.poses import Pose

Floats = NDArray[np.float64]
ChannelArrays = Mapping[ChannelName, NDArray[Any]]

_DEPTH_TOLERANCE_M = 2 * DEPTH_SCALE_M
_RELATIVE_DEPTH_TOLERANCE = 1e-3
_PIXEL_TOLERANCE_PX = 2.0
_MIN_SLOPE_RADIUS_PX = 2  # of the window for depth slopes
_SLOPE_RADIUS_STEPS = 6  # in depth steps; rounding would tilt slopes over fewer
_MAX_CURVATURE = 0.06
_MAX_TILT_RAD = 0.2
_MIN_PIXELS = 50
_POINTS_PER_EDGE = 17  # per edge of a 3D box, because lens distortion bends edges


def audit_geometry(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield geometric inconsistencies by object.

    Args:
        sample: Rendered sample with its lens.
        channels: Channels of the sample's size; missing ones are skipped.
    """
    if sample.lens is None:
        return
    for index, label in enumerate(sample.objects or ()):
        try:
            for message in _audit_object(label, sample, channels):
                yield f"object {index} (category {label.category}): {message}"
        except LensError as error:
            yield f"object {index} (category {label.category}): {error}"


def _audit_object(label: ObjectLabel, sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    if label.pose is None or label.extent_m is None:
        return
    corners = _transform_over_shutter(compute_box_corners(*label.extent_m), label, sample)
    yield from _audit_box(label, sample)
    if "ids" not in channels:
        return
    rows, columns = np.nonzero(channels["ids"] == label.instance_id)
    if not len(rows):
        return
    if "depth" in channels:
        yield from _audit_depth(channels["depth"][rows, columns], corners, sample)
    if "coordinates" in channels:
        yield from _audit_coordinates(label, sample, channels, rows, columns)
    if "normals" in channels and "depth" in channels:
        yield from _audit_normals(sample, channels, rows, columns)


def transform_to_camera(
    points_m: Floats, label: ObjectLabel, sample: Sample, rows: Floats, *, offset_s: float = 0.0
) -> Floats:
    """Transform points (n, 3) from an object's frame to the camera frame.

    Args:
        points_m: Points in the object frame.
        rows: (n,) image row of each point, at the middle of whose exposure it is transformed.
        offset_s: Time after the middle of the exposure.
    """
    assert label.pose is not None
    seconds = _compute_row_times_s(sample, rows) + offset_s
    world_points = RigidMotion(label.pose, label.twist or ZERO_TWIST).to_parent(points_m, seconds)
    return _get_camera_motion(sample).from_parent(world_points, seconds)


def transform_to_object(points: Floats, label: ObjectLabel, sample: Sample, rows: Floats) -> Floats:
    """Transform camera points (n, 3), visible in rows (n,), to the frame of an object with a pose."""
    assert label.pose is not None
    seconds = _compute_row_times_s(sample, rows)
    world_points = _get_camera_motion(sample).to_parent(points, seconds)
    return RigidMotion(label.pose, label.twist or ZERO_TWIST).from_parent(world_points, seconds)


def _get_camera_motion(sample: Sample) -> RigidMotion:
    return RigidMotion(Pose(), sample.frame_info.twist if sample.frame_info else ZERO_TWIST)


def _compute_row_times_s(sample: Sample, rows: Floats) -> Floats:
    """Return the exposure times of rows (n,) relative to the middle row."""
    row_s = (sample.frame_info and sample.frame_info.row_s) or 0.0
    return np.asarray((rows - (sample.height - 1) / 2) * row_s)


def _transform_over_shutter(points: Floats, label: ObjectLabel, sample: Sample) -> Floats:
    """Transform points (n, 3) of an object to the camera frame, at the first and last row for a rolling shutter."""
    _, top, _, bottom = label.box_amodal_xyxy or label.box_xyxy
    is_rolling = bool(sample.frame_info and sample.frame_info.row_s)
    rows = (top, bottom - 1) if is_rolling else (top,)
    return np.concatenate(
        [transform_to_camera(points, label, sample, np.full(len(points), row)) for row in rows]
    )


def _audit_box(label: ObjectLabel, sample: Sample) -> Iterator[str]:
    """Check that the amodal box is inside the projection of the 3D box."""
    assert sample.lens is not None
    assert label.extent_m is not None
    edges = _transform_over_shutter(
        _sample_box_edges(compute_box_corners(*label.extent_m)), label, sample
    )
    if label.box_amodal_xyxy is None or not sample.lens.can_project(edges).all():
        return
    pixels = sample.lens.project(edges) + 0.5
    low, high = pixels.min(axis=0) - _PIXEL_TOLERANCE_PX, pixels.max(axis=0) + _PIXEL_TOLERANCE_PX
    x0, y0, x1, y1 = label.box_amodal_xyxy
    if x0 < low[0] or y0 < low[1] or x1 > high[0] or y1 > high[1]:
        expected = tuple(
            round(float(value), 1)
            for value in (*low + _PIXEL_TOLERANCE_PX, *high - _PIXEL_TOLERANCE_PX)
        )
        yield f"amodal box {label.box_amodal_xyxy} exceeds the projection of its pose and extent, {expected}"


def _sample_box_edges(corners: Floats) -> Floats:
    """Return points along the twelve edges of an axis-aligned box (8, 3)."""
    differs = np.abs(corners[:, None] - corners[None]) > 0
    first, second = np.nonzero(np.triu(differs.sum(axis=-1) == 1))
    positions = np.linspace(0, 1, _POINTS_PER_EDGE)[:, None, None]
    return np.asarray(
        ((1 - positions) * corners[first] + positions * corners[second]).reshape(-1, 3)
    )


def _audit_depth(depth_m: NDArray[Any], corners: Floats, sample: Sample) -> Iterator[str]:
    """Check that an object's depth lies within the depth range of its 3D box."""
    assert sample.lens is not None
    corner_depths = _compute_depth(corners, sample)
    margin = _DEPTH_TOLERANCE_M + _RELATIVE_DEPTH_TOLERANCE * corner_depths.max()
    low, high = corner_depths.min() - margin, corner_depths.max() + margin
    if sample.lens.depth_along == "ray":
        low = _bound_distance(corners) - margin
    outside = (depth_m > 0) & ((depth_m < low) | (depth_m > high))
    if outside.any():
        yield (
            f"depth of {int(outside.sum())} pixels is outside the range of its pose, {low:.4f} to "
            f"{high:.4f} m (first: {depth_m[outside][0]:.4f})"
        )


def _bound_distance(corners: Floats) -> float:
    """Return a lower bound of the distance between the origin and a box (8, 3)."""
    center = corners.mean(axis=0)
    return float(np.linalg.norm(center) - np.linalg.norm(corners - center, axis=1).max())


def _audit_coordinates(
    label: ObjectLabel,
    sample: Sample,
    channels: ChannelArrays,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> Iterator[str]:
    """Check that the point of each pixel's object coordinates lies on its ray at its depth."""
    assert sample.lens is not None
    assert label.extent_m is not None
    fractions = channels["coordinates"][rows, columns].astype(np.float64)
    if np.isnan(fractions).any():
        yield f"{int(np.isnan(fractions).any(axis=1).sum())} pixels have no coordinates"
        return
    low, high = np.array(label.extent_m)
    points = transform_to_camera(
        fractions * (high - low) + low, label, sample, rows.astype(np.float64)
    )
    max_offset = np.abs(sample.lens.project(points) - np.stack([columns, rows], axis=1)).max()
    if max_offset > _PIXEL_TOLERANCE_PX / 4:
        yield f"coordinates and pose place points up to {max_offset:.1f} px from their pixels"
    if "depth" in channels:
        depth = channels["depth"][rows, columns]
        error = np.abs(_compute_depth(points, sample) - depth)
        if (error > _DEPTH_TOLERANCE_M + _RELATIVE_DEPTH_TOLERANCE * depth).any():
            yield f"coordinates and depth differ by up to {error.max():.4f} m"


def _audit_normals(
    sample: Sample, channels: ChannelArrays, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Iterator[str]:
    """Check that normals are perpendicular to the surface given by depth."""
    ids, depth = channels["ids"], channels["depth"]
    height, width = ids.shape
    radius = _compute_slope_radius_px(sample, depth, rows, columns)
    is_inner = (
        (rows >= radius)
        & (rows < height - radius)
        & (columns >= radius)
        & (columns < width - radius)
    )
    rows, columns = rows[is_inner], columns[is_inner]
    offsets = ((0, -radius), (0, radius), (-radius, 0), (radius, 0))
    instance_ids = ids[rows, columns]
    is_same_object = np.all(
        [ids[rows + dy, columns + dx] == instance_ids for dy, dx in offsets], axis=0
    )
    rows, columns = rows[is_same_object], columns[is_same_object]
    center = unproject_depth(sample, depth, rows, columns)
    left, right, up, down = (
        unproject_depth(sample, depth, rows + dy, columns + dx) for dy, dx in offsets
    )
    is_flat = _is_flat(left, center, right) & _is_flat(up, center, down)
    if is_flat.sum() < _MIN_PIXELS:
        return
    slope = np.cross(down - up, right - left)[is_flat]
    slope /= np.linalg.norm(slope, axis=1, keepdims=True)
    cosine = np.abs((slope * channels["normals"][rows, columns][is_flat]).sum(axis=1)).clip(0, 1)
    tilt = float(np.median(np.arccos(cosine)))
    if tilt > _MAX_TILT_RAD:
        yield f"normals deviate by {np.degrees(tilt):.0f} degrees from the surface given by depth"


def _compute_slope_radius_px(
    sample: Sample, depth_m: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> int:
    """Return the window radius for depth slopes in pixels; nearer objects need more."""
    middle = len(rows) // 2
    pixel = np.array([[columns[middle], rows[middle]]], np.float64)
    point = unproject_depth(sample, depth_m, rows[[middle]], columns[[middle]])
    pixel_size_m = max(compute_pixel_size_m(pixel, point, sample), 1e-9)
    return max(_MIN_SLOPE_RADIUS_PX, math.ceil(_SLOPE_RADIUS_STEPS * DEPTH_SCALE_M / pixel_size_m))


def compute_pixel_size_m(pixel: Floats, point: Floats, sample: Sample) -> float:
    """Return the width of a pixel (1, 2) at a point (1, 3) of the camera frame."""
    assert sample.lens is not None
    rays = sample.lens.unproject(pixel + np.array([[0.0, 0.0], [1.0, 0.0]]))
    return float(np.linalg.norm(rays[1] - rays[0]) * np.linalg.norm(point))


def _is_flat(before: Floats, middle: Floats, after: Floats) -> NDArray[np.bool_]:
    """Return whether points (n, 3) lie on the line between their neighbours, without an edge between."""
    bend = np.linalg.norm(before + after - 2 * middle, axis=1)
    return np.asarray(bend < _MAX_CURVATURE * np.linalg.norm(after - before, axis=1))


def unproject_depth(
    sample: Sample, depth_m: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Floats:
    """Return the points (n, 3) of pixels in the camera frame."""
    assert sample.lens is not None
    rays = sample.lens.unproject(np.stack([columns, rows], axis=1).astype(np.float64))
    if sample.lens.depth_along == "axis":
        rays = rays / rays[:, 2:]
    return np.asarray(rays * depth_m[rows, columns][:, None])


def _compute_depth(points: Floats, sample: Sample) -> Floats:
    """Return the depth (n,) of camera points (n, 3), along axis or ray as the lens defines."""
    assert sample.lens is not None
    along_ray = sample.lens.depth_along == "ray"
    return np.asarray(np.linalg.norm(points, axis=1) if along_ray else points[:, 2])
