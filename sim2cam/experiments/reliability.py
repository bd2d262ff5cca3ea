"""How far what a detector says of captures is to be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sim2cam.adapt.card import compute_sample_digest
from sim2cam.adapt.certificate.certificate import estimate_proportion
from sim2cam.data.sample import Dataset
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.calibration import (
    ConfidenceCalibration,
    collect_scored_detections,
    measure_calibration,
)
from sim2cam.metrics.detection import Detection
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import Prediction
from sim2cam.models.reliability.confidence import undo_calibration
from sim2cam.models.reliability.object_sizes import (
    SizeComparison,
    compare_sizes,
    compute_longer_side,
)
from sim2cam.seeds import derive_rng


@dataclass(frozen=True)
class Reliability:
    """How far what a detector says of captures is to be trusted; None where something is not known.

    Attributes:
        calibration: of its confidences; None where they are not 0 to 1, or none is sure enough.
        uncalibrated: as it would be without the scaling of its card; None without one.
        ood_rate: share of the captures that are unlike what it was trained on, with its 95 % interval.
        false_positive_rate: that share, at most, among familiar pictures.
        ood_scores: of each image, by its name; above 1 it is unlike.
        size_fit: of the labelled objects beside those trained on.
    """

    calibration: ConfidenceCalibration | None
    uncalibrated: ConfidenceCalibration | None = None
    ood_rate: Estimate | None = None
    false_positive_rate: float | None = None
    ood_scores: Mapping[str, float] | None = None
    size_fit: SizeComparison | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all of it but the novelty of each image as JSON values."""
        return {
            "calibration": self.calibration.to_json() if self.calibration else None,
            "uncalibrated": self.uncalibrated.to_json() if self.uncalibrated else None,
            "ood_rate": serialize_ood_rate(self.ood_rate, self.false_positive_rate),
            "sizes": self.size_fit.to_json() if self.size_fit else None,
        }


def assess_detections(
    captures: Dataset, detections: Mapping[str, Sequence[Detection]]
) -> Reliability:
    """Return what detections alone tell: whether their confidences hold.

    Args:
        captures: labelled images.
        detections: by the image's name, with an entry for every image.
    """
    return Reliability(
        measure_calibration(
            collect_scored_detections(captures, detections), derive_rng(0, "calibration")
        )
    )


def assess_detector(
    captures: Dataset, card: DetectorCard, predictions: Mapping[str, Prediction]
) -> Reliability:
    """Return how far a detector is to be trusted on captures.

    Args:
        captures: labelled images.
        card: of the detector.
        predictions: what it says of every image, by the image's name.
    """
    found = collect_scored_detections(
        captures, {name: one.detections for name, one in predictions.items()}
    )
    uncalibrated = None
    if card.score_calibration is not None:
        before = undo_calibration(found, card.score_calibration)
        # the same resamples, so that both are compared on the same images
        uncalibrated = measure_calibration(before, derive_rng(0, "calibration"))
    novelty = collect_ood_scores(predictions)
    sides = [
        compute_longer_side(label.box_xyxy) * card.input_scale
        for sample in captures.samples
        for label in sample.objects or ()
        if not label.is_crowd
    ]
    return Reliability(
        calibration=measure_calibration(found, derive_rng(0, "calibration")),
        uncalibrated=uncalibrated,
        ood_rate=estimate_ood_rate(novelty),
        false_positive_rate=card.ood_threshold.false_positive_rate if card.ood_threshold else None,
        ood_scores=novelty or None,
        size_fit=compare_sizes(sides, card.box_size_range_px),
    )


def describe_training_overlap(captures: Dataset, card: DetectorCard) -> str | None:
    """Return in words that captures were trained on; None where nothing tells that they were.

    Raises:
        InputError: a capture cannot be read.
    """
    learned = find_training_overlap(captures, card)
    if learned is None:
        return None
    return (
        f"the detector was trained on these captures, or some of them, as {learned}: the scores tell "
        "nothing of other pictures. Score it on captures that it has not learned from."
    )


def find_training_overlap(captures: Dataset, card: DetectorCard) -> str | None:
    """Return the name of a capture that was trained on; None where nothing tells of one.

    Raises:
        InputError: a capture cannot be read.
    """
    if not card.image_digests:
        return None
    known = set(card.image_digests)
    return next((s.name for s in captures.samples if compute_sample_digest(s) in known), None)


def collect_ood_scores(predictions: Mapping[str, Prediction]) -> dict[str, float]:
    """Return how unlike each image is, by its name; empty where not measured."""
    return {name: one.ood_score for name, one in predictions.items() if one.ood_score is not None}


def estimate_ood_rate(ood_scores: Mapping[str, float]) -> Estimate | None:
    """Return the share of images with a novelty above 1, with its interval; None without any."""
    return (
        estimate_proportion(sum(away > 1 for away in ood_scores.values()), len(ood_scores))
        if ood_scores
        else None
    )


def serialize_ood_rate(
    ood_rate: Estimate | None, false_positive_rate: float | None
) -> dict[str, Any] | None:
    """Return a share of unlike images and that among familiar ones as JSON values."""
    return (
        None
        if ood_rate is None
        else ood_rate.to_json() | {"false_positive_rate": false_positive_rate}
    )
