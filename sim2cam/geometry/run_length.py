"""Masks as compressed run lengths, in COCO's format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from faster_coco_eval.core import mask as coco_mask
from numpy.typing import NDArray

from sim2cam.errors import UsageError
from sim2cam.geometry.boxes import Box

_MAX_DIGITS = 7  # of five bits; enough for all image sizes


@dataclass(frozen=True)
class RleMask:
    """A run-length encoded mask; its JSON form is valid for ``pycocotools.mask.decode``.

    Attributes:
        size: Height and width.
        counts: Column-major run lengths, compressed as in COCO.
    """

    size: tuple[int, int]
    counts: str

    @classmethod
    def from_mask(cls, mask: NDArray[np.bool_]) -> RleMask:
        """Encode a mask (h, w)."""
        encoded = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
        height, width = mask.shape
        return cls((height, width), encoded["counts"].decode("ascii"))

    @classmethod
    def from_runs(cls, runs: Sequence[int], size: tuple[int, int]) -> RleMask:
        """Encode uncompressed runs: outside, inside, outside, ..."""
        counts: bytes = coco_mask.frPyObjects({"size": size, "counts": runs}, *size)["counts"]
        return cls(size, counts.decode("ascii"))

    @classmethod
    def from_polygons(cls, polygons: Sequence[Sequence[float]], size: tuple[int, int]) -> RleMask:
        """Encode the union of polygons.

        Args:
            polygons: x, y, x, y, ... of at least three vertices each; pixel *i* covers [i, i + 1).
            size: Height and width.
        """
        counts: bytes = coco_mask.merge(coco_mask.frPyObjects(polygons, *size))["counts"]
        return cls(size, counts.decode("ascii"))

    def compute_area_px(self) -> int:
        """Return the number of mask pixels without decoding."""
        return int(coco_mask.area(self.to_coco()))

    def is_valid(self) -> bool:
        """Return whether the runs fill a mask of this size, without decoding."""
        digits = np.frombuffer(self.counts.encode(), np.uint8).astype(np.int64) - ord("0")
        ends = np.flatnonzero(digits & 32 == 0)
        if not len(ends) or ends[-1] != len(digits) - 1 or digits.min() < 0 or digits.max() > 63:
            return False
        starts = np.concatenate([[0], ends[:-1] + 1])
        digit_indices = np.arange(len(digits)) - np.repeat(starts, ends - starts + 1)
        if digit_indices.max() > _MAX_DIGITS:
            return False
        runs = np.add.reduceat((digits & 31) << 5 * digit_indices, starts)
        runs -= (digits[ends] & 16 > 0) * (32 << 5 * digit_indices[ends])
        # From the fourth on, runs are stored as differences to the one before the last.
        for first in (1, 2):
            runs[first::2] = np.cumsum(runs[first::2])
        height, width = self.size
        return bool((runs >= 0).all() and runs.sum() == height * width)

    def to_coco(self) -> dict[str, Any]:
        """Return the mask in the form of COCO's mask functions."""
        return {"size": list(self.size), "counts": self.counts.encode()}

    @classmethod
    def from_box(cls, box_xyxy: Box, size: tuple[int, int]) -> RleMask:
        """Encode the pixels inside a box."""
        x0, y0, x1, y1 = box_xyxy
        return cls.from_polygons([[x0, y0, x1, y0, x1, y1, x0, y1]], size)

    def decode(self) -> NDArray[np.bool_]:
        """Return the mask (h, w).

        Raises:
            UsageError: If the runs are broken or do not fill a mask of this size.
        """
        try:
            mask = coco_mask.decode(self.to_coco())
        except (ValueError, RuntimeError) as error:
            raise UsageError(f"invalid run lengths ({error})") from error
        return np.asarray(mask > 0)


def compute_mask_iou(
    detected: Sequence[RleMask], ground_truth: Sequence[RleMask], crowd: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the IoU (n, m) of masks of one image; for crowds the fraction of the detected mask inside.

    Args:
        detected: n masks.
        ground_truth: m masks.
        crowd: (m,) whether a ground truth mask is a crowd.
    """
    if not detected or not ground_truth:
        return np.zeros((len(detected), len(ground_truth)))
    encoded = ([mask.to_coco() for mask in masks] for masks in (detected, ground_truth))
    return np.asarray(coco_mask.iou(*encoded, crowd.astype(int).tolist()), np.float64)
