"""Masks as compressed run lengths, in the form that COCO's own tools read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from faster_coco_eval.core import mask as coco_mask
from numpy.typing import NDArray

from sim2cam.errors import UsageError
from sim2cam.geometry.boxes import Box

_MAX_DIGITS = 7  # of five bits each: more pixels than any image has


@dataclass(frozen=True)
class RleMask:
    """A mask; as JSON it is what ``pycocotools.mask.decode`` takes.

    Attributes:
        size: height and width.
        counts: lengths of its runs, down the columns, as COCO compresses them.
    """

    size: tuple[int, int]
    counts: str

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_]) -> RleMask:
        """Return the run lengths of a mask (h, w)."""
        encoded = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
        height, width = mask.shape
        return cls((height, width), encoded["counts"].decode("ascii"))

    @classmethod
    def from_runs(cls, runs: Sequence[int], size: tuple[int, int]) -> RleMask:
        """Return those of runs that are not compressed: outside, inside, outside, ..."""
        counts: bytes = coco_mask.frPyObjects({"size": size, "counts": runs}, *size)["counts"]
        return cls(size, counts.decode("ascii"))

    @classmethod
    def from_polygons(cls, polygons: Sequence[Sequence[float]], size: tuple[int, int]) -> RleMask:
        """Return those of the pixels inside any of some polygons.

        Args:
            polygons: x, y, x, y, ... of three corners or more each, pixel *i* being [i, i + 1).
            size: height and width.
        """
        counts: bytes = coco_mask.merge(coco_mask.frPyObjects(polygons, *size))["counts"]
        return cls(size, counts.decode("ascii"))

    def compute_area_px(self) -> int:
        """Return how many pixels it has, without unpacking it."""
        return int(coco_mask.area(self.to_coco()))

    def is_valid(self) -> bool:
        """Return whether the runs fill a mask of this size, without unpacking it."""
        steps = np.frombuffer(self.counts.encode(), np.uint8).astype(np.int64) - ord("0")
        ends = np.flatnonzero(steps & 32 == 0)
        if not len(ends) or ends[-1] != len(steps) - 1 or steps.min() < 0 or steps.max() > 63:
            return False
        starts = np.concatenate([[0], ends[:-1] + 1])
        places = np.arange(len(steps)) - np.repeat(starts, ends - starts + 1)
        if places.max() > _MAX_DIGITS:
            return False
        runs = np.add.reduceat((steps & 31) << 5 * places, starts)
        runs -= (steps[ends] & 16 > 0) * (32 << 5 * places[ends])
        for first in (
            1,
            2,
        ):  # from the fourth on, each is stored as its difference to the last but one
            runs[first::2] = np.cumsum(runs[first::2])
        height, width = self.size
        return bool((runs >= 0).all() and runs.sum() == height * width)

    def to_coco(self) -> dict[str, Any]:
        """Return what the mask functions of COCO tools take."""
        return {"size": list(self.size), "counts": self.counts.encode()}

    @classmethod
    def from_box(cls, box_xyxy: Box, size: tuple[int, int]) -> RleMask:
        """Return those of the pixels inside a box."""
        x0, y0, x1, y1 = box_xyxy
        return cls.from_polygons([[x0, y0, x1, y0, x1, y1, x0, y1]], size)

    def decode(self) -> NDArray[np.bool_]:
        """Return the mask (h, w).

        Raises:
            UsageError: the runs are broken or do not fill a mask of this size.
        """
        try:
            found = coco_mask.decode(self.to_coco())
        except (ValueError, RuntimeError) as error:
            raise UsageError(f"run lengths that make no mask ({error})") from error
        return np.asarray(found > 0)


def compute_mask_iou(
    detected: Sequence[RleMask], ground_truth: Sequence[RleMask], crowd: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the IoU (n, m) of masks of one picture; for groups the share of the found one inside.

    Args:
        detected: n masks.
        ground_truth: m masks.
        crowd: which of them are groups (m,).
    """
    if not detected or not ground_truth:
        return np.zeros((len(detected), len(ground_truth)))
    encoded = ([one.to_coco() for one in masks] for masks in (detected, ground_truth))
    return np.asarray(coco_mask.iou(*encoded, crowd.astype(int).tolist()), np.float64)
