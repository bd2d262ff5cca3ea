"""Calibration of detection confidences: expected calibration error and reliability bins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, basic_bootstrap_estimate
from sim2cam.metrics.detection import LabelledDataset, Predictions, match_category
from sim2cam.metrics.resampling import N_RESAMPLES, ResamplingUnits, group_images

N_BINS = 10
MIN_SCORE = 0.3
"""Detections below are left out: they are many, and mostly wrong as their scores predict."""

_IOU_50_INDEX = 0  # in IOU_THRESHOLDS

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScoredDetections:
    """Scores of detections and whether each is a true positive.

    Attributes:
        is_true_positive: whether each matches an object of its category at IoU 0.5 (n,).
        categories: category names (n,).
        units: resampling units of all images, including images without detections.
    """

    scores: Floats
    is_true_positive: NDArray[np.bool_]
    categories: NDArray[np.str_]
    image_indices: NDArray[np.int64]
    units: ResamplingUnits


@dataclass(frozen=True)
class ReliabilityBin:
    """Detections of similar confidence."""

    confidence: float
    precision: float
    n_detections: int


@dataclass(frozen=True)
class ConfidenceCalibration:
    """Calibration of confidences against precision.

    Attributes:
        ece: detection expected calibration error with its 95 % interval: the mean over detections
            of the difference between confidence and precision in their bin. Intervals of small
            errors are biased upwards, as noise dominates them.
        chance_ece: 95 % quantile of the error of perfectly calibrated confidences (Broecker and
            Smith 2007, "Increasing the reliability of reliability diagrams").
    """

    ece: Estimate
    chance_ece: float
    bins: tuple[ReliabilityBin, ...]

    def to_json(self) -> dict[str, Any]:
        """Return ``ece``, ``chance_ece`` and, for each bin, confidence, precision and count."""
        bins = [[b.confidence, b.precision, b.n_detections] for b in self.bins]
        return {"ece": self.ece.to_json(), "chance_ece": self.chance_ece, "bins": bins}


def collect_scored_detections(
    dataset: LabelledDataset, predictions: Predictions
) -> ScoredDetections:
    """Return all counted detections with their scores, matched as in COCO."""
    rows: list[tuple[float, bool, str, int]] = []
    for category in dataset.categories:
        for image, matches in enumerate(match_category(dataset, predictions, category)):
            is_counted = matches.is_counted[_IOU_50_INDEX]
            is_correct = matches.is_true_positive[_IOU_50_INDEX]
            pairs = zip(matches.scores[is_counted], is_correct[is_counted], strict=True)
            rows.extend((float(s), bool(correct), category, image) for s, correct in pairs)
    return ScoredDetections(
        np.array([score for score, *_ in rows], np.float64),
        np.array([correct for _, correct, *_ in rows], np.bool_),
        np.array([category for *_, category, _ in rows], np.str_),
        np.array([image for *_, image in rows], np.int64),
        group_images(dataset.samples),
    )


def measure_calibration(
    detections: ScoredDetections, rng: np.random.Generator
) -> ConfidenceCalibration | None:
    """Return the calibration of confidences in ``N_BINS`` bins with equal numbers of detections.

    The measure is the D-ECE of Kueppers et al. (2020, "Multivariate confidence calibration for
    object detection"), over the confidence only. Bins of equal mass have less bias than bins of
    equal width (Roelofs et al. 2022, "Mitigating bias in calibration error estimation"). Detections
    below ``MIN_SCORE`` are left out.

    Returns:
        None without detections, or if scores lie outside 0 to 1.
    """
    is_confident = detections.scores >= MIN_SCORE
    if not is_confident.any() or detections.scores.min() < 0 or detections.scores.max() > 1:
        return None
    scores, images = detections.scores[is_confident], detections.image_indices[is_confident]
    is_correct = detections.is_true_positive[is_confident]
    bins = np.array_split(np.argsort(scores, kind="stable"), min(N_BINS, len(scores)))
    n_images = detections.units.n_images
    gap_sums, detection_counts = np.zeros((2, n_images, len(bins)))  # per image
    for column, members in enumerate(bins):
        gaps = scores[members] - is_correct[members]
        gap_sums[:, column] = np.bincount(images[members], gaps, n_images)
        detection_counts[:, column] = np.bincount(images[members], minlength=n_images)
    counts = detections.units.sample_image_counts(N_RESAMPLES, rng)
    totals = (counts @ detection_counts).sum(axis=1)
    absolute_gaps = np.abs(counts @ gap_sums).sum(axis=1)
    resampled = np.divide(absolute_gaps, totals, out=np.full(N_RESAMPLES, np.nan), where=totals > 0)
    value = float(np.abs(gap_sums.sum(axis=0)).sum() / len(scores))
    sigmas = [np.sqrt((scores[members] * (1 - scores[members])).sum()) for members in bins]
    chance_gaps = np.abs(rng.normal(0, sigmas, (N_RESAMPLES, len(bins))))
    chance_errors = chance_gaps.sum(axis=1) / len(scores)
    return ConfidenceCalibration(
        basic_bootstrap_estimate(value, resampled),
        float(np.quantile(chance_errors, 0.95)),
        tuple(
            ReliabilityBin(
                float(scores[members].mean()), float(is_correct[members].mean()), len(members)
            )
            for members in bins
        ),
    )
