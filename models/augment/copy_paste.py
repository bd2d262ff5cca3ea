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

from sim2cam.models.augment.overlay import composite, occlude
from sim2cam.models.training.images import (
    AnnotatedImage,
    Keypoints,
    compute_hull,
    get_complete_instance_map,
)

MAX_PASTED_IMAGES = 2
"""Pictures whose objects are laid into one, at most; each number is as frequent as the others."""

T = TypeVar("T", bound=np.generic)

_MAX_CENTRE_OFFSET = (
    0.6  # at most, of an object from the one that it is laid at, in its longer sides
)


def paste_objects(
    image: AnnotatedImage, source_image: AnnotatedImage, rng: np.random.Generator, *, amodal: bool
) -> AnnotatedImage:
    """Return a picture with the objects of another one before its own, one of them at one of these.

    They are as they were, all moved alike, by whole pixels. Where either picture has no objects, or it is not
    known which pixels show them, it is returned as it is.

    Args:
        image: whose objects lie behind.
        source_image: whose objects are cut out.
        rng: source of chance.
        amodal: whether boxes are of whole objects, and stay as they are where something hides these.
    """
    behind, before = get_complete_instance_map(image), get_complete_instance_map(source_image)
    if behind is None or before is None or not (image.outlines and source_image.outlines):
        return image
    shift = _sample_shift(image, source_image, rng)
    owners = _shift_image(before, shift, behind.shape, np.uint16(0))
    rgb = _shift_image(source_image.rgb, shift, behind.shape, np.uint8(0))
    is_laid = owners > 0
    back = occlude(image, behind, is_laid, amodal=amodal)
    front = _shift_labels(source_image, before, owners, shift, amodal=amodal)
    assert back.instance_map is not None
    points = image.object_coordinates
    if points is not None and source_image.object_coordinates is not None:
        moved = _shift_image(
            source_image.object_coordinates, shift, behind.shape, np.float16(np.nan)
        )
        points = points.copy()
        points[is_laid] = moved[is_laid]
    return AnnotatedImage(
        rgb=composite(image.rgb, rgb, is_laid),
        outlines=(*back.outlines, *front.outlines),
        categories=np.concatenate([back.categories, front.categories]),
        ignored=np.concatenate([back.ignored, front.ignored]),
        visible_fractions=np.concatenate([back.visible_fractions, front.visible_fractions]),
        inside_fractions=np.concatenate([back.inside_fractions, front.inside_fractions]),
        is_rotatable=image.is_rotatable and source_image.is_rotatable,
        keypoints=_concatenate_keypoints(back.keypoints, front.keypoints),
        instance_map=np.where(is_laid, owners + np.uint16(len(back.categories)), back.instance_map),
        object_coordinates=points,
        is_fully_labelled=image.is_fully_labelled and source_image.is_fully_labelled,
    )


def _sample_shift(
    image: AnnotatedImage, source_image: AnnotatedImage, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return by how many pixels (x, y) the objects of the other picture are moved."""
    there, here = (
        one.outlines[int(rng.integers(len(one.outlines)))] for one in (image, source_image)
    )
    (low, high), (own_low, own_high) = ((o.min(axis=0), o.max(axis=0)) for o in (there, here))
    off = rng.uniform(-_MAX_CENTRE_OFFSET, _MAX_CENTRE_OFFSET, 2) * float((high - low).max())
    return np.asarray(np.round((low + high - own_low - own_high) / 2 + off), np.int64)


def _shift_image(
    values: NDArray[T], shift: NDArray[np.int64], shape: tuple[int, ...], fill_value: T
) -> NDArray[T]:
    """Return an image (h, w, ...) moved over one of another shape (h, w), with a filling where it does not lie."""
    moved = np.full((*shape, *values.shape[2:]), fill_value, values.dtype)
    (left, top), (height, width) = shift, values.shape[:2]
    rows = slice(max(top, 0), max(min(top + height, shape[0]), 0))
    columns = slice(max(left, 0), max(min(left + width, shape[1]), 0))
    moved[rows, columns] = values[
        rows.start - top : max(rows.stop - top, 0),
        columns.start - left : max(columns.stop - left, 0),
    ]
    return moved


def _shift_labels(
    source_image: AnnotatedImage, source_instance_map: NDArray[np.uint16], shifted_instance_map: NDArray[np.uint16], shift: NDArray[np.int64], *, amodal: bool
) -> AnnotatedImage:  # fmt: skip
    """Return the labels of objects that were moved; what is cut off is as hidden as what others hide."""
    count = len(source_image.categories) + 1
    had, has = (
        np.bincount(o.ravel(), minlength=count)[1:]
        for o in (source_instance_map, shifted_instance_map)
    )
    outlines = [outline + shift for outline in source_image.outlines]
    for index in np.flatnonzero((has < had) & (has > 0) & (not amodal)):
        hull = compute_hull(shifted_instance_map == index + 1)
        assert hull is not None
        outlines[index] = hull
    keypoints = source_image.keypoints
    if keypoints is not None:
        keypoints = replace(keypoints, points_xy=keypoints.points_xy + shift)
    return replace(
        source_image,
        outlines=tuple(outlines),
        visible_fractions=source_image.visible_fractions
        * source_image.inside_fractions
        * has
        / np.maximum(had, 1),
        inside_fractions=np.ones(len(source_image.inside_fractions)),
        ignored=source_image.ignored | ((had > 0) & (has == 0)),
        keypoints=keypoints,
    )


def _concatenate_keypoints(first: Keypoints | None, second: Keypoints | None) -> Keypoints | None:
    if first is None or second is None:
        return None
    return Keypoints(
        np.concatenate([first.points_xy, second.points_xy]),
        np.concatenate([first.visibility, second.visibility]),
        np.concatenate([first.flip_indices, second.flip_indices]),
    )
