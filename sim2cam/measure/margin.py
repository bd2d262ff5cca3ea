"""How much looser than a detector people draw boxes, which is a matter of habit."""

from __future__ import annotations

import numpy as np

from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.measure.detection import LabelledImages, Predictions, boxes_of

SAME_OBJECT_IOU = 0.3  # boxes that are drawn by other habits overlap less
SURE = 0.3  # less sure detections do not say how boxes are drawn
MIN_PAIRS = 10
_USUAL = 0.05
"""Margin up to which boxes overlap by 0.83 or more, so that AP75 tells how well objects are found."""


def measured_margin(found: Predictions, dataset: LabelledImages) -> float | None:
    """Returns by which share of its side a found box must reach further, in the median, on each.

    It is None where fewer than ``MIN_PAIRS`` objects were found.
    """
    shares: list[float] = []
    for sample in dataset.samples:
        truth = boxes_of([o for o in sample.objects or () if not o.is_crowd])
        drawn = boxes_of([d for d in found[sample.name] if d.score >= SURE])
        if not len(truth) or not len(drawn):
            continue
        overlap = pairwise_iou(drawn, truth)
        best = overlap.argmax(axis=1)
        same = overlap.max(axis=1) >= SAME_OBJECT_IOU
        drawn_sides = (drawn[:, 2:] - drawn[:, :2])[same]
        true_sides = (truth[:, 2:] - truth[:, :2])[best[same]]
        shares.extend(((true_sides / drawn_sides - 1) / 2).ravel())
    return round(float(np.median(shares)), 3) if len(shares) >= 2 * MIN_PAIRS else None


def margin_warning(dataset: LabelledImages, found: Predictions) -> str | None:
    """Returns that boxes are drawn by another habit than those of the labels, in words; None where they are not."""
    margin = measured_margin(found, dataset)
    if margin is None or abs(margin) <= _USUAL:
        return None
    longer = 1 / (1 + 2 * margin) - 1
    return (
        f"sides of found boxes are {abs(longer):.0%} {'longer' if longer > 0 else 'shorter'} than those of the "
        "labels, in the median, from which AP and AP75 suffer. Where that is how people draw boxes, tune measures "
        "it on labelled captures."
    )
