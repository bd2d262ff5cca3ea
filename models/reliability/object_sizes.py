"""How large the objects were that a detector was trained on, and whether others are as large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2cam.geometry.boxes import Box
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets

RANGE_QUANTILES = (0.05, 0.95)
"""Of the objects trained on, at which the range of sizes begins and ends."""

MAX_SMALLER_SHARE = 0.25
"""Share of the objects below that range at which there is a warning: 0.05 are where all is alike."""

_SCALE_SAMPLES = 21  # of crops, evenly over the logarithm


@dataclass(frozen=True)
class SizeComparison:
    """Sizes of objects beside those trained on.

    Attributes:
        objects: how many there are.
        smaller_share, larger_share: shares of them below and above ``trained_sizes_px``. Larger ones are looked at again at
            smaller magnifications (``pyramid``), so there is no harm in them.
        trained_sizes_px: longer sides of boxes at the network's scale, from the 5 % smallest to the 5 %
            largest that were seen whole.
    """

    objects: int
    smaller_share: float
    larger_share: float
    trained_sizes_px: tuple[float, float]

    @property
    def warning(self) -> str | None:
        """What is wrong, and what to do; None where nothing is."""
        if self.smaller_share <= MAX_SMALLER_SHARE:
            return None
        low, high = self.trained_sizes_px
        return (
            f"{self.smaller_share:.0%} of {self.objects} objects are smaller than those trained on, nine "
            f"tenths of which have longer sides of {low:.0f} to {high:.0f} px as the network sees them. "
            "Let labelled captures choose the magnification (tune), or train on objects of such "
            "sizes."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the shares, the range and the number of objects as JSON values."""
        return {
            "objects": self.objects,
            "smaller_share": self.smaller_share,
            "larger_share": self.larger_share,
            "trained_sizes_px": list(self.trained_sizes_px),
        }


def compute_box_size_range(
    datasets: WeightedDatasets, config: TrainConfig
) -> tuple[float, float] | None:
    """Return the range of longer sides of boxes in crops, pixels, that ``RANGE_QUANTILES`` of them lie below.

    Each counts by the share of places along its longer side in which a crop that shows its middle shows all of
    it: of what is nearly always cut, a detector learns the sizes of pieces. None where no object fits.

    Args:
        datasets: labelled data sets with their weights.
        config: how crops are scaled, and what is too hidden to be learned.
    """
    sides: list[float] = []
    weights: list[float] = []
    for dataset, weight in datasets:
        boxes = [
            label.box_xyxy
            for sample in dataset.samples
            for label in sample.objects or ()
            if not label.is_crowd
            and (label.visible_fraction is None or label.visible_fraction >= config.min_visible)
        ]
        sides += map(compute_longer_side, boxes)
        weights += [weight / len(dataset.samples)] * len(boxes)
    if not sides:
        return None
    scales = np.geomspace(*config.scale_range, _SCALE_SAMPLES)
    drawn = np.outer(sides, scales).ravel()
    order = np.argsort(drawn, kind="stable")
    whole = (1 - drawn / config.crop_px).clip(0)
    below = np.cumsum((np.repeat(weights, _SCALE_SAMPLES) * whole)[order])
    if not below[-1]:
        return None
    low, high = (drawn[order[np.searchsorted(below, s * below[-1])]] for s in RANGE_QUANTILES)
    return round(float(low), 1), round(float(high), 1)


def compare_sizes(
    sides_px: Sequence[float], trained_sizes_px: tuple[float, float] | None
) -> SizeComparison | None:
    """Return how objects of these longer sides lie to those trained on; None where either is unknown.

    Args:
        sides_px: at the network's scale.
        trained_sizes_px: as ``compute_box_size_range`` returns it.
    """
    if trained_sizes_px is None or not sides_px:
        return None
    sides = np.array(sides_px)
    smaller, larger = (sides < trained_sizes_px[0]).mean(), (sides > trained_sizes_px[1]).mean()
    return SizeComparison(len(sides), float(smaller), float(larger), trained_sizes_px)


def compute_longer_side(box_xyxy: Box) -> float:
    """Return the longer side of a box."""
    x0, y0, x1, y1 = box_xyxy
    return max(x1 - x0, y1 - y0)
