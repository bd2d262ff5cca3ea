"""How large the objects were that a detector was trained on, and whether others are as large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2cam.geometry.boxes import Box
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import Parts

SHARES = (0.05, 0.95)
"""Of the objects trained on, at which the range of sizes begins and ends."""

MOST_SMALLER = 0.25
"""Share of the objects below that range at which there is a warning: 0.05 are where all is alike."""

_SCALES = 21  # of crops, evenly over the logarithm


@dataclass(frozen=True)
class SizeFit:
    """Sizes of objects beside those trained on.

    Attributes:
        objects: how many there are.
        smaller, larger: shares of them below and above ``trained_px``. Larger ones are looked at again at
            smaller magnifications (``pyramid``), so there is no harm in them.
        trained_px: longer sides of boxes at the network's scale, from the 5 % smallest to the 5 %
            largest that were seen whole.
    """

    objects: int
    smaller: float
    larger: float
    trained_px: tuple[float, float]

    @property
    def warning(self) -> str | None:
        """What is wrong, and what to do; None where nothing is."""
        if self.smaller <= MOST_SMALLER:
            return None
        low, high = self.trained_px
        return (
            f"{self.smaller:.0%} of {self.objects} objects are smaller than those trained on, nine "
            f"tenths of which have longer sides of {low:.0f} to {high:.0f} px as the network sees them. "
            "Let labelled captures choose the magnification (tune), or train on objects of such "
            "sizes."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the shares, the range and the number of objects as JSON values."""
        return {
            "objects": self.objects,
            "smaller": self.smaller,
            "larger": self.larger,
            "trained_px": list(self.trained_px),
        }


def trained_sizes(parts: Parts, config: TrainConfig) -> tuple[float, float] | None:
    """Returns the range of longer sides of boxes in crops, pixels, that ``SHARES`` of them lie below.

    Each counts by the share of places along its longer side in which a crop that shows its middle shows all of
    it: of what is nearly always cut, a detector learns the sizes of pieces. None where no object fits.

    Args:
        parts: labelled data sets with their weights.
        config: how crops are scaled, and what is too hidden to be learned.
    """
    sides: list[float] = []
    weights: list[float] = []
    for dataset, weight in parts:
        boxes = [
            label.box_xyxy
            for sample in dataset.samples
            for label in sample.objects or ()
            if not label.is_crowd
            and (label.visible_fraction is None or label.visible_fraction >= config.min_visible)
        ]
        sides += map(longer_side, boxes)
        weights += [weight / len(dataset.samples)] * len(boxes)
    if not sides:
        return None
    scales = np.geomspace(*config.scale_range, _SCALES)
    drawn = np.outer(sides, scales).ravel()
    order = np.argsort(drawn, kind="stable")
    whole = (1 - drawn / config.crop_px).clip(0)
    below = np.cumsum((np.repeat(weights, _SCALES) * whole)[order])
    if not below[-1]:
        return None
    low, high = (drawn[order[np.searchsorted(below, s * below[-1])]] for s in SHARES)
    return round(float(low), 1), round(float(high), 1)


def size_fit(sides_px: Sequence[float], trained_px: tuple[float, float] | None) -> SizeFit | None:
    """Returns how objects of these longer sides lie to those trained on; None where either is unknown.

    Args:
        sides_px: at the network's scale.
        trained_px: as ``trained_sizes`` returns it.
    """
    if trained_px is None or not sides_px:
        return None
    sides = np.array(sides_px)
    smaller, larger = (sides < trained_px[0]).mean(), (sides > trained_px[1]).mean()
    return SizeFit(len(sides), float(smaller), float(larger), trained_px)


def longer_side(box_xyxy: Box) -> float:
    """Returns the longer side of a box."""
    x0, y0, x1, y1 = box_xyxy
    return max(x1 - x0, y1 - y0)
