"""Objects of other pictures laid before those of a picture: crowds that were not rendered.

Scenes in which many objects hide one another take long to settle. Objects that are cut out of some pictures and
laid into others hide these in more ways, for nothing (Ghiasi et al. 2021, "Simple Copy-Paste is a Strong Data
Augmentation Method for Instance Segmentation").
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sim2cam.models.augment.overlay import hidden, laid
from sim2cam.models.training.images import Keypoints, Picture, hull_of, known_owners

MOST_OTHERS = 2
"""Pictures whose objects are laid into one, at most; each number is as frequent as the others."""

T = TypeVar("T", bound=np.generic)

_OFF_CENTRE = 0.6  # at most, of an object from the one that it is laid at, in its longer sides


def crowded(picture: Picture, other: Picture, rng: np.random.Generator, *, amodal: bool) -> Picture:
    """Returns a picture with the objects of another one before its own, one of them at one of these.

    They are as they were, all moved alike, by whole pixels. Where either picture has no objects, or it is not
    known which pixels show them, it is returned as it is.

    Args:
        picture: whose objects lie behind.
        other: whose objects are cut out.
        rng: source of chance.
        amodal: whether boxes are of whole objects, and stay as they are where something hides these.
    """
    behind, before = known_owners(picture), known_owners(other)
    if behind is None or before is None or not (picture.outlines and other.outlines):
        return picture
    shift = _draw_shift(picture, other, rng)
    owners = _shifted(before, shift, behind.shape, np.uint16(0))
    rgb = _shifted(other.rgb, shift, behind.shape, np.uint8(0))
    is_laid = owners > 0
    back = hidden(picture, behind, is_laid, amodal=amodal)
    front = _moved(other, before, owners, shift, amodal=amodal)
    assert back.owners is not None
    points = picture.points
    if points is not None and other.points is not None:
        moved = _shifted(other.points, shift, behind.shape, np.float16(np.nan))
        points = points.copy()
        points[is_laid] = moved[is_laid]
    return Picture(
        rgb=laid(picture.rgb, rgb, is_laid),
        outlines=(*back.outlines, *front.outlines),
        categories=np.concatenate([back.categories, front.categories]),
        ignored=np.concatenate([back.ignored, front.ignored]),
        visible=np.concatenate([back.visible, front.visible]),
        inside=np.concatenate([back.inside, front.inside]),
        turns_freely=picture.turns_freely and other.turns_freely,
        keypoints=_joined(back.keypoints, front.keypoints),
        owners=np.where(is_laid, owners + np.uint16(len(back.categories)), back.owners),
        points=points,
        is_complete=picture.is_complete and other.is_complete,
    )


def _draw_shift(picture: Picture, other: Picture, rng: np.random.Generator) -> NDArray[np.int64]:
    """Returns by how many pixels (x, y) the objects of the other picture are moved."""
    there, here = (one.outlines[int(rng.integers(len(one.outlines)))] for one in (picture, other))
    (low, high), (own_low, own_high) = ((o.min(axis=0), o.max(axis=0)) for o in (there, here))
    off = rng.uniform(-_OFF_CENTRE, _OFF_CENTRE, 2) * float((high - low).max())
    return np.asarray(np.round((low + high - own_low - own_high) / 2 + off), np.int64)


def _shifted(
    values: NDArray[T], shift: NDArray[np.int64], shape: tuple[int, ...], filling: T
) -> NDArray[T]:
    """Returns an image (h, w, ...) moved over one of another shape (h, w), with a filling where it does not lie."""
    moved = np.full((*shape, *values.shape[2:]), filling, values.dtype)
    (left, top), (height, width) = shift, values.shape[:2]
    rows = slice(max(top, 0), max(min(top + height, shape[0]), 0))
    columns = slice(max(left, 0), max(min(left + width, shape[1]), 0))
    moved[rows, columns] = values[
        rows.start - top : max(rows.stop - top, 0),
        columns.start - left : max(columns.stop - left, 0),
    ]
    return moved


def _moved(
    other: Picture, before: NDArray[np.uint16], owners: NDArray[np.uint16], shift: NDArray[np.int64], *, amodal: bool
) -> Picture:  # fmt: skip
    """Returns the labels of objects that were moved; what is cut off is as hidden as what others hide."""
    count = len(other.categories) + 1
    had, has = (np.bincount(o.ravel(), minlength=count)[1:] for o in (before, owners))
    outlines = [outline + shift for outline in other.outlines]
    for index in np.flatnonzero((has < had) & (has > 0) & (not amodal)):
        hull = hull_of(owners == index + 1)
        assert hull is not None
        outlines[index] = hull
    keypoints = other.keypoints
    if keypoints is not None:
        keypoints = replace(keypoints, places=keypoints.places + shift)
    return replace(
        other,
        outlines=tuple(outlines),
        visible=other.visible * other.inside * has / np.maximum(had, 1),
        inside=np.ones(len(other.inside)),
        ignored=other.ignored | ((had > 0) & (has == 0)),
        keypoints=keypoints,
    )


def _joined(one: Keypoints | None, other: Keypoints | None) -> Keypoints | None:
    if one is None or other is None:
        return None
    return Keypoints(
        np.concatenate([one.places, other.places]),
        np.concatenate([one.seen, other.seen]),
        np.concatenate([one.mirrored, other.mirrored]),
    )
