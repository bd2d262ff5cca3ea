"""The audit of labels: identities that hold between poses, boxes and channels of a rendered sample.

Each is computed from what is stored alone, so that it finds what any step before has broken: a pose
in another frame, depth along the ray instead of the axis, labels of another picture.
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
_MIN_SLOPE_RADIUS_PX = 2  # to both sides, at the least, for the slope of depth
_SLOPE_RADIUS_STEPS = 6  # of depth, to both sides: over fewer, their rounding would tilt the slope
_MAX_CURVATURE = 0.06
_MAX_TILT_RAD = 0.2
_MIN_PIXELS = 50
_POINTS_PER_EDGE = 17  # of each edge of a box in space; a lens bends the lines between its corners


def audit_geometry(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield which identities do not hold, by object.

    Args:
        sample: rendered, with its lens.
        channels: of its own size; what is not there is not audited.
    """
    if sample.lens is None:
        return
    for index, label in enumerate(sample.objects or ()):
        try:
            for what in _audit_object(label, sample, channels):
                yield f"object {index} (category {label.category}): {what}"
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
    """Return points (n, 3) of an object with a pose, in the camera frame.

    That is when the exposure of rows (n,) is half over, or some seconds later.
    """
    assert label.pose is not None
    seconds = _compute_row_times_s(sample, rows) + offset_s
    still = RigidMotion(label.pose, label.twist or ZERO_TWIST).to_parent(points_m, seconds)
    return _get_camera_motion(sample).from_parent(still, seconds)


def transform_to_object(points: Floats, label: ObjectLabel, sample: Sample, rows: Floats) -> Floats:
    """Return, in the frame of an object with a pose, points (n, 3) that rows (n,) see."""
    assert label.pose is not None
    seconds = _compute_row_times_s(sample, rows)
    still = _get_camera_motion(sample).to_parent(points, seconds)
    return RigidMotion(label.pose, label.twist or ZERO_TWIST).from_parent(still, seconds)


def _get_camera_motion(sample: Sample) -> RigidMotion:
    """Return where the camera is, in its own frame when the middle row is exposed."""
    return RigidMotion(Pose(), sample.frame_info.twist if sample.frame_info else ZERO_TWIST)


def _compute_row_times_s(sample: Sample, rows: Floats) -> Floats:
    """Return when rows (n,) are exposed, from when the middle one is."""
    row_s = (sample.frame_info and sample.frame_info.row_s) or 0.0
    return np.asarray((rows - (sample.height - 1) / 2) * row_s)


def _transform_over_shutter(points: Floats, label: ObjectLabel, sample: Sample) -> Floats:
    """Return points (n, 3) of an object in the camera frame.

    Under a rolling shutter there are twice as many: when its first and when its last row is exposed.
    """
    _, top, _, bottom = label.box_amodal_xyxy or label.box_xyxy
    rolls = bool(sample.frame_info and sample.frame_info.row_s)
    ends = (top, bottom - 1) if rolls else (top,)
    return np.concatenate(
        [transform_to_camera(points, label, sample, np.full(len(points), row)) for row in ends]
    )


def _audit_box(label: ObjectLabel, sample: Sample) -> Iterator[str]:
    """Box and pose: the amodal box lies in the projection of the box in space."""
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
        around = tuple(
            round(float(v), 1) for v in (*low + _PIXEL_TOLERANCE_PX, *high - _PIXEL_TOLERANCE_PX)
        )
        yield f"amodal box {label.box_amodal_xyxy} leaves that of its pose and extent, {around}"


def _sample_box_edges(corners: Floats) -> Floats:
    """Return points along the twelve edges of a box (8, 3) along the axes; its outline is made of edges."""
    apart = np.abs(corners[:, None] - corners[None]) > 0
    first, second = np.nonzero(np.triu(apart.sum(axis=-1) == 1))
    along = np.linspace(0, 1, _POINTS_PER_EDGE)[:, None, None]
    return np.asarray(((1 - along) * corners[first] + along * corners[second]).reshape(-1, 3))


def _audit_depth(depth_m: NDArray[Any], corners: Floats, sample: Sample) -> Iterator[str]:
    """Depth and pose: an object's depth lies between that of the corners of its box in space."""
    assert sample.lens is not None
    reach = _compute_depth(corners, sample)
    margin = _DEPTH_TOLERANCE_M + _RELATIVE_DEPTH_TOLERANCE * reach.max()
    low, high = reach.min() - margin, reach.max() + margin
    if sample.lens.depth_along == "ray":
        low = _bound_distance(corners) - margin
    outside = (depth_m > 0) & ((depth_m < low) | (depth_m > high))
    if outside.any():
        yield (
            f"depth of {int(outside.sum())} pixels is outside {low:.4f} to {high:.4f} m, where its "
            f"pose has it (first {depth_m[outside][0]:.4f})"
        )


def _bound_distance(corners: Floats) -> float:
    """Return a distance below which nothing of a box (8, 3) lies from the origin."""
    middle = corners.mean(axis=0)
    return float(np.linalg.norm(middle) - np.linalg.norm(corners - middle, axis=1).max())


def _audit_coordinates(
    label: ObjectLabel,
    sample: Sample,
    channels: ChannelArrays,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> Iterator[str]:
    """Object coordinates, pose and depth: a pixel's point lies on its ray, as far as depth says."""
    assert sample.lens is not None
    assert label.extent_m is not None
    shares = channels["coordinates"][rows, columns].astype(np.float64)
    if np.isnan(shares).any():
        yield f"{int(np.isnan(shares).any(axis=1).sum())} of its pixels have no coordinates"
        return
    low, high = np.array(label.extent_m)
    points = transform_to_camera(
        shares * (high - low) + low, label, sample, rows.astype(np.float64)
    )
    off = np.abs(sample.lens.project(points) - np.stack([columns, rows], axis=1)).max()
    if off > _PIXEL_TOLERANCE_PX / 4:
        yield f"coordinates and pose put its points up to {off:.1f} px beside their pixels"
    if "depth" in channels:
        depth = channels["depth"][rows, columns]
        error = np.abs(_compute_depth(points, sample) - depth)
        if (error > _DEPTH_TOLERANCE_M + _RELATIVE_DEPTH_TOLERANCE * depth).any():
            yield f"coordinates and depth differ by up to {error.max():.4f} m"


def _audit_normals(
    sample: Sample, channels: ChannelArrays, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Iterator[str]:
    """Normals and depth: a normal stands on the surface that depth makes around it."""
    ids, depth = channels["ids"], channels["depth"]
    height, width = ids.shape
    r = _compute_slope_radius_px(sample, depth, rows, columns)
    inner = (rows >= r) & (rows < height - r) & (columns >= r) & (columns < width - r)
    rows, columns = rows[inner], columns[inner]
    steps = ((0, -r), (0, r), (-r, 0), (r, 0))
    number = ids[rows, columns]
    same = np.all([ids[rows + dy, columns + dx] == number for dy, dx in steps], axis=0)
    rows, columns = rows[same], columns[same]
    middle = unproject_depth(sample, depth, rows, columns)
    left, right, up, down = (
        unproject_depth(sample, depth, rows + dy, columns + dx) for dy, dx in steps
    )
    flat = _is_flat(left, middle, right) & _is_flat(up, middle, down)
    if flat.sum() < _MIN_PIXELS:
        return
    slope = np.cross(down - up, right - left)[flat]
    slope /= np.linalg.norm(slope, axis=1, keepdims=True)
    cosine = np.abs((slope * channels["normals"][rows, columns][flat]).sum(axis=1)).clip(0, 1)
    tilt = float(np.median(np.arccos(cosine)))
    if tilt > _MAX_TILT_RAD:
        yield f"normals stand {np.degrees(tilt):.0f} degrees off the surface that depth makes"


def _compute_slope_radius_px(
    sample: Sample, depth_m: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> int:
    """Return how many pixels of an object are wide enough for its slope: the more, the nearer it is."""
    middle = len(rows) // 2
    pixel = np.array([[columns[middle], rows[middle]]], np.float64)
    point = unproject_depth(sample, depth_m, rows[[middle]], columns[[middle]])
    wide_m = max(compute_pixel_size_m(pixel, point, sample), 1e-9)
    return max(_MIN_SLOPE_RADIUS_PX, math.ceil(_SLOPE_RADIUS_STEPS * DEPTH_SCALE_M / wide_m))


def compute_pixel_size_m(pixel: Floats, point: Floats, sample: Sample) -> float:
    """Return how wide a pixel (1, 2) is at a point (1, 3) of the camera frame."""
    assert sample.lens is not None
    rays = sample.lens.unproject(pixel + np.array([[0.0, 0.0], [1.0, 0.0]]))
    return float(np.linalg.norm(rays[1] - rays[0]) * np.linalg.norm(point))


def _is_flat(before: Floats, middle: Floats, after: Floats) -> NDArray[np.bool_]:
    """Return which points (n, 3) lie on the line between two others: no edge runs between them."""
    bend = np.linalg.norm(before + after - 2 * middle, axis=1)
    return np.asarray(bend < _MAX_CURVATURE * np.linalg.norm(after - before, axis=1))


def unproject_depth(
    sample: Sample, depth_m: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Floats:
    """Return the points (n, 3) that pixels see, in the camera frame."""
    assert sample.lens is not None
    rays = sample.lens.unproject(np.stack([columns, rows], axis=1).astype(np.float64))
    if sample.lens.depth_along == "axis":
        rays = rays / rays[:, 2:]
    return np.asarray(rays * depth_m[rows, columns][:, None])


def _compute_depth(points: Floats, sample: Sample) -> Floats:
    """Return the depth (n,) of points (n, 3) in the camera frame, as the lens has it."""
    assert sample.lens is not None
    along_ray = sample.lens.depth_along == "ray"
    return np.asarray(np.linalg.norm(points, axis=1) if along_ray else points[:, 2])
