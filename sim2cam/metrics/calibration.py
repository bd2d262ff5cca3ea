"""How far confidences are from the share of detections that are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, basic_bootstrap_estimate
from sim2cam.metrics.detection import LabelledDataset, Predictions, match_category
from sim2cam.metrics.resampling import ResamplingUnits, group_images

N_BINS = 10
MIN_SCORE = 0.3
"""Less sure detections are not looked at: there are many, and they are wrong, as they say."""

N_RESAMPLES = 1000
_IOU_50_INDEX = 0  # of the IoU thresholds

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ScoredDetections:
    """Detections, how sure each is, and whether it is right.

    Attributes:
        scores: (n,).
        is_true_positive: whether each lies on an object of its category, at an IoU of 0.5 (n,).
        categories: names of their categories (n,).
        image_indices: numbers of their images (n,).
        units: of all images, those without detections too.
    """

    scores: Floats
    is_true_positive: NDArray[np.bool_]
    categories: NDArray[np.str_]
    image_indices: NDArray[np.int64]
    units: ResamplingUnits


@dataclass(frozen=True)
class ReliabilityBin:
    """Detections of about one confidence.

    Attributes:
        confidence: their mean score.
        precision: share of them that is right.
        n_detections: how many there are.
    """

    confidence: float
    precision: float
    n_detections: int


@dataclass(frozen=True)
class ConfidenceCalibration:
    """How far confidences are from the share of detections that are right.

    Attributes:
        ece: detection expected calibration error, with its 95 % interval: the mean
            over detections of how far confidence and precision are apart in their bin. Intervals of
            small errors lie too high, as noise makes most of these.
        chance_ece: below which 95 % of perfectly calibrated confidences would stay, as noise makes
            their error (Broecker and Smith 2007, "Increasing the reliability of reliability diagrams").
        bins: by rising confidence.
    """

    ece: Estimate
    chance_ece: float
    bins: tuple[ReliabilityBin, ...]

    def to_json(self) -> dict[str, Any]:
        """Return ``ece``, ``chance_ece`` and each bin's confidence, precision and detections."""
        bins = [[b.confidence, b.precision, b.n_detections] for b in self.bins]
        return {"ece": self.ece.to_json(), "chance_ece": self.chance_ece, "bins": bins}


def collect_scored_detections(
    dataset: LabelledDataset, predictions: Predictions
) -> ScoredDetections:
    """Return all detections that count, as COCO matches them: surer ones first, each object once.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry for every image.
    """
    rows: list[tuple[float, bool, str, int]] = []
    for category in dataset.categories:
        for image, found in enumerate(match_category(dataset, predictions, category)):
            counted, right = found.is_counted[_IOU_50_INDEX], found.is_true_positive[_IOU_50_INDEX]
            kept = zip(found.scores[counted], right[counted], strict=True)
            rows.extend((float(score), bool(hit), category, image) for score, hit in kept)
    return ScoredDetections(
        np.array([score for score, *_ in rows], np.float64),
        np.array([right for _, right, *_ in rows], np.bool_),
        np.array([category for *_, category, _ in rows], np.str_),
        np.array([image for *_, image in rows], np.int64),
        group_images(dataset.samples),
    )


def measure_calibration(
    detections: ScoredDetections, rng: np.random.Generator
) -> ConfidenceCalibration | None:
    """Return how far confidences are from precision, in ``N_BINS`` bins of equally many detections.

    The measure is the D-ECE of Kueppers and others (2020, "Multivariate confidence calibration for
    object detection") in the confidence alone. Bins of equal mass bias it less than those of equal
    width (Roelofs and others, 2022, "Mitigating bias in calibration error estimation").

    Detections below ``MIN_SCORE`` are left out.

    Args:
        detections: of all images.
        rng: draws the resamples.

    Returns:
        None without detections, and where scores are not 0 to 1, which no probability is.
    """
    is_sure = detections.scores >= MIN_SCORE
    if not is_sure.any() or detections.scores.min() < 0 or detections.scores.max() > 1:
        return None
    scores, right, images = (
        detections.scores[is_sure],
        detections.is_true_positive[is_sure],
        detections.image_indices[is_sure],
    )
    bins = np.array_split(np.argsort(scores, kind="stable"), min(N_BINS, len(scores)))
    n_images = detections.units.n_images
    gaps, number = np.zeros((2, n_images, len(bins)))  # sums over an image's detections
    for column, members in enumerate(bins):
        gap = scores[members] - right[members]
        gaps[:, column] = np.bincount(images[members], gap, n_images)
        number[:, column] = np.bincount(images[members], minlength=n_images)
    counts = detections.units.sample_image_counts(N_RESAMPLES, rng)
    drawn = (counts @ number).sum(axis=1)
    apart = np.abs(counts @ gaps).sum(axis=1)
    resampled = np.divide(apart, drawn, out=np.full(N_RESAMPLES, np.nan), where=drawn > 0)
    value = float(np.abs(gaps.sum(axis=0)).sum() / len(scores))
    spreads = [np.sqrt((scores[members] * (1 - scores[members])).sum()) for members in bins]
    noise = np.abs(rng.normal(0, spreads, (N_RESAMPLES, len(bins)))).sum(axis=1) / len(scores)
    return ConfidenceCalibration(
        basic_bootstrap_estimate(value, resampled),
        float(np.quantile(noise, 0.95)),
        tuple(
            ReliabilityBin(
                float(scores[members].mean()), float(right[members].mean()), len(members)
            )
            for members in bins
        ),
    )
