"""AP50 of objects by size and visible fraction."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate
from sim2cam.metrics.detection import (
    Detection,
    LabelledDataset,
    LabelledImage,
    LabelledObject,
    Predictions,
    average_defined,
    bootstrap_scores,
    is_ignored,
    stack_boxes,
)
from sim2cam.metrics.matching import IOU_THRESHOLDS, CategoryMatches, ImageMatches, match_boxes
from sim2cam.metrics.resampling import group_images
from sim2cam.metrics.slices import SIZE_EDGES_PX, VISIBILITY_EDGES

Range = tuple[float, float]
T = TypeVar("T")
_THRESHOLDS = IOU_THRESHOLDS[:1]
_NO_MATCHES = match_boxes(
    np.zeros((0, 4)), np.zeros(0), np.zeros((0, 4)), np.zeros(0, np.bool_), np.zeros(0, np.bool_),
    _THRESHOLDS,
)  # fmt: skip


class SlicedEvaluator:
    """Matched detections that can be scored by object size and by visible fraction.

    As for COCO's area ranges, objects outside a range are ignored. Unmatched detections count in
    the range of their size, and in every range of the visible fraction, as they have none.
    """

    def __init__(self, dataset: LabelledDataset, predictions: Predictions) -> None:
        self.units = group_images(dataset.samples)
        self._slices = {
            f"{attribute}/{_name_range(*limits)}": [
                CategoryMatches(
                    [
                        _match_range(sample, predictions, category, measure, limits)
                        for sample in dataset.samples
                    ]
                )
                for category in dataset.categories
            ]
            for attribute, (edges, measure) in _MEASURES.items()
            for limits in itertools.pairwise((-math.inf, *edges, math.inf))
        }

    def compute_scores(self, image_counts: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return AP50 (n_resamples,) by ``ATTRIBUTE/RANGE``; NaN if undefined."""
        return {
            name: average_defined(
                np.stack([c.compute_average_precision(image_counts, [0])[:, 0] for c in categories])
            )
            for name, categories in self._slices.items()
        }


def compute_sliced_ap50(
    dataset: LabelledDataset, predictions: Predictions, rng: np.random.Generator
) -> dict[str, dict[str, Estimate]]:
    """Return AP50 by object size and by visible fraction, for attributes with several values."""
    scores = bootstrap_scores([SlicedEvaluator(dataset, predictions)], rng=rng)
    return group_by_attribute(
        {
            name: bootstrap_estimate(float(values[0]), values[1:])
            for name, (values,) in scores.items()
            if math.isfinite(values[0])
        }
    )


def group_by_attribute(values: Mapping[str, T]) -> dict[str, dict[str, T]]:
    """Group values by ``ATTRIBUTE/VALUE`` and drop attributes with one value."""
    groups: dict[str, dict[str, T]] = {}
    for name, value in values.items():
        attribute, _, key = name.partition("/")
        groups.setdefault(attribute, {})[key] = value
    return {attribute: group for attribute, group in groups.items() if len(group) > 1}


def _match_range(
    sample: LabelledImage,
    predictions: Mapping[str, Sequence[Detection]],
    category: str,
    measure: Callable[[LabelledObject], float | None],
    limits: Range,
) -> ImageMatches:
    """Return the matches of one category in one image for objects of a range."""
    detections = [d for d in predictions[sample.name] if d.category == category]
    detections.sort(key=lambda d: -d.score)
    labels = [o for o in sample.objects or () if o.category == category]
    if not detections and not labels:
        return _NO_MATCHES
    is_outside = [not _is_within(measure(o), limits) for o in labels]
    ignored = [is_ignored(o) or out for o, out in zip(labels, is_outside, strict=True)]
    matches = match_boxes(
        stack_boxes(detections),
        np.array([d.score for d in detections], np.float64),
        stack_boxes(labels),
        np.array(ignored, np.bool_),
        np.array([o.is_crowd for o in labels], np.bool_),
        _THRESHOLDS,
    )
    if measure is _measure_size:
        is_within = np.array([_is_within(_measure_size(d), limits) for d in detections], np.bool_)
        is_within = is_within[: len(matches.scores)]
        matches.is_counted[:] &= matches.is_true_positive | is_within
    return matches


def _measure_size(item: LabelledObject | Detection) -> float:
    x0, y0, x1, y1 = item.box_xyxy
    return max(x1 - x0, y1 - y0)


def _is_within(value: float | None, limits: Range) -> bool:
    return value is not None and limits[0] <= value < limits[1]


def _name_range(low: float, high: float) -> str:
    if math.isinf(low):
        return f"below {high:g}"
    return f"{low:g} or more" if math.isinf(high) else f"{low:g} to {high:g}"


_MEASURES: dict[str, tuple[Sequence[float], Callable[[LabelledObject], float | None]]] = {
    "size, px": (SIZE_EDGES_PX, _measure_size),
    "visible fraction": (VISIBILITY_EDGES, lambda label: label.visible_fraction),
}
