"""Object sizes in training data, and comparison with other images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim2cam.data.sample import ObjectLabel
from sim2cam.geometry.boxes import Box
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets

RANGE_QUANTILES = (0.05, 0.95)
"""Quantiles of the training objects that bound the size range."""

_SCALE_SAMPLES = 21  # crop scales, log-uniform


@dataclass(frozen=True)
class SizeComparison:
    """Comparison of object sizes with those in the training data.

    Attributes:
        objects: number of objects.
        smaller_share, larger_share: shares below and above ``trained_sizes_px``. Larger objects do no harm, since the
            image pyramid covers them (``build_pyramid``).
        trained_sizes_px: 5th and 95th percentile of the longer box sides in training, in pixels at the network's
            scale.
    """

    objects: int
    smaller_share: float
    larger_share: float
    trained_sizes_px: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return asdict(self) | {"trained_sizes_px": list(self.trained_sizes_px)}


def select_learned(labels: Iterable[ObjectLabel], config: TrainConfig) -> list[ObjectLabel]:
    """Return the objects that a training learns: no crowds, and visible enough."""
    return [
        label
        for label in labels
        if not label.is_crowd
        and (label.visible_fraction is None or label.visible_fraction >= config.min_visible)
    ]


def compute_box_size_range(
    datasets: WeightedDatasets, config: TrainConfig
) -> tuple[float, float] | None:
    """Return the longer box sides in training crops at ``RANGE_QUANTILES``; see ``compute_side_quantiles``."""
    sides = compute_side_quantiles(datasets, config, RANGE_QUANTILES)
    return None if sides is None else (round(sides[0], 1), round(sides[1], 1))


def compute_side_quantiles(
    datasets: WeightedDatasets, config: TrainConfig, probabilities: Sequence[float]
) -> list[float] | None:
    """Return quantiles of the longer box sides in training crops, in pixels; None without objects.

    Each object is weighted by the probability that a crop with its centre contains its full longer side, since a
    detector learns the size of the parts of truncated objects.

    Args:
        config: crop scales and smallest visible fraction.
    """
    sides: list[float] = []
    weights: list[float] = []
    for dataset, weight in datasets:
        boxes = [
            label.box_xyxy
            for sample in dataset.samples
            for label in select_learned(sample.objects or (), config)
        ]
        sides += map(compute_longer_side, boxes)
        weights += [weight / len(dataset.samples)] * len(boxes)
    if not sides:
        return None
    scales = np.geomspace(*config.scale_range, _SCALE_SAMPLES)
    scaled_sides = np.outer(sides, scales).ravel()
    order = np.argsort(scaled_sides, kind="stable")
    full_probability = (1 - scaled_sides / config.crop_px).clip(0)
    cumulative = np.cumsum((np.repeat(weights, _SCALE_SAMPLES) * full_probability)[order])
    if not cumulative[-1]:
        return None
    return [
        float(scaled_sides[order[np.searchsorted(cumulative, probability * cumulative[-1])]])
        for probability in probabilities
    ]


def compare_sizes(
    sides_px: Sequence[float], trained_sizes_px: tuple[float, float] | None
) -> SizeComparison | None:
    """Compare object sizes with those in the training data; return None if either is unknown.

    Args:
        sides_px: longer box sides in pixels at the network's scale.
        trained_sizes_px: range from ``compute_box_size_range``.
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
