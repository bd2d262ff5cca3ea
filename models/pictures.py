"""Decoded images with what crops need of their labels, kept in memory up to a budget."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.dataset.channels import read
from sim2cam.dataset.sample import ObjectLabel, Sample
from sim2cam.errors import InputError
from sim2cam.images import read_rgb

Floats = NDArray[np.float64]

PIXEL_CENTRE = 0.5
"""Where boxes have a place that lenses have at 0: theirs are from the pixel's corner."""


@dataclass(frozen=True)
class Picture:
    """One decoded image.

    Attributes:
        rgb: (height, width, 3) uint8.
        outlines: for every object, points whose bounding box is the object's box under any affine
            map, (k, 2), pixels: the hull of its mask, or else the corners of its box.
        categories: class indices (n,).
        ignored: objects that are groups (n,).
        visible: visible fractions, 1 where unknown (n,).
        turns_freely: every outline is a hull, so boxes stay tight at any angle.
        corners: of every object, the corners of its box in space after each turn that leaves it as it
            is (n, s, 8, 2), pixels as boxes have them, NaN where they are not known; None without
            poses.
    """

    rgb: NDArray[np.uint8]
    outlines: tuple[NDArray[np.float64], ...]
    categories: NDArray[np.int64]
    ignored: NDArray[np.bool_]
    visible: NDArray[np.float64]
    turns_freely: bool
    corners: Floats | None = None


def read_picture(
    sample: Sample, categories: Sequence[str], corners_m: Floats | None = None
) -> Picture:
    """Returns a labelled sample as crops need it.

    Args:
        sample: the sample.
        categories: names in the order of class indices.
        corners_m: of the object of every category, the corners of its box in its own frame after
            each turn that leaves it as it is (c, s, 8, 3); None without poses.

    Raises:
        InputError: an image cannot be read, or is not of the size that its labels are for.
    """
    objects = sample.objects or ()
    rgb = read_rgb(sample.rgb)
    if rgb.shape[:2] != (sample.height, sample.width):
        raise InputError(
            sample.rgb,
            f"{rgb.shape[1]}x{rgb.shape[0]} pixels, but its labels are for "
            f"{sample.width}x{sample.height}.",
        )
    ids = read("ids", sample.channels["ids"]) if "ids" in sample.channels else None
    hulls = [None if ids is None else _hull(label, ids) for label in objects]
    return Picture(
        rgb=rgb,
        outlines=tuple(
            _corners(label) if hull is None else hull
            for label, hull in zip(objects, hulls, strict=True)
        ),
        categories=np.array([categories.index(o.category) for o in objects], np.int64),
        ignored=np.array([o.is_crowd for o in objects], np.bool_),
        visible=np.array(
            [1.0 if o.visible_fraction is None else o.visible_fraction for o in objects], np.float64
        ),
        turns_freely=ids is not None and all(hull is not None for hull in hulls),
        corners=None if corners_m is None else _corners_in_space(sample, categories, corners_m),
    )


class PictureStore:
    """Pictures by part and number, decoded once as long as the budget lasts; safe with threads.

    Args:
        parts: the samples of each part.
        categories: names in the order of class indices.
        budget_bytes: decoded images beyond this are decoded at every use.
        corners_m: as ``read_picture`` takes them.
    """

    def __init__(
        self,
        parts: Sequence[Sequence[Sample]],
        categories: Sequence[str],
        budget_bytes: int,
        corners_m: Floats | None = None,
    ) -> None:
        self._parts = parts
        self._categories = categories
        self._left = budget_bytes
        self._corners_m = corners_m
        self._kept: dict[tuple[int, int], Picture] = {}
        self._lock = threading.Lock()

    def get(self, part: int, number: int) -> Picture:
        """Returns a picture.

        Raises:
            InputError: its files cannot be read.
        """
        key = (part, number)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        picture = read_picture(self._parts[part][number], self._categories, self._corners_m)
        size = picture.rgb.nbytes + (0 if picture.corners is None else picture.corners.nbytes)
        with self._lock:
            if key not in self._kept and size <= self._left:
                self._left -= size
                self._kept[key] = picture
        return picture


def _corners(label: ObjectLabel) -> NDArray[np.float64]:
    x0, y0, x1, y1 = label.box_xyxy
    return np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]], np.float64)


def _corners_in_space(sample: Sample, categories: Sequence[str], corners_m: Floats) -> Floats:
    """Returns the ``corners`` of a picture; those of objects that the lens does not see whole are NaN.

    A rolling shutter bends nothing here: poses are those of the middle row, and so are these.
    """
    objects = sample.objects or ()
    found = np.full((len(objects), *corners_m.shape[1:3], 2), np.nan)
    for row, label in zip(found, objects, strict=True):
        if label.pose is None or sample.lens is None:
            continue
        points = label.pose.apply(corners_m[categories.index(label.category)].reshape(-1, 3))
        if sample.lens.sees(points).all():
            row[...] = sample.lens.project(points).reshape(row.shape) + PIXEL_CENTRE
    return found


def _hull(label: ObjectLabel, ids: NDArray[np.uint16]) -> NDArray[np.float64] | None:
    """Returns the hull of the pixel squares that show the object; None when there are none."""
    x0, y0 = (max(int(np.floor(v)), 0) for v in label.box_xyxy[:2])
    x1, y1 = (int(np.ceil(v)) for v in label.box_xyxy[2:])
    if label.instance_id is None:
        return None
    rows, columns = np.nonzero(ids[y0:y1, x0:x1] == label.instance_id)
    if not len(rows):
        return None
    corner = np.stack([columns + x0, rows + y0], axis=1)
    squares = np.concatenate([corner + offset for offset in ((0, 0), (1, 0), (0, 1), (1, 1))])
    return np.asarray(cv2.convexHull(squares.astype(np.int32)), np.float64).reshape(-1, 2)
