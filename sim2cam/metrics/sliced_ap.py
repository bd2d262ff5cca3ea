"""AP50 of objects by size and visible fraction."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate
from sim2cam.metrics.detection import (
    N_RESAMPLES,
    Detection,
    LabelledDataset,
    LabelledImage,
    LabelledObject,
    Predictions,
    average_defined,
    is_ignored,
    stack_boxes,
)
from sim2cam.metrics.matching import CategoryMatches, ImageMatches, match_boxes
from sim2cam.metrics.resampling import group_images
from sim2cam.metrics.slices import SIZE_EDGES_PX, VISIBILITY_EDGES

Range = tuple[float, float]
_NO_MATCHES = match_boxes(
    np.zeros((0, 4)), np.zeros(0), np.zeros((0, 4)), np.zeros(0, np.bool_), np.zeros(0, np.bool_)
)


def compute_sliced_ap50(
    dataset: LabelledDataset, predictions: Predictions, rng: np.random.Generator
) -> dict[str, dict[str, Estimate]]:
    """Return AP50 by object size and by visible fraction, for attributes with several values.

    As for COCO's area ranges, objects outside a range are ignored. Unmatched detections count in
    the range of their size, and in every range of the visible fraction, as they have none.
    """
    measures: dict[str, tuple[Sequence[float], Callable[[LabelledObject], float | None]]] = {
        "size, px": (SIZE_EDGES_PX, _measure_size),
        "visible fraction": (VISIBILITY_EDGES, lambda label: label.visible_fraction),
    }
    units = group_images(dataset.samples)
    counts = np.ones((1, units.n_images), np.int64)
    counts = np.concatenate([counts, units.sample_image_counts(N_RESAMPLES, rng)])
    sliced: dict[str, dict[str, Estimate]] = {}
    for attribute, (edges, measure) in measures.items():
        estimates = {}
        for low, high in itertools.pairwise((-math.inf, *edges, math.inf)):
            values = average_defined(
                np.stack(
                    [
                        CategoryMatches(
                            [
                                _match_range(sample, predictions, category, measure, (low, high))
                                for sample in dataset.samples
                            ]
                        ).compute_average_precision(counts, [0])[:, 0]
                        for category in dataset.categories
                    ]
                )
            )
            if math.isfinite(values[0]):
                estimates[_name_range(low, high)] = bootstrap_estimate(float(values[0]), values[1:])
        if len(estimates) > 1:
            sliced[attribute] = estimates
    return sliced


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
