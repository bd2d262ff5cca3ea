"""Laying one thing before another in a picture, so that its labels know of it."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.models.training.images import Keypoints, Picture, hull_of


def laid(
    rgb: NDArray[np.uint8], other: NDArray[np.uint8], where: NDArray[np.bool_]
) -> NDArray[np.uint8]:
    """Returns an image with another one where that is to be seen, with edges as soft as a lens makes them."""
    weight = cv2.blur(where.astype(np.float32), (3, 3))
    return np.asarray(cv2.blendLinear(other, rgb, weight, 1 - weight), np.uint8)


def hidden(
    picture: Picture, owners: NDArray[np.uint16], pieces: NDArray[np.bool_], *, amodal: bool
) -> Picture:
    """Returns a picture whose labels know what pieces hide.

    Args:
        picture: whose labels do not know of them.
        owners: its own (h, w).
        pieces: where they lie (h, w).
        amodal: whether boxes are of whole objects, and stay as they are.
    """
    left = np.where(pieces, np.uint16(0), owners)
    count = len(picture.categories) + 1
    before, after = (np.bincount(o.ravel(), minlength=count)[1:] for o in (owners, left))
    outlines = list(picture.outlines)
    for index in np.flatnonzero((after < before) & (after > 0) & (not amodal)):
        hull = hull_of(left == index + 1)
        assert hull is not None
        outlines[index] = hull
    return replace(
        picture,
        owners=left,
        outlines=tuple(outlines),
        visible=picture.visible * after / np.maximum(before, 1),
        ignored=picture.ignored | ((before > 0) & (after == 0)),
        keypoints=_hidden_keypoints(picture.keypoints, pieces),
    )


def _hidden_keypoints(keypoints: Keypoints | None, pieces: NDArray[np.bool_]) -> Keypoints | None:
    """Returns keypoints of which those under pieces are not seen."""
    if keypoints is None:
        return None
    height, width = pieces.shape
    column, row = np.floor(np.nan_to_num(keypoints.places, nan=-1.0)).astype(np.int64).T
    is_inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
    is_under = is_inside & pieces[row.clip(0, height - 1), column.clip(0, width - 1)]
    return replace(
        keypoints, seen=np.where(is_under.T & (keypoints.seen == 1), 0.0, keypoints.seen)
    )
