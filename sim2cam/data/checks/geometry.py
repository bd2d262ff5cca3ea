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
from sim2cam.geometry.boxes import corners_in_space
from sim2cam.geometry.motion import STILL, Course
from sim2cam.geometry.poses import Pose

Floats = NDArray[np.float64]
Channels = Mapping[ChannelName, NDArray[Any]]

_ROUND_M = 2 * DEPTH_SCALE_M
_ROUND_SHARE = 1e-3
_ROUND_PX = 2.0
_REACH_PX = 2  # to both sides, at the least, for the slope of depth
_REACH_STEPS = 6  # of depth, to both sides: over fewer, their rounding would tilt the slope
_MOST_BEND = 0.06
_MOST_TILT_RAD = 0.2
_MIN_PIXELS = 50
_EDGE_POINTS = 17  # of each edge of a box in space; a lens bends the lines between its corners


def audit(sample: Sample, channels: Channels) -> Iterator[str]:
    """Yields which identities do not hold, by object.

    Args:
        sample: rendered, with its lens.
        channels: of its own size; what is not there is not audited.
    """
    if sample.lens is None:
        return
    for index, label in enumerate(sample.objects or ()):
        try:
            for what in _object_problems(label, sample, channels):
                yield f"object {index} (category {label.category}): {what}"
        except LensError as error:
            yield f"object {index} (category {label.category}): {error}"


def _object_problems(label: ObjectLabel, sample: Sample, channels: Channels) -> Iterator[str]:
    if label.pose is None or label.extent_m is None:
        return
    corners = _posed(corners_in_space(*label.extent_m), label, sample)
    yield from _box_problems(label, sample)
    if "ids" not in channels:
        return
    rows, columns = np.nonzero(channels["ids"] == label.instance_id)
    if not len(rows):
        return
    if "depth" in channels:
        yield from _depth_problems(channels["depth"][rows, columns], corners, sample)
    if "coordinates" in channels:
        yield from _coordinate_problems(label, sample, channels, rows, columns)
    if "normals" in channels and "depth" in channels:
        yield from _normal_problems(sample, channels, rows, columns)


def in_camera(
    points_m: Floats, label: ObjectLabel, sample: Sample, rows: Floats, *, later_s: float = 0.0
) -> Floats:
    """Returns points (n, 3) of an object with a pose, in the camera frame.

    That is when the exposure of rows (n,) is half over, or some seconds later.
    """
    assert label.pose is not None
    seconds = _row_seconds(sample, rows) + later_s
    still = Course(label.pose, label.twist or STILL).to_parent(points_m, seconds)
    return _camera_course(sample).from_parent(still, seconds)


def on_object(points: Floats, label: ObjectLabel, sample: Sample, rows: Floats) -> Floats:
    """Returns, in the frame of an object with a pose, points (n, 3) that rows (n,) see."""
    assert label.pose is not None
    seconds = _row_seconds(sample, rows)
    still = _camera_course(sample).to_parent(points, seconds)
    return Course(label.pose, label.twist or STILL).from_parent(still, seconds)


def _camera_course(sample: Sample) -> Course:
    """Returns where the camera is, in its own frame when the middle row is exposed."""
    return Course(Pose(), sample.moment.twist if sample.moment else STILL)


def _row_seconds(sample: Sample, rows: Floats) -> Floats:
    """Returns when rows (n,) are exposed, from when the middle one is."""
    row_s = (sample.moment and sample.moment.row_s) or 0.0
    return np.asarray((rows - (sample.height - 1) / 2) * row_s)


def _posed(points: Floats, label: ObjectLabel, sample: Sample) -> Floats:
    """Returns points (n, 3) of an object in the camera frame.

    Under a rolling shutter there are twice as many: when its first and when its last row is exposed.
    """
    _, top, _, bottom = label.box_amodal_xyxy or label.box_xyxy
    rolls = bool(sample.moment and sample.moment.row_s)
    ends = (top, bottom - 1) if rolls else (top,)
    return np.concatenate(
        [in_camera(points, label, sample, np.full(len(points), row)) for row in ends]
    )


def _box_problems(label: ObjectLabel, sample: Sample) -> Iterator[str]:
    """Box and pose: the amodal box lies in the projection of the box in space."""
    assert sample.lens is not None
    assert label.extent_m is not None
    edges = _posed(_edges(corners_in_space(*label.extent_m)), label, sample)
    if label.box_amodal_xyxy is None or not sample.lens.sees(edges).all():
        return
    pixels = sample.lens.project(edges) + 0.5
    low, high = pixels.min(axis=0) - _ROUND_PX, pixels.max(axis=0) + _ROUND_PX
    x0, y0, x1, y1 = label.box_amodal_xyxy
    if x0 < low[0] or y0 < low[1] or x1 > high[0] or y1 > high[1]:
        around = tuple(round(float(v), 1) for v in (*low + _ROUND_PX, *high - _ROUND_PX))
        yield f"amodal box {label.box_amodal_xyxy} leaves that of its pose and extent, {around}"


def _edges(corners: Floats) -> Floats:
    """Returns points along the twelve edges of a box (8, 3) along the axes; its outline is made of edges."""
    apart = np.abs(corners[:, None] - corners[None]) > 0
    first, second = np.nonzero(np.triu(apart.sum(axis=-1) == 1))
    along = np.linspace(0, 1, _EDGE_POINTS)[:, None, None]
    return np.asarray(((1 - along) * corners[first] + along * corners[second]).reshape(-1, 3))


def _depth_problems(depth_m: NDArray[Any], corners: Floats, sample: Sample) -> Iterator[str]:
    """Depth and pose: an object's depth lies between that of the corners of its box in space."""
    assert sample.lens is not None
    reach = _along(corners, sample)
    margin = _ROUND_M + _ROUND_SHARE * reach.max()
    low, high = reach.min() - margin, reach.max() + margin
    if sample.lens.depth_along == "ray":
        low = _nearest_in_box(corners) - margin
    outside = (depth_m > 0) & ((depth_m < low) | (depth_m > high))
    if outside.any():
        yield (
            f"depth of {int(outside.sum())} pixels is outside {low:.4f} to {high:.4f} m, where its "
            f"pose has it (first {depth_m[outside][0]:.4f})"
        )


def _nearest_in_box(corners: Floats) -> float:
    """Returns a distance below which nothing of a box (8, 3) lies from the origin."""
    middle = corners.mean(axis=0)
    return float(np.linalg.norm(middle) - np.linalg.norm(corners - middle, axis=1).max())


def _coordinate_problems(
    label: ObjectLabel,
    sample: Sample,
    channels: Channels,
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
    points = in_camera(shares * (high - low) + low, label, sample, rows.astype(np.float64))
    off = np.abs(sample.lens.project(points) - np.stack([columns, rows], axis=1)).max()
    if off > _ROUND_PX / 4:
        yield f"coordinates and pose put its points up to {off:.1f} px beside their pixels"
    if "depth" in channels:
        depth = channels["depth"][rows, columns]
        error = np.abs(_along(points, sample) - depth)
        if (error > _ROUND_M + _ROUND_SHARE * depth).any():
            yield f"coordinates and depth differ by up to {error.max():.4f} m"


def _normal_problems(
    sample: Sample, channels: Channels, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Iterator[str]:
    """Normals and depth: a normal stands on the surface that depth makes around it."""
    ids, depth = channels["ids"], channels["depth"]
    height, width = ids.shape
    r = _reach_px(sample, depth, rows, columns)
    inner = (rows >= r) & (rows < height - r) & (columns >= r) & (columns < width - r)
    rows, columns = rows[inner], columns[inner]
    steps = ((0, -r), (0, r), (-r, 0), (r, 0))
    number = ids[rows, columns]
    same = np.all([ids[rows + dy, columns + dx] == number for dy, dx in steps], axis=0)
    rows, columns = rows[same], columns[same]
    middle = seen_points(sample, depth, rows, columns)
    left, right, up, down = (
        seen_points(sample, depth, rows + dy, columns + dx) for dy, dx in steps
    )
    flat = _is_flat(left, middle, right) & _is_flat(up, middle, down)
    if flat.sum() < _MIN_PIXELS:
        return
    slope = np.cross(down - up, right - left)[flat]
    slope /= np.linalg.norm(slope, axis=1, keepdims=True)
    cosine = np.abs((slope * channels["normals"][rows, columns][flat]).sum(axis=1)).clip(0, 1)
    tilt = float(np.median(np.arccos(cosine)))
    if tilt > _MOST_TILT_RAD:
        yield f"normals stand {np.degrees(tilt):.0f} degrees off the surface that depth makes"


def _reach_px(
    sample: Sample, depth_m: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> int:
    """Returns how many pixels of an object are wide enough for its slope: the more, the nearer it is."""
    middle = len(rows) // 2
    pixel = np.array([[columns[middle], rows[middle]]], np.float64)
    point = seen_points(sample, depth_m, rows[[middle]], columns[[middle]])
    wide_m = max(pixel_m(pixel, point, sample), 1e-9)
    return max(_REACH_PX, math.ceil(_REACH_STEPS * DEPTH_SCALE_M / wide_m))


def pixel_m(pixel: Floats, point: Floats, sample: Sample) -> float:
    """Returns how wide a pixel (1, 2) is at a point (1, 3) of the camera frame."""
    assert sample.lens is not None
    rays = sample.lens.unproject(pixel + np.array([[0.0, 0.0], [1.0, 0.0]]))
    return float(np.linalg.norm(rays[1] - rays[0]) * np.linalg.norm(point))


def _is_flat(before: Floats, middle: Floats, after: Floats) -> NDArray[np.bool_]:
    """Returns which points (n, 3) lie on the line between two others: no edge runs between them."""
    bend = np.linalg.norm(before + after - 2 * middle, axis=1)
    return np.asarray(bend < _MOST_BEND * np.linalg.norm(after - before, axis=1))


def seen_points(
    sample: Sample, depth_m: NDArray[Any], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Floats:
    """Returns the points (n, 3) that pixels see, in the camera frame."""
    assert sample.lens is not None
    rays = sample.lens.unproject(np.stack([columns, rows], axis=1).astype(np.float64))
    if sample.lens.depth_along == "axis":
        rays = rays / rays[:, 2:]
    return np.asarray(rays * depth_m[rows, columns][:, None])


def _along(points: Floats, sample: Sample) -> Floats:
    """Returns the depth (n,) of points (n, 3) in the camera frame, as the lens has it."""
    assert sample.lens is not None
    along_ray = sample.lens.depth_along == "ray"
    return np.asarray(np.linalg.norm(points, axis=1) if along_ray else points[:, 2])
