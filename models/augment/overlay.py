"""Compositing of image layers with updated labels."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.models.training.images import AnnotatedImage, Keypoints, compute_hull


def composite(
    rgb: NDArray[np.uint8], overlay: NDArray[np.uint8], mask: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    """Return an image with an overlay where the mask is set, with slightly soft edges."""
    weight = cv2.blur(mask.astype(np.float32), (3, 3))
    return np.asarray(cv2.blendLinear(overlay, rgb, weight, 1 - weight), np.uint8)


def occlude(
    image: AnnotatedImage,
    instance_map: NDArray[np.uint16],
    occluders: NDArray[np.bool_],
    *,
    amodal: bool,
) -> AnnotatedImage:
    """Update the labels of an image for occluders in front of its objects.

    Args:
        instance_map: instance map before occlusion (h, w).
        occluders: mask of the occluders (h, w).
        amodal: whether boxes include hidden parts, so that occluders do not change them.
    """
    visible_map = np.where(occluders, np.uint16(0), instance_map)
    count = len(image.categories) + 1
    pixels_before, pixels_after = (
        np.bincount(m.ravel(), minlength=count)[1:] for m in (instance_map, visible_map)
    )
    outlines = list(image.outlines)
    for index in np.flatnonzero((pixels_after < pixels_before) & (pixels_after > 0) & (not amodal)):
        hull = compute_hull(visible_map == index + 1)
        assert hull is not None
        outlines[index] = hull
    return replace(
        image,
        instance_map=visible_map,
        outlines=tuple(outlines),
        visible_fractions=image.visible_fractions * pixels_after / np.maximum(pixels_before, 1),
        ignored=image.ignored | ((pixels_before > 0) & (pixels_after == 0)),
        keypoints=_occlude_keypoints(image.keypoints, occluders),
    )


def _occlude_keypoints(
    keypoints: Keypoints | None, occluders: NDArray[np.bool_]
) -> Keypoints | None:
    """Mark keypoints under occluders as hidden."""
    if keypoints is None:
        return None
    height, width = occluders.shape
    column, row = np.floor(np.nan_to_num(keypoints.points_xy, nan=-1.0)).astype(np.int64).T
    is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    is_occluded = is_inside & occluders[row.clip(0, height - 1), column.clip(0, width - 1)]
    return replace(
        keypoints,
        visibility=np.where(is_occluded.T & (keypoints.visibility == 1), 0.0, keypoints.visibility),
    )
