"""How much looser than a detector people draw boxes, which is a matter of habit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sim2cam.geometry.boxes import expand_boxes, pairwise_iou
from sim2cam.metrics.detection import DetectionEvaluator, LabelledDataset, Predictions, stack_boxes

SAME_OBJECT_IOU = 0.3  # boxes that are drawn by other habits overlap less
MIN_SCORE = 0.3  # less sure detections do not say how boxes are drawn
MIN_PAIRS = 10
_USUAL_EXPANSION = 0.05
"""Margin up to which boxes overlap by 0.83 or more, so that AP75 tells how well objects are found."""
_MIN_USEFUL_AP50 = 0.5
"""AP50 with a margin from which on it is worth to tune it: other errors prevail below."""


def estimate_box_expansion(predictions: Predictions, dataset: LabelledDataset) -> float | None:
    """Return by which share of its side a found box must reach further, in the median, on each.

    It is None where fewer than ``MIN_PAIRS`` objects were found.
    """
    shares: list[float] = []
    for sample in dataset.samples:
        truth = stack_boxes([o for o in sample.objects or () if not o.is_crowd])
        drawn = stack_boxes([d for d in predictions[sample.name] if d.score >= MIN_SCORE])
        if not len(truth) or not len(drawn):
            continue
        overlap = pairwise_iou(drawn, truth)
        best = overlap.argmax(axis=1)
        same = overlap.max(axis=1) >= SAME_OBJECT_IOU
        drawn_sides = (drawn[:, 2:] - drawn[:, :2])[same]
        true_sides = (truth[:, 2:] - truth[:, :2])[best[same]]
        shares.extend(((true_sides / drawn_sides - 1) / 2).ravel())
    return round(float(np.median(shares)), 3) if len(shares) >= 2 * MIN_PAIRS else None


def expand_predictions(
    predictions: Predictions, dataset: LabelledDataset, expansion: float
) -> Predictions:
    """Return detections whose boxes reach further on each side, by a share of it, within their images."""
    wide = {}
    for sample in dataset.samples:
        size = (sample.width, sample.height)
        boxes = (
            expand_boxes(stack_boxes(predictions[sample.name]), expansion)
            .clip(0, (*size, *size))
            .tolist()
        )
        wide[sample.name] = tuple(
            replace(one, box_xyxy=tuple(box))
            for one, box in zip(predictions[sample.name], boxes, strict=True)
        )
    return wide


def find_expansion_warning(dataset: LabelledDataset, predictions: Predictions) -> str | None:
    """Return a warning that boxes are larger or smaller than those of the labels, and whether tuning would help;
    None where they are not.
    """
    margin = estimate_box_expansion(predictions, dataset)
    if margin is None or abs(margin) <= _USUAL_EXPANSION:
        return None
    longer = 1 / (1 + 2 * margin) - 1
    before, after = (
        _compute_ap50(dataset, one)
        for one in (predictions, expand_predictions(predictions, dataset, margin))
    )
    advice = "Other errors prevail: tune would not help."
    if after >= _MIN_USEFUL_AP50:
        advice = "If people draw boxes so, sim2cam tune measures it on labelled images."
    return (
        f"sides of found boxes are {abs(longer):.0%} {'longer' if longer > 0 else 'shorter'} than those of the "
        f"labels, in the median. With sides as long, AP50 would be {after:.2f} instead of {before:.2f}. {advice}"
    )


def _compute_ap50(dataset: LabelledDataset, predictions: Predictions) -> float:
    every_image_once = np.ones((1, len(dataset.samples)), np.int64)
    return float(
        DetectionEvaluator(dataset, predictions).compute_scores(every_image_once)["ap50"][0]
    )
