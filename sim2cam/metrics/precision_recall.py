"""Precision, recall and F1 of detections over the score threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.calibration import collect_scored_detections
from sim2cam.metrics.detection import LabelledDataset, Predictions, is_ignored

DEFAULT_SCORE_THRESHOLD = 0.5
"""Score threshold if no detection is correct."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """Precision and recall at IoU 0.5 over all categories, at falling score thresholds.

    Attributes:
        thresholds: distinct scores (n,).
        precision, recall, f1: of the detections with at least this score (n,).
    """

    thresholds: Floats
    precision: Floats
    recall: Floats
    f1: Floats

    @property
    def best_index(self) -> int | None:
        """Index of the threshold with the best F1, the highest of equals; None if no detection is correct."""
        return int(self.f1.argmax()) if self.recall.any() else None


def compute_precision_recall(dataset: LabelledDataset, predictions: Predictions) -> PrecisionRecall:
    """Return precision and recall of detections matched as in COCO."""
    detections = collect_scored_detections(dataset, predictions)
    objects = sum(not is_ignored(o) for s in dataset.samples for o in s.objects or ())
    order = np.argsort(-detections.scores, kind="stable")
    scores, correct = detections.scores[order], detections.is_true_positive[order].cumsum()
    counts = np.arange(1, len(scores) + 1)
    is_last = np.append(scores[:-1] != scores[1:], np.ones(min(1, len(scores)), np.bool_))
    return PrecisionRecall(
        scores[is_last],
        (correct / counts)[is_last],
        (correct / max(objects, 1))[is_last],
        (2 * correct / (counts + objects))[is_last],
    )


def floor_threshold(threshold: float) -> float:
    """Round a score threshold down to two decimals, which keeps all detections that reach it."""
    return math.floor(100 * threshold) / 100


def find_best_f1_threshold(dataset: LabelledDataset, predictions: Predictions) -> float:
    """Return the score threshold with the best F1 at IoU 0.5 over all categories.

    The highest of equals; ``DEFAULT_SCORE_THRESHOLD`` if no detection is correct.
    """
    curve = compute_precision_recall(dataset, predictions)
    best = curve.best_index
    return DEFAULT_SCORE_THRESHOLD if best is None else float(curve.thresholds[best])
