"""Laying one thing before another in a picture, so that its labels know of it."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.models.training.images import AnnotatedImage, Keypoints, compute_hull


def composite(
    rgb: NDArray[np.uint8], overlay: NDArray[np.uint8], mask: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    """Return an image with another one where that is to be seen, with edges as soft as a lens makes them."""
    weight = cv2.blur(mask.astype(np.float32), (3, 3))
    return np.asarray(cv2.blendLinear(overlay, rgb, weight, 1 - weight), np.uint8)


def occlude(
    image: AnnotatedImage,
    instance_map: NDArray[np.uint16],
    occluders: NDArray[np.bool_],
    *,
    amodal: bool,
) -> AnnotatedImage:
    """Return a picture whose labels know what pieces hide.

    Args:
        image: whose labels do not know of them.
        instance_map: its own (h, w).
        occluders: where they lie (h, w).
        amodal: whether boxes are of whole objects, and stay as they are.
    """
    left = np.where(occluders, np.uint16(0), instance_map)
    count = len(image.categories) + 1
    before, after = (np.bincount(o.ravel(), minlength=count)[1:] for o in (instance_map, left))
    outlines = list(image.outlines)
    for index in np.flatnonzero((after < before) & (after > 0) & (not amodal)):
        hull = compute_hull(left == index + 1)
        assert hull is not None
        outlines[index] = hull
    return replace(
        image,
        instance_map=left,
        outlines=tuple(outlines),
        visible_fractions=image.visible_fractions * after / np.maximum(before, 1),
        ignored=image.ignored | ((before > 0) & (after == 0)),
        keypoints=_occlude_keypoints(image.keypoints, occluders),
    )


def _occlude_keypoints(
    keypoints: Keypoints | None, occluders: NDArray[np.bool_]
) -> Keypoints | None:
    """Return keypoints of which those under pieces are not seen."""
    if keypoints is None:
        return None
    height, width = occluders.shape
    column, row = np.floor(np.nan_to_num(keypoints.points_xy, nan=-1.0)).astype(np.int64).T
    is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    is_under = is_inside & occluders[row.clip(0, height - 1), column.clip(0, width - 1)]
    return replace(
        keypoints,
        visibility=np.where(is_under.T & (keypoints.visibility == 1), 0.0, keypoints.visibility),
    )
