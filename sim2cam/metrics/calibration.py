"""How far confidences are from the share of detections that are right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, reflected_estimate
from sim2cam.metrics.detection import LabelledImages, Predictions, category_matches
from sim2cam.metrics.resampling import Units, units_of

BINS = 10
LEAST_SCORE = 0.3
"""Less sure detections are not looked at: there are many, and they are wrong, as they say."""

DRAWS = 1000
_AT_50 = 0  # of the IoU thresholds

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Confidences:
    """Detections, how sure each is, and whether it is right.

    Attributes:
        scores: (n,).
        right: whether each lies on an object of its category, at an IoU of 0.5 (n,).
        categories: names of their categories (n,).
        images: numbers of their images (n,).
        units: of all images, those without detections too.
    """

    scores: Floats
    right: NDArray[np.bool_]
    categories: NDArray[np.str_]
    images: NDArray[np.int64]
    units: Units


@dataclass(frozen=True)
class Bin:
    """Detections of about one confidence.

    Attributes:
        confidence: their mean score.
        precision: share of them that is right.
        detections: how many there are.
    """

    confidence: float
    precision: float
    detections: int


@dataclass(frozen=True)
class Calibration:
    """How far confidences are from the share of detections that are right.

    Attributes:
        error: detection expected calibration error, with its 95 % interval: the mean
            over detections of how far confidence and precision are apart in their bin. Intervals of
            small errors lie too high, as noise makes most of these.
        by_chance: below which 95 % of perfectly calibrated confidences would stay, as noise makes
            their error (Broecker and Smith 2007, "Increasing the reliability of reliability diagrams").
        bins: by rising confidence.
    """

    error: Estimate
    by_chance: float
    bins: tuple[Bin, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns ``ece``, ``by_chance`` and each bin's confidence, precision and detections."""
        bins = [[b.confidence, b.precision, b.detections] for b in self.bins]
        return {"ece": self.error.to_json(), "by_chance": self.by_chance, "bins": bins}


def confidences_of(dataset: LabelledImages, predictions: Predictions) -> Confidences:
    """Returns all detections that count, as COCO matches them: surer ones first, each object once.

    Args:
        dataset: labelled images.
        predictions: by the image's name, with an entry for every image.
    """
    rows: list[tuple[float, bool, str, int]] = []
    for category in dataset.categories:
        for image, found in enumerate(category_matches(dataset, predictions, category)):
            counted, right = found.counted[_AT_50], found.right[_AT_50]
            kept = zip(found.scores[counted], right[counted], strict=True)
            rows.extend((float(score), bool(hit), category, image) for score, hit in kept)
    return Confidences(
        np.array([score for score, *_ in rows], np.float64),
        np.array([right for _, right, *_ in rows], np.bool_),
        np.array([category for *_, category, _ in rows], np.str_),
        np.array([image for *_, image in rows], np.int64),
        units_of(dataset.samples),
    )


def calibration_of(found: Confidences, rng: np.random.Generator) -> Calibration | None:
    """Returns how far confidences are from precision, in ``BINS`` bins of equally many detections.

    The measure is the D-ECE of Kueppers and others (2020, "Multivariate confidence calibration for
    object detection") in the confidence alone. Bins of equal mass bias it less than those of equal
    width (Roelofs and others, 2022, "Mitigating bias in calibration error estimation").

    Detections below ``LEAST_SCORE`` are left out.

    Args:
        found: of all images.
        rng: draws the resamples.

    Returns:
        None without detections, and where scores are not 0 to 1, which no probability is.
    """
    is_sure = found.scores >= LEAST_SCORE
    if not is_sure.any() or found.scores.min() < 0 or found.scores.max() > 1:
        return None
    scores, right, images = found.scores[is_sure], found.right[is_sure], found.images[is_sure]
    bins = np.array_split(np.argsort(scores, kind="stable"), min(BINS, len(scores)))
    n_images = found.units.n_images
    gaps, number = np.zeros((2, n_images, len(bins)))  # sums over an image's detections
    for column, members in enumerate(bins):
        gap = scores[members] - right[members]
        gaps[:, column] = np.bincount(images[members], gap, n_images)
        number[:, column] = np.bincount(images[members], minlength=n_images)
    counts = found.units.resampled(DRAWS, rng)
    drawn = (counts @ number).sum(axis=1)
    apart = np.abs(counts @ gaps).sum(axis=1)
    resampled = np.divide(apart, drawn, out=np.full(DRAWS, np.nan), where=drawn > 0)
    value = float(np.abs(gaps.sum(axis=0)).sum() / len(scores))
    spreads = [np.sqrt((scores[members] * (1 - scores[members])).sum()) for members in bins]
    noise = np.abs(rng.normal(0, spreads, (DRAWS, len(bins)))).sum(axis=1) / len(scores)
    return Calibration(
        reflected_estimate(value, resampled),
        float(np.quantile(noise, 0.95)),
        tuple(
            Bin(float(scores[members].mean()), float(right[members].mean()), len(members))
            for members in bins
        ),
    )
