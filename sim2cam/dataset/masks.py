"""Masks as compressed run lengths, in the form that COCO's own tools read and write."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from faster_coco_eval.core import mask as coco_mask
from numpy.typing import NDArray

from sim2cam.errors import UsageError


@dataclass(frozen=True)
class RunLengths:
    """A mask; as JSON it is what ``pycocotools.mask.decode`` takes.

    Attributes:
        size: height and width.
        counts: lengths of its runs, down the columns, as COCO compresses them.
    """

    size: tuple[int, int]
    counts: str

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> RunLengths:
        """Returns the run lengths of a mask (h, w)."""
        encoded = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
        height, width = mask.shape
        return cls((height, width), encoded["counts"].decode("ascii"))

    def mask(self) -> NDArray[np.bool_]:
        """Returns the mask (h, w).

        Raises:
            UsageError: the runs are broken or do not fill a mask of this size.
        """
        try:
            found = coco_mask.decode({"size": list(self.size), "counts": self.counts.encode()})
        except (ValueError, RuntimeError) as error:
            raise UsageError(f"run lengths that make no mask ({error})") from error
        return np.asarray(found > 0)
