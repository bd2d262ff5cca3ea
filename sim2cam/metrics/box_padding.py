"""Box padding: how many pixels people leave between an object and the box that they draw around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import pad_boxes, pairwise_iou
from sim2cam.metrics.detection import (
    DetectionEvaluator,
    LabelledDataset,
    Predictions,
    stack_boxes,
)

SAME_OBJECT_IOU = 0.3  # low, as labelling styles differ
MIN_SCORE = 0.3  # boxes of less confident detections are too noisy
MIN_PAIRS = 10
_DIGITS = 5
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
    return _compute_padding(_match_sides(predictions, dataset))


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


class _MatchedSides(NamedTuple):
    """Sides of detected and labelled boxes of the same objects.

    Attributes:
        detected_px, labelled_px: width and height (n, 2).
        image_px: longer side of the image (n, 1).
    """

    detected_px: NDArray[np.float64]
    labelled_px: NDArray[np.float64]
    image_px: NDArray[np.float64]


def _match_sides(predictions: Predictions, dataset: LabelledDataset) -> _MatchedSides:
    """Return the sides of confident detected boxes and of the labelled boxes that they match."""
    matches = [np.empty((0, 5))]
    for sample in dataset.samples:
        labelled = stack_boxes([o for o in sample.objects or () if not o.is_crowd])
        detected = stack_boxes([d for d in predictions[sample.name] if d.score >= MIN_SCORE])
        if not len(labelled) or not len(detected):
            continue
        overlap = pairwise_iou(detected, labelled)
        is_matched = overlap.max(axis=1) >= SAME_OBJECT_IOU
        detected, labelled = detected[is_matched], labelled[overlap.argmax(axis=1)[is_matched]]
        image_px = np.full((len(detected), 1), max(sample.width, sample.height))
        sides = [boxes[:, 2:] - boxes[:, :2] for boxes in (detected, labelled)]
        matches.append(np.hstack([*sides, image_px]))
    return _MatchedSides(*np.split(np.concatenate(matches), (2, 4), axis=1))


def _compute_padding(matches: _MatchedSides) -> float | None:
    """Return the median padding; see ``estimate_box_padding``."""
    if len(matches.detected_px) < MIN_PAIRS:
        return None
    paddings = (matches.labelled_px - matches.detected_px) / 2 / matches.image_px
    return round(float(np.median(paddings)), _DIGITS)


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
    matches = _match_sides(predictions, dataset)
    padding = _compute_padding(matches)
    if padding is None:
        return None
    excess = float(np.median(matches.detected_px / matches.labelled_px - 1))
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
