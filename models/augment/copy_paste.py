"""Copy-paste augmentation.

Physics simulation of cluttered scenes is slow. Pasting objects into other images gives more occlusions at no cost
(Ghiasi et al. 2021, "Simple Copy-Paste is a Strong Data Augmentation Method for Instance Segmentation").
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
"""Largest number of images pasted into one; the number is uniform from 0."""

T = TypeVar("T", bound=np.generic)

_MAX_CENTRE_OFFSET = 0.6  # between objects of both images, in longer sides


def paste_objects(
    image: AnnotatedImage, source_image: AnnotatedImage, rng: np.random.Generator, *, amodal: bool
) -> AnnotatedImage:
    """Return an image with the objects of another one pasted in front of its own.

    All pasted objects move by the same number of whole pixels, so that one of them is at an object of the image.
    If an image has no objects or no complete instance map, the first one is returned unchanged.

    Args:
        amodal: whether boxes include hidden parts, so that occlusion does not change them.
    """
    instance_map = get_complete_instance_map(image)
    source_instance_map = get_complete_instance_map(source_image)
    if (
        instance_map is None
        or source_instance_map is None
        or not (image.outlines and source_image.outlines)
    ):
        return image
    shift = _sample_shift(image, source_image, rng)
    shifted_instance_map = _shift_image(
        source_instance_map, shift, instance_map.shape, np.uint16(0)
    )
    rgb = _shift_image(source_image.rgb, shift, instance_map.shape, np.uint8(0))
    is_pasted = shifted_instance_map > 0
    occluded = occlude(image, instance_map, is_pasted, amodal=amodal)
    pasted = _shift_labels(
        source_image, source_instance_map, shifted_instance_map, shift, amodal=amodal
    )
    assert occluded.instance_map is not None
    object_coordinates = image.object_coordinates
    if object_coordinates is not None and source_image.object_coordinates is not None:
        shifted_coordinates = _shift_image(
            source_image.object_coordinates, shift, instance_map.shape, np.float16(np.nan)
        )
        object_coordinates = object_coordinates.copy()
        object_coordinates[is_pasted] = shifted_coordinates[is_pasted]
    return AnnotatedImage(
        rgb=composite(image.rgb, rgb, is_pasted),
        outlines=(*occluded.outlines, *pasted.outlines),
        categories=np.concatenate([occluded.categories, pasted.categories]),
        ignored=np.concatenate([occluded.ignored, pasted.ignored]),
        visible_fractions=np.concatenate([occluded.visible_fractions, pasted.visible_fractions]),
        inside_fractions=np.concatenate([occluded.inside_fractions, pasted.inside_fractions]),
        is_rotatable=image.is_rotatable and source_image.is_rotatable,
        keypoints=_concatenate_keypoints(occluded.keypoints, pasted.keypoints),
        instance_map=np.where(
            is_pasted,
            shifted_instance_map + np.uint16(len(occluded.categories)),
            occluded.instance_map,
        ),
        object_coordinates=object_coordinates,
        is_fully_labelled=image.is_fully_labelled and source_image.is_fully_labelled,
    )


def _sample_shift(
    image: AnnotatedImage, source_image: AnnotatedImage, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Sample the shift of the pasted objects in pixels (x, y)."""
    target_outline, source_outline = (
        annotated.outlines[int(rng.integers(len(annotated.outlines)))]
        for annotated in (image, source_image)
    )
    (low, high), (source_low, source_high) = (
        (outline.min(axis=0), outline.max(axis=0)) for outline in (target_outline, source_outline)
    )
    offset = rng.uniform(-_MAX_CENTRE_OFFSET, _MAX_CENTRE_OFFSET, 2) * float((high - low).max())
    return np.asarray(np.round((low + high - source_low - source_high) / 2 + offset), np.int64)


def _shift_image(
    values: NDArray[T], shift: NDArray[np.int64], shape: tuple[int, ...], fill_value: T
) -> NDArray[T]:
    """Return an image (h, w, ...) moved inside a frame of another shape (h, w), padded with a value."""
    shifted = np.full((*shape, *values.shape[2:]), fill_value, values.dtype)
    (left, top), (height, width) = shift, values.shape[:2]
    rows = slice(max(top, 0), max(min(top + height, shape[0]), 0))
    columns = slice(max(left, 0), max(min(left + width, shape[1]), 0))
    shifted[rows, columns] = values[
        rows.start - top : max(rows.stop - top, 0),
        columns.start - left : max(columns.stop - left, 0),
    ]
    return shifted


def _shift_labels(
    source_image: AnnotatedImage,
    source_instance_map: NDArray[np.uint16],
    shifted_instance_map: NDArray[np.uint16],
    shift: NDArray[np.int64],
    *,
    amodal: bool,
) -> AnnotatedImage:
    """Return the labels of shifted objects; truncation counts as occlusion."""
    count = len(source_image.categories) + 1
    pixels_before, pixels_after = (
        np.bincount(instance_map.ravel(), minlength=count)[1:]
        for instance_map in (source_instance_map, shifted_instance_map)
    )
    outlines = [outline + shift for outline in source_image.outlines]
    for index in np.flatnonzero((pixels_after < pixels_before) & (pixels_after > 0) & (not amodal)):
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
        * pixels_after
        / np.maximum(pixels_before, 1),
        inside_fractions=np.ones(len(source_image.inside_fractions)),
        ignored=source_image.ignored | ((pixels_before > 0) & (pixels_after == 0)),
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
