"""The audit of films: flow and tracks against the depth and the poses of both pictures they join."""

from __future__ import annotations

from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.data.channels import DEPTH_SCALE_M, FLOW_SEEN, ChannelName
from sim2cam.data.checks.geometry import Channels, Floats, in_camera, on_object, seen_points
from sim2cam.data.sample import Moment, ObjectLabel, Sample
from sim2cam.data.tracks import Tracks
from sim2cam.errors import LensError

_OFF_PX = 0.5
_OTHER_POINTS, _OTHER_SHARE = 3, 0.25  # of those at its edge: rounding moves some beyond
_STILL_SHARE = 0.25  # of what has no label; the rest may be things that move, as it says nowhere
_REST_STEP = 37  # of so many pixels one is looked at
_LEAST_REST = 20
_ROUNDS = 5


def audit_flow(
    name: ChannelName, sample: Sample, channels: Channels, other: Sample, ids: NDArray[np.uint16]
) -> Iterator[str]:
    """Yields where a flow is not what depth, poses and motion have, by object; then of the rest.

    Args:
        name: of the flow.
        sample: whose flow it is; without a lens it is not audited.
        channels: its own, with ``ids`` and ``depth``.
        other: the sample to which the flow leads.
        ids: (h, w) its instance ids.
    """
    if sample.lens is None or other.lens is None:
        return
    there = {label.instance_id: label for label in other.objects or ()}
    rounded = {**channels, "depth": channels["depth"] + DEPTH_SCALE_M / 2}  # at most by so much
    for index, label in enumerate(sample.objects or ()):
        then = there.get(label.instance_id)
        if then is None or label.pose is None or then.pose is None:
            continue
        place = f"object {index} (category {label.category}): {name}"
        rows, columns = _flowing(name, channels, label.instance_id)
        points = _points_on(label, sample, channels, rows, columns)
        farther = _points_on(label, sample, rounded, rows, columns)
        found = _ends(name, channels, rows, columns)
        yield from _off_problems(f"{place} is", points, found, then, other, farther)
        seen = channels[name][rows, columns, 2] == FLOW_SEEN
        yield from _seen_problems(place, found[seen], ids, label.instance_id)
    yield from _rest_problems(name, sample, channels, other)


def _rest_problems(
    name: ChannelName, sample: Sample, channels: Channels, other: Sample
) -> Iterator[str]:
    """Yields whether hardly anything that has no label stands still between two places of a camera."""
    here, there = world(sample.moment), world(other.moment)
    if here is None or there is None:
        return
    rows, columns = (places[::_REST_STEP] for places in _flowing(name, channels, 0))
    if len(rows) < _LEAST_REST:
        return
    points = _points_on(here, sample, channels, rows, columns)
    found = _ends(name, channels, rows, columns)
    try:
        off = _apart(_pixels(points, there, other), found)
    except LensError as error:
        yield f"{name} leads to what the other camera cannot see ({error})"
        return
    share = float((off <= _OFF_PX).mean())
    if share < _STILL_SHARE:
        yield (
            f"{name} of {share:.0%} of what has no label is what depth and the places of the camera "
            f"have, of at least {_STILL_SHARE:.0%}"
        )


def world(moment: Moment | None) -> ObjectLabel | None:
    """Returns all that stands still, as an object that is seen from a camera; None where it is unknown."""
    if moment is None or moment.camera is None:
        return None
    return ObjectLabel("world", (0.0, 0.0, 0.0, 0.0), 0.0, pose=moment.camera.inverse())


def _flowing(
    name: ChannelName, channels: Channels, instance_id: int | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns rows (n,) and columns (n,) of an object's pixels whose flow is known."""
    known = (channels[name][..., 2] > 0) & (channels["depth"] > 0)
    rows, columns = np.nonzero((channels["ids"] == instance_id) & known)
    return rows, columns


def _points_on(
    label: ObjectLabel,
    sample: Sample,
    channels: Channels,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> Floats:
    """Returns what pixels see (n, 3), in the frame of an object."""
    points = seen_points(sample, channels["depth"], rows, columns)
    return on_object(points, label, sample, rows.astype(np.float64))


def _ends(
    name: ChannelName, channels: Channels, rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> Floats:
    """Returns the pixels (n, 2) to which a flow leads."""
    starts = np.stack([columns, rows], axis=1).astype(np.float64)
    return np.asarray(starts + channels[name][rows, columns, :2])


def audit_tracks(tracks: Tracks, sample: Sample, channels: Channels) -> Iterator[str]:
    """Yields which tracked points are not where poses have them, by object.

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
        yield from _off_problems(f"{place} are", points, pixels, label, sample)
        if "ids" in channels:
            seen = pixels[tracks.visible[chosen]]
            yield from _seen_problems(place, seen, channels["ids"], label.instance_id)


def _off_problems(
    place: str,
    points_m: Floats,
    pixels: Floats,
    label: ObjectLabel,
    sample: Sample,
    others_m: Floats | None = None,
) -> Iterator[str]:
    """Yields whether points (n, 3) of an object are not at these pixels (n, 2) of a sample.

    They may be as far off as the other points (n, 3) are, which they could be by rounding as well.
    """
    if not len(points_m):
        return
    try:
        there = _pixels(points_m, label, sample)
        unsure = 0.0 if others_m is None else _apart(_pixels(others_m, label, sample), there)
    except LensError as error:
        yield f"{place} at poses that cannot be seen ({error})"
        return
    off = _apart(there, pixels)
    if (off > _OFF_PX + unsure).any():
        yield f"{place} up to {off.max():.1f} px off what its pose has"


def _seen_problems(
    place: str, pixels: Floats, ids: NDArray[np.uint16], instance_id: int | None
) -> Iterator[str]:
    """Yields whether too many pixels (n, 2) at which an object is said to be seen show another."""
    height, width = ids.shape
    limits = np.array([width - 1, height - 1])
    columns, rows = np.clip(np.rint(pixels), 0, limits).astype(np.intp).T
    mask = (ids == instance_id).astype(np.uint8)
    inner = cv2.erode(mask, np.ones((3, 3), np.uint8))
    wrong, at_edge = (int((shown[rows, columns] == 0).sum()) for shown in (mask, inner))
    if wrong > max(_OTHER_POINTS, _OTHER_SHARE * at_edge):
        yield f"{place}: {wrong} of {len(pixels)} points that are seen are not in its mask"


def _apart(pixels: Floats, others: Floats) -> Floats:
    """Returns by how much pixels (n, 2) are apart in row or column (n,)."""
    return np.asarray(np.abs(pixels - others).max(axis=1))


def _pixels(points_m: Floats, label: ObjectLabel, sample: Sample) -> Floats:
    """Returns the pixels (n, 2) of points of an object, each when the row that it lies on is exposed.

    Raises:
        LensError: the lens does not see one of them.
    """
    assert sample.lens is not None
    rows = np.full(len(points_m), (sample.height - 1) / 2)
    for _ in range(_ROUNDS):
        pixels = sample.lens.project(in_camera(points_m, label, sample, rows))
        rows = np.clip(pixels[:, 1], 0, sample.height - 1)
    return pixels
