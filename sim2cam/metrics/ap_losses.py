"""AP50 lost by each kind of detection error, as in TIDE.

Bolya et al. 2020, "TIDE: A General Toolbox for Identifying Object Detection Errors".
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim2cam.metrics.detection import Detection, LabelledDataset, Predictions, is_ignored
from sim2cam.metrics.error_analysis import (
    ERROR_KINDS,
    DetectionOutcome,
    OutcomeKind,
    classify_detections,
)
from sim2cam.metrics.matching import MAX_DETECTIONS, CategoryMatches, ImageMatches


@dataclass(frozen=True)
class ApLosses:
    """AP50 lost by each kind of error.

    Losses do not add up to the total, since errors of one kind hide those of others.

    Attributes:
        ap50: AP50 of the detections.
        losses: increase of AP50 if all errors of a kind were fixed, by kind.
    """

    ap50: float
    losses: Mapping[OutcomeKind, float]

    def to_json(self) -> dict[str, Any]:
        """Return the losses by kind as JSON values."""
        return {str(kind): loss for kind, loss in self.losses.items()}


class ErrorOracle:
    """Outcomes of all detections, with AP50 if errors of given kinds were fixed."""

    def __init__(self, dataset: LabelledDataset, predictions: Predictions) -> None:
        self._object_counts = Counter(
            label.category
            for sample in dataset.samples
            for label in sample.objects or ()
            if not is_ignored(label)
        )
        self._images: list[Sequence[DetectionOutcome]] = []
        for sample in dataset.samples:
            detections = _limit_detections(predictions[sample.name])
            self._images.append(
                classify_detections(sample.objects or (), detections, threshold=-np.inf)
            )

    def compute_ap50(self, fixed: Collection[OutcomeKind]) -> float:
        """Return AP50 with all errors of these kinds fixed.

        A confusion gets the category of its object and a localisation error its box, unless another
        detection matches the object better; other false positives are removed. Missed objects are not
        counted, as no score can be known for their detection.
        """
        detections: dict[str | None, list[tuple[float, bool]]] = defaultdict(list)
        object_counts = self._object_counts.copy()
        for outcomes in self._images:
            taken = {o.object_index for o in outcomes if o.kind == "true positive"}
            for o in outcomes:
                score = o.score or 0.0
                if o.kind == "missed":
                    object_counts[str(o.true_category)] -= "missed" in fixed
                elif o.kind not in fixed:
                    detections[o.predicted_category].append((score, o.kind == "true positive"))
                elif o.kind in ("confusion", "localisation") and o.object_index not in taken:
                    taken.add(o.object_index)
                    detections[o.true_category].append((score, True))
        values = [_compute_ap50(detections[name], n) for name, n in object_counts.items()]
        return float(np.mean(values))


def compute_ap_losses(dataset: LabelledDataset, predictions: Predictions) -> ApLosses:
    """Return the AP50 lost by each kind of error."""
    oracle = ErrorOracle(dataset, predictions)
    ap50 = oracle.compute_ap50(())
    # A small negative loss can result from the interpolation of the precision.
    return ApLosses(
        ap50, {kind: max(0.0, oracle.compute_ap50((kind,)) - ap50) for kind in ERROR_KINDS}
    )


def _limit_detections(detections: Sequence[Detection]) -> list[Detection]:
    """Return the detections with the highest scores of each category, as many as COCO counts."""
    limited = []
    for category in dict.fromkeys(d.category for d in detections):
        members = sorted((d for d in detections if d.category == category), key=lambda d: -d.score)
        limited += members[:MAX_DETECTIONS]
    return limited


def _compute_ap50(detections: Sequence[tuple[float, bool]], object_count: int) -> float:
    """Return AP50 of one category from scores and correctness; without objects, 1 if nothing is detected."""
    if not object_count:
        return float(not detections)
    scores = np.array([score for score, _ in detections], np.float64)
    is_correct = np.array([[correct for _, correct in detections]], np.bool_)
    order = np.argsort(-scores, kind="stable")
    matches = ImageMatches(
        scores[order], is_correct[:, order], np.ones_like(is_correct), object_count
    )
    counts = np.ones((1, 1), np.int64)
    return float(CategoryMatches([matches]).compute_average_precision(counts, [0])[0, 0])
