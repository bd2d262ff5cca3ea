"""Check of the coverage channel against motion during the exposure."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.checks.geometry import (
    ChannelArrays,
    Floats,
    transform_to_camera,
    transform_to_object,
    unproject_depth,
)
from sim2cam.data.checks.motion import make_world_label
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.errors import LensError

_FULL_COVERAGE = 0.99
_EDGE_MARGIN_PX = 2.0  # subpixel edges
_MAX_WRONG_FRACTION = 0.05  # of pixels; unlabelled objects may pass too
_MIN_RELATIVE_MOTION_PX = 4.0
_MIN_EDGE_PIXELS = 20
_PIXEL_STRIDE = 17  # one of so many pixels is checked


def audit_coverage(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield objects whose coverage contradicts ids and motion.

    Coverage must be full where no edge passes a pixel during the exposure, and not full along a whole edge that
    moves against its background.

    Args:
        sample: Sample with a lens, exposure time and camera pose; others are skipped.
        channels: Channels of the sample; skipped without coverage, ids and depth.
    """
    if (
        sample.frame_info is None
        or sample.lens is None
        or not channels.keys() >= _REQUIRED_CHANNELS
    ):
        return
    ids, coverage = channels["ids"], channels["coverage"]
    world_label = make_world_label(sample.frame_info)
    if world_label is None or sample.frame_info.exposure_s is None:
        return
    objects_by_id = {
        label.instance_id: label for label in sample.objects or () if label.pose is not None
    }
    try:
        object_displacements = {
            number: _compute_displacements(label, sample, channels, number)
            for number, label in objects_by_id.items()
        }
        background_displacements = {
            number: _compute_displacements(world_label, sample, channels, number)
            for number in (0, *objects_by_id)
        }
    except LensError as error:
        yield f"an object with coverage moves out of the lens's field of view ({error})"
        return
    max_displacement = max(
        (
            _compute_max_length(displacements)
            for displacements in (*object_displacements.values(), background_displacements[0])
        ),
        default=0.0,
    )
    edge_distance = _compute_edge_distance(ids)
    for index, label in enumerate(sample.objects or ()):
        location = f"object {index} (category {label.category}): coverage"
        mask = ids == label.instance_id
        interior = mask & (edge_distance > max_displacement / 2 + _EDGE_MARGIN_PX)
        wrong_count = int((coverage[interior] < _FULL_COVERAGE).sum())
        if wrong_count > _MAX_WRONG_FRACTION * interior.sum():
            yield f"{location} of {wrong_count} pixels is not full, although no edge passes them"
        edge = mask & (edge_distance <= 1)
        if label.instance_id not in object_displacements or edge.sum() < _MIN_EDGE_PIXELS:
            continue
        relative_motion = _compute_max_length(
            object_displacements[label.instance_id] - background_displacements[label.instance_id]
        )
        if relative_motion > _MIN_RELATIVE_MOTION_PX and (coverage[edge] >= _FULL_COVERAGE).all():
            yield f"{location} is full along its whole edge, which moves by {relative_motion:.1f} px"


_REQUIRED_CHANNELS = {"coverage", "ids", "depth"}


def _compute_displacements(
    label: ObjectLabel, sample: Sample, channels: ChannelArrays, instance_id: int | None
) -> Floats:
    """Return the displacement (n, 2) in pixels of visible points during the exposure."""
    assert sample.frame_info is not None
    assert sample.frame_info.exposure_s is not None
    assert sample.lens is not None
    half_s = sample.frame_info.exposure_s / 2
    mask = (channels["ids"] == instance_id) & (channels["depth"] > 0)
    rows, columns = (indices[::_PIXEL_STRIDE] for indices in np.nonzero(mask))
    if not len(rows):
        return np.zeros((0, 2))
    row_positions = rows.astype(np.float64)
    points = transform_to_object(
        unproject_depth(sample, channels["depth"], rows, columns), label, sample, row_positions
    )
    ends = (
        transform_to_camera(points, label, sample, row_positions, offset_s=offset_s)
        for offset_s in (-half_s, half_s)
    )
    start, end = (sample.lens.project(points) for points in ends)
    return np.asarray(end - start)


def _compute_max_length(displacements: Floats) -> float:
    return float(np.linalg.norm(displacements, axis=1).max(initial=0.0))


def _compute_edge_distance(ids: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return the distance (h, w) of pixels from the nearest pixel of another object or the image edge."""
    padded = np.pad(ids.astype(np.int32), 1, constant_values=-1)
    edges = np.zeros(padded.shape, bool)
    for axis in (0, 1):
        for shift in (-1, 1):
            edges |= padded != np.roll(padded, shift, axis)
    is_interior = np.uint8(1) - edges.astype(np.uint8)
    return np.asarray(
        cv2.distanceTransform(is_interior, cv2.DIST_L2, 5)[1:-1, 1:-1] + 1, np.float32
    )
