"""Reliability of a detector on real images: calibration, OOD rate and object sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sim2cam import images
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
from sim2cam.models.reliability.domain_shift import (
    DomainShift,
    TargetStatistics,
    collect_labelled_objects,
    compare_with_training,
    measure_image_parts,
)
from sim2cam.models.reliability.object_sizes import (
    SizeComparison,
    compare_sizes,
    compute_longer_side,
)
from sim2cam.seeds import derive_rng


@dataclass(frozen=True)
class Reliability:
    """Reliability of a detector on real images; None where not measured.

    Attributes:
        calibration: calibration of the confidences; None if they are not in 0 to 1, or all are too
            low.
        uncalibrated: calibration without the score calibration of the card; None without one.
        ood_rate: fraction of out-of-distribution images, with its 95 % interval.
        false_positive_rate: upper limit of that fraction among in-distribution images.
        ood_scores: OOD score by image name; above 1 an image is out-of-distribution.
        size_fit: sizes of the labelled objects compared with those of the training.
        domain_shift: labelled objects and image parts compared with those of the training.
    """

    calibration: ConfidenceCalibration | None
    uncalibrated: ConfidenceCalibration | None = None
    ood_rate: Estimate | None = None
    false_positive_rate: float | None = None
    ood_scores: Mapping[str, float] | None = None
    size_fit: SizeComparison | None = None
    domain_shift: DomainShift = field(default_factory=DomainShift)

    def to_json(self) -> dict[str, Any]:
        """Return the measures, without the OOD score of each image, as JSON values."""
        return {
            "calibration": self.calibration.to_json() if self.calibration else None,
            "uncalibrated": self.uncalibrated.to_json() if self.uncalibrated else None,
            "ood_rate": serialize_ood_rate(self.ood_rate, self.false_positive_rate),
            "sizes": self.size_fit.to_json() if self.size_fit else None,
            "domain_shift": self.domain_shift.to_json(),
        }


def assess_detections(
    captures: Dataset, detections: Mapping[str, Sequence[Detection]]
) -> Reliability:
    """Measure the calibration of detections."""
    return Reliability(
        measure_calibration(
            collect_scored_detections(captures, detections), derive_rng(0, "calibration")
        )
    )


def assess_detector(
    captures: Dataset, card: DetectorCard, predictions: Mapping[str, Prediction]
) -> Reliability:
    """Measure the reliability of a detector on labelled images."""
    scored = collect_scored_detections(
        captures, {name: prediction.detections for name, prediction in predictions.items()}
    )
    uncalibrated = None
    if card.score_calibration is not None:
        raw = undo_calibration(scored, card.score_calibration)
        # The same resamples, so that both are measured on the same images.
        uncalibrated = measure_calibration(raw, derive_rng(0, "calibration"))
    ood_scores = collect_ood_scores(predictions)
    sides = [
        compute_longer_side(label.box_xyxy) * card.input_scale
        for sample in captures.samples
        for label in sample.objects or ()
        if not label.is_crowd
    ]
    return Reliability(
        calibration=measure_calibration(scored, derive_rng(0, "calibration")),
        uncalibrated=uncalibrated,
        ood_rate=estimate_ood_rate(ood_scores),
        false_positive_rate=card.ood_threshold.false_positive_rate if card.ood_threshold else None,
        ood_scores=ood_scores or None,
        size_fit=compare_sizes(sides, card.box_size_range_px),
        domain_shift=measure_domain_shift(
            captures, card, collect_labelled_objects(captures, card.input_scale)
        ),
    )


def measure_domain_shift(
    captures: Dataset, card: DetectorCard, objects: TargetStatistics
) -> DomainShift:
    """Compare real images with the training of a detector.

    Args:
        captures: real images; luminance and sharpness are measured if the card has those of the training.
        objects: sizes and numbers of the objects in them.
    """
    parts = TargetStatistics()
    if card.training_domain is not None:
        paths = [sample.rgb for sample in captures.samples]
        parts = measure_image_parts(paths, card.input_scale, card.config["crop_px"])
    target = replace(objects, luminance=parts.luminance, sharpness=parts.sharpness)
    return compare_with_training(target, card.training_domain, card.box_size_range_px)


def describe_training_overlap(captures: Dataset, card: DetectorCard) -> str | None:
    """Return a warning if a detector was trained on real images of the benchmark, or else None.

    Raises:
        InputError: if an image cannot be read.
    """
    name = find_training_overlap(captures, card)
    if name is None:
        return None
    return (
        f"the detector was trained on some of these images, such as {name}. The scores do not "
        "generalize; benchmark on other images."
    )


def find_training_overlap(captures: Dataset, card: DetectorCard) -> str | None:
    """Return the name of an image that a detector was trained on; None without any.

    Raises:
        InputError: if an image cannot be read.
    """
    if not card.image_digests:
        return None
    digests = set(card.image_digests)
    return next(
        (
            sample.name
            for sample in captures.samples
            # cards of earlier releases list digests of samples instead of files
            if sample.digest in digests or images.compute_digest(sample.rgb) in digests
        ),
        None,
    )


def collect_ood_scores(predictions: Mapping[str, Prediction]) -> dict[str, float]:
    """Return the OOD scores by image name; empty if not measured."""
    return {name: p.ood_score for name, p in predictions.items() if p.ood_score is not None}


def estimate_ood_rate(ood_scores: Mapping[str, float]) -> Estimate | None:
    """Return the fraction of images with an OOD score above 1; None without scores."""
    if not ood_scores:
        return None
    return estimate_proportion(sum(score > 1 for score in ood_scores.values()), len(ood_scores))


def serialize_ood_rate(
    ood_rate: Estimate | None, false_positive_rate: float | None
) -> dict[str, Any] | None:
    """Return an OOD rate and the rate among in-distribution images as JSON values."""
    if ood_rate is None:
        return None
    return ood_rate.to_json() | {"false_positive_rate": false_positive_rate}
