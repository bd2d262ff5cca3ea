"""Box expansion: how much larger labelled boxes are than detected boxes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sim2cam.geometry.boxes import expand_boxes, pairwise_iou
from sim2cam.metrics.detection import DetectionEvaluator, LabelledDataset, Predictions, stack_boxes

SAME_OBJECT_IOU = 0.3  # low, as labelling styles differ
MIN_SCORE = 0.3  # boxes of less confident detections are too noisy
MIN_PAIRS = 10
_USUAL_EXPANSION = 0.05
"""Expansion up to which boxes overlap by 0.83 or more, so that it does not lower AP75."""
_MIN_USEFUL_AP50 = 0.5
"""AP50 after expansion from which tuning is worthwhile; below it, other errors prevail."""


def estimate_box_expansion(predictions: Predictions, dataset: LabelledDataset) -> float | None:
    """Return the median expansion of detected boxes per side, as a fraction of the side.

    None with fewer than ``MIN_PAIRS`` matched objects.
    """
    expansions: list[float] = []
    for sample in dataset.samples:
        labelled = stack_boxes([o for o in sample.objects or () if not o.is_crowd])
        detected = stack_boxes([d for d in predictions[sample.name] if d.score >= MIN_SCORE])
        if not len(labelled) or not len(detected):
            continue
        overlap = pairwise_iou(detected, labelled)
        best_matches = overlap.argmax(axis=1)
        is_matched = overlap.max(axis=1) >= SAME_OBJECT_IOU
        detected_sides = (detected[:, 2:] - detected[:, :2])[is_matched]
        labelled_sides = (labelled[:, 2:] - labelled[:, :2])[best_matches[is_matched]]
        expansions.extend(((labelled_sides / detected_sides - 1) / 2).ravel())
    return round(float(np.median(expansions)), 3) if len(expansions) >= 2 * MIN_PAIRS else None


def expand_predictions(
    predictions: Predictions, dataset: LabelledDataset, expansion: float
) -> Predictions:
    """Return detections with boxes expanded on each side by a fraction of it, clipped to the image."""
    expanded = {}
    for sample in dataset.samples:
        size = (sample.width, sample.height)
        boxes = (
            expand_boxes(stack_boxes(predictions[sample.name]), expansion)
            .clip(0, (*size, *size))
            .tolist()
        )
        expanded[sample.name] = tuple(
            replace(detection, box_xyxy=tuple(box))
            for detection, box in zip(predictions[sample.name], boxes, strict=True)
        )
    return expanded


@dataclass(frozen=True)
class BoxExpansion:
    """Detected boxes that are larger or smaller than labelled ones.

    Attributes:
        excess: how much longer the sides of detected boxes are than the labelled ones, as a fraction.
        ap50_before, ap50_after: AP50 as detected, and with boxes of the labelled size.
    """

    excess: float
    ap50_before: float
    ap50_after: float

    @property
    def is_useful(self) -> bool:
        """Whether tuning the boxes is worthwhile."""
        return self.ap50_after >= _MIN_USEFUL_AP50

    @property
    def warning(self) -> str:
        """Warning with AP50 after expansion and whether tuning helps."""
        advice = "Other errors prevail, so tuning would not help."
        if self.is_useful:
            advice = "If the labelling style is intended, run sim2cam tune on labelled images."
        return (
            f"the sides of detected boxes are {abs(self.excess):.0%} {'longer' if self.excess > 0 else 'shorter'} than the "
            f"labelled ones (median). With equal sides, AP50 is {self.ap50_after:.2f} instead of {self.ap50_before:.2f}. {advice}"
        )


def compare_box_sizes(dataset: LabelledDataset, predictions: Predictions) -> BoxExpansion | None:
    """Return how much detected boxes are larger or smaller than labelled ones; None if they fit."""
    expansion = estimate_box_expansion(predictions, dataset)
    if expansion is None or abs(expansion) <= _USUAL_EXPANSION:
        return None
    before, after = (
        _compute_ap50(dataset, boxes)
        for boxes in (predictions, expand_predictions(predictions, dataset, expansion))
    )
    return BoxExpansion(1 / (1 + 2 * expansion) - 1, before, after)


def _compute_ap50(dataset: LabelledDataset, predictions: Predictions) -> float:
    image_counts = np.ones((1, len(dataset.samples)), np.int64)
    return float(DetectionEvaluator(dataset, predictions).compute_scores(image_counts)["ap50"][0])
