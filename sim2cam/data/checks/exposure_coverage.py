"""The audit of coverage: whether what passes before pixels while they gather light shows in it."""

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
_EDGE_MARGIN_PX = 2.0  # beyond what moves, for edges between two pixels
_MAX_WRONG_FRACTION = (
    0.05  # of pixels; things without a label may pass as well, which it says nowhere
)
_MIN_RELATIVE_MOTION_PX = 4.0
_MIN_EDGE_PIXELS = 20
_PIXEL_STRIDE = 17  # of so many pixels one is looked at


def audit_coverage(sample: Sample, channels: ChannelArrays) -> Iterator[str]:
    """Yield where coverage is not what ids and motion have, by object.

    It is full where no edge comes by while the pixel gathers light, and is not all along the edge of
    what moves against what lies behind.

    Args:
        sample: with a lens and a moment that tells exposure and camera; others are not audited.
        channels: its own; without coverage, ids and depth it is not audited.
    """
    if (
        sample.frame_info is None
        or sample.lens is None
        or not channels.keys() >= _REQUIRED_CHANNELS
    ):
        return
    ids, coverage = channels["ids"], channels["coverage"]
    still = make_world_label(sample.frame_info)
    if still is None or sample.frame_info.exposure_s is None:
        return
    swept = {label.instance_id: label for label in sample.objects or () if label.pose is not None}
    try:
        ways = {
            number: _compute_displacements(label, sample, channels, number)
            for number, label in swept.items()
        }
        behind = {
            number: _compute_displacements(still, sample, channels, number)
            for number in (0, *swept)
        }
    except LensError as error:
        yield f"what coverage shows moves to where the lens does not see ({error})"
        return
    most = max((_compute_max_length(way) for way in (*ways.values(), behind[0])), default=0.0)
    away = _compute_edge_distance(ids)
    for index, label in enumerate(sample.objects or ()):
        place = f"object {index} (category {label.category}): coverage"
        seen = ids == label.instance_id
        inner = seen & (away > most / 2 + _EDGE_MARGIN_PX)
        wrong = int((coverage[inner] < _FULL_COVERAGE).sum())
        if wrong > _MAX_WRONG_FRACTION * inner.sum():
            yield f"{place} of {wrong} pixels is not full, though no edge comes as near"
        edge = seen & (away <= 1)
        if label.instance_id not in ways or edge.sum() < _MIN_EDGE_PIXELS:
            continue
        against = _compute_max_length(ways[label.instance_id] - behind[label.instance_id])
        if against > _MIN_RELATIVE_MOTION_PX and (coverage[edge] >= _FULL_COVERAGE).all():
            yield f"{place} is full along all its edge, which moves by {against:.1f} px"


_REQUIRED_CHANNELS = {"coverage", "ids", "depth"}


def _compute_displacements(
    label: ObjectLabel, sample: Sample, channels: ChannelArrays, instance_id: int | None
) -> Floats:
    """Return how far (n, 2), in pixels, what some pixels see would move in the exposure.

    Args:
        label: of the object with which it moves.
        sample: with a lens and a moment that tells exposure and camera.
        channels: its own.
        instance_id: of the object whose pixels are looked at.

    Raises:
        LensError: it moves to where the lens does not see.
    """
    assert sample.frame_info is not None
    assert sample.frame_info.exposure_s is not None
    assert sample.lens is not None
    half_s = sample.frame_info.exposure_s / 2
    seen = (channels["ids"] == instance_id) & (channels["depth"] > 0)
    rows, columns = (places[::_PIXEL_STRIDE] for places in np.nonzero(seen))
    if not len(rows):
        return np.zeros((0, 2))
    lines = rows.astype(np.float64)
    points = transform_to_object(
        unproject_depth(sample, channels["depth"], rows, columns), label, sample, lines
    )
    ends = (
        transform_to_camera(points, label, sample, lines, offset_s=t) for t in (-half_s, half_s)
    )
    start, end = (sample.lens.project(points) for points in ends)
    return np.asarray(end - start)


def _compute_max_length(displacements: Floats) -> float:
    return float(np.linalg.norm(displacements, axis=1).max(initial=0.0))


def _compute_edge_distance(ids: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return how far (h, w) pixels are from the nearest of another object, or the picture's edge."""
    framed = np.pad(ids.astype(np.int32), 1, constant_values=-1)
    edges = np.zeros(framed.shape, bool)
    for axis in (0, 1):
        for step in (-1, 1):
            edges |= framed != np.roll(framed, step, axis)
    inner = np.uint8(1) - edges.astype(np.uint8)
    return np.asarray(cv2.distanceTransform(inner, cv2.DIST_L2, 5)[1:-1, 1:-1] + 1, np.float32)
