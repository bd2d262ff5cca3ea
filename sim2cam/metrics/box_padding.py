"""Box padding: how many pixels people leave between an object and the box that they draw around it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import pad_boxes, pairwise_iou
from sim2cam.metrics.detection import (
    DetectionEvaluator,
    LabelledDataset,
    LabelledImage,
    Predictions,
    stack_boxes,
)

SAME_OBJECT_IOU = 0.3  # low, as labelling styles differ
MIN_SCORE = 0.3  # boxes of less confident detections are too noisy
MIN_PAIRS = 10
DIGITS = 5
"""Decimals of a padding: a twentieth of a pixel in an image of 4000 pixels."""
_USUAL_EXCESS = 0.1
"""Difference in length up to which boxes overlap by 0.81 or more, so that it does not lower AP75."""
_MIN_USEFUL_AP50 = 0.5
"""AP50 after padding from which tuning is worthwhile; below it, other errors prevail."""


def estimate_box_padding(predictions: Predictions, dataset: LabelledDataset) -> float | None:
    """Return the median padding of labelled boxes around detected ones, as a fraction of the image's longer side.

    People leave about as many pixels around small objects as around large ones, and beside the short sides of an
    object as beside the long ones.

    Returns:
        Padding on each side; None with fewer than ``MIN_PAIRS`` matched objects.
    """
    paddings: list[float] = []
    for sample in dataset.samples:
        detected, labelled = _match_sides(predictions, sample)
        paddings.extend(((labelled - detected) / 2 / max(sample.width, sample.height)).ravel())
    return round(float(np.median(paddings)), DIGITS) if len(paddings) >= 2 * MIN_PAIRS else None


def pad_predictions(
    predictions: Predictions, dataset: LabelledDataset, padding: float
) -> Predictions:
    """Return detections with boxes padded by a fraction of the image's longer side, clipped to the image."""
    padded = {}
    for sample in dataset.samples:
        size = (sample.width, sample.height)
        boxes = pad_boxes(stack_boxes(predictions[sample.name]), padding * max(size))
        padded[sample.name] = tuple(
            replace(detection, box_xyxy=tuple(box))
            for detection, box in zip(
                predictions[sample.name], boxes.clip(0, (*size, *size)).tolist(), strict=True
            )
        )
    return padded


def _match_sides(
    predictions: Predictions, sample: LabelledImage
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return width and height (n, 2) of confident detected boxes, and of the labelled boxes they match."""
    labelled = stack_boxes([o for o in sample.objects or () if not o.is_crowd])
    detected = stack_boxes([d for d in predictions[sample.name] if d.score >= MIN_SCORE])
    if not len(labelled) or not len(detected):
        return np.empty((0, 2)), np.empty((0, 2))
    overlap = pairwise_iou(detected, labelled)
    best_matches = overlap.argmax(axis=1)
    is_matched = overlap.max(axis=1) >= SAME_OBJECT_IOU
    return (
        (detected[:, 2:] - detected[:, :2])[is_matched],
        (labelled[:, 2:] - labelled[:, :2])[best_matches[is_matched]],
    )


@dataclass(frozen=True)
class BoxSizeDifference:
    """Detected boxes that are larger or smaller than labelled ones.

    Attributes:
        excess: how much longer the sides of detected boxes are than the labelled ones, as a fraction.
        ap50_before, ap50_after: AP50 as detected, and with boxes padded like the labelled ones.
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
        """Warning with AP50 after padding and whether tuning helps."""
        advice = "Other errors prevail, so tuning would not help."
        if self.is_useful:
            advice = "If the labelling style is intended, run sim2cam tune on labelled images."
        return (
            f"the sides of detected boxes are {abs(self.excess):.0%} {'longer' if self.excess > 0 else 'shorter'} than the "
            f"labelled ones (median). With equal sides, AP50 is {self.ap50_after:.2f} instead of {self.ap50_before:.2f}. {advice}"
        )


def compare_box_sizes(
    dataset: LabelledDataset, predictions: Predictions
) -> BoxSizeDifference | None:
    """Return how much detected boxes are larger or smaller than labelled ones; None if they fit."""
    padding = estimate_box_padding(predictions, dataset)
    if padding is None:
        return None
    pairs = [_match_sides(predictions, sample) for sample in dataset.samples]
    excess = float(np.median(np.concatenate([found / true - 1 for found, true in pairs])))
    if abs(excess) <= _USUAL_EXCESS:
        return None
    before, after = (
        _compute_ap50(dataset, boxes)
        for boxes in (predictions, pad_predictions(predictions, dataset, padding))
    )
    return BoxSizeDifference(excess, before, after)


def _compute_ap50(dataset: LabelledDataset, predictions: Predictions) -> float:
    image_counts = np.ones((1, len(dataset.samples)), np.int64)
    return float(DetectionEvaluator(dataset, predictions).compute_scores(image_counts)["ap50"][0])
