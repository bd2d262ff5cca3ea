"""Selection of the input scale on images without labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import Dataset
from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detector import AnyDetector, detect_dataset
from sim2cam.models.reliability.domain_shift import select_evenly
from sim2cam.models.reliability.object_sizes import compute_longer_side

SCALE_FACTORS = tuple(2.0 ** (exponent / 2) for exponent in range(-3, 5))
"""Input scales that are tried, relative to that of the training."""

MAX_IMAGES = 24
"""Number of images that are predicted at each scale."""

MIN_OBJECTS = 10.0
"""Smallest consistency of a scale that is selected, about the number of objects that it must find."""

MAX_LOSS = 0.05
"""Share of the best consistency that a scale may lack to be preferred because of object sizes."""

MIN_GAIN = 0.02
"""Smallest gain in the sum of scores for which larger scales are tried."""

MAX_SIDE_PX = 4096
"""Longest image side at the network's scale."""

_MIN_SCORE = 0.3
_MIN_IOU = 0.5

Detections = Mapping[str, Sequence[Detection]]


@dataclass(frozen=True)
class ScaleTrial:
    """Detections at one input scale, compared with those at the next smaller and larger one.

    Attributes:
        input_scale: the input scale.
        confirmed, unconfirmed: sums of the scores of detections that a neighbouring scale confirms with the same
            category and an IoU of 0.5, and of the others.
        median_side_px: median longer side of the detections in pixels at the network's scale; None without any.
    """

    input_scale: float
    confirmed: float
    unconfirmed: float
    median_side_px: float | None

    @property
    def consistency(self) -> float:
        """Confirmed minus unconfirmed scores: about the number of objects found, less the false ones."""
        return self.confirmed - self.unconfirmed


@dataclass(frozen=True)
class ScaleSelection:
    """Input scale selected without labels.

    Attributes:
        input_scale: the selected input scale; None if too few objects are found at any.
        trials: the tried input scales, ascending.
    """

    input_scale: float | None
    trials: tuple[ScaleTrial, ...]


def select_input_scale(
    detector: AnyDetector, images: Dataset, *, progress: Callable[[int, int], None] | None = None
) -> ScaleSelection:
    """Select the input scale on images without labels.

    Scales are tried from small to large, up to the first one that finds no more than the one before, if objects
    there have at least the middle size of the training. At the right scale, the detector finds more objects, with
    more confidence, and finds them again at neighbouring scales; false detections depend on the scale. Among
    scales of nearly the best consistency, the one is selected whose median object size is closest to the middle
    (geometric mean) of the trained sizes; without known sizes, the smallest.

    Fails if the detector makes the same mistakes at all scales, if images hold few objects, or if objects of very
    different sizes need different scales.

    Args:
        detector: the detector.
        images: images of the target camera; up to ``MAX_IMAGES`` are used, evenly spaced.
        progress: called with the numbers of finished and of all scales.

    Raises:
        InputError: if an image cannot be read.
    """
    images = replace(images, samples=select_evenly(images.samples, MAX_IMAGES))
    card = detector.card
    middle_px = _compute_middle_size(card.box_size_range_px)
    longest_px = max(max(sample.width, sample.height) for sample in images.samples)
    scales = [card.trained_input_scale * factor for factor in SCALE_FACTORS]
    scales = [scale for scale in scales if scale * longest_px <= MAX_SIDE_PX] or scales[:1]
    found: list[Detections] = []
    for scale in scales:
        scaled = replace(detector, card=replace(card, input_scale=scale))
        found.append(_select_confident(detect_dataset(scaled, images)))
        if progress is not None:
            progress(len(found), len(scales))
        side_px = _compute_median_side(found[-1], scale)
        if (
            len(found) > 1
            and side_px is not None
            and (middle_px is None or side_px >= middle_px)
            and _sum_scores(found[-1]) <= (1 + MIN_GAIN) * _sum_scores(found[-2])
        ):
            break
    trials = tuple(
        _compare_neighbours(scale, found[max(i - 1, 0) : i + 2], found[i])
        for i, scale in enumerate(scales[: len(found)])
    )
    return ScaleSelection(_select_trial(trials, middle_px), trials)


def _select_trial(trials: Sequence[ScaleTrial], middle_px: float | None) -> float | None:
    best = max(trial.consistency for trial in trials)
    if best < MIN_OBJECTS:
        return None
    good = [trial for trial in trials if trial.consistency >= (1 - MAX_LOSS) * best]
    if middle_px is None:
        return good[0].input_scale
    distances = [abs(np.log((trial.median_side_px or np.inf) / middle_px)) for trial in good]
    return good[int(np.argmin(distances))].input_scale


def _compare_neighbours(
    input_scale: float, neighbours: Sequence[Detections], detections: Detections
) -> ScaleTrial:
    """Sum the scores of detections that another scale confirms, and of the others."""
    others = [other for other in neighbours if other is not detections]
    confirmed = unconfirmed = 0.0
    for name, image_detections in detections.items():
        is_confirmed = np.zeros(len(image_detections), bool)
        for other in others:
            is_confirmed |= _find_matches(image_detections, other[name])
        scores = np.array([d.score for d in image_detections])
        confirmed += float(scores[is_confirmed].sum())
        unconfirmed += float(scores[~is_confirmed].sum())
    return ScaleTrial(
        input_scale, confirmed, unconfirmed, _compute_median_side(detections, input_scale)
    )


def _find_matches(
    detections: Sequence[Detection], others: Sequence[Detection]
) -> NDArray[np.bool_]:
    """Return which detections (n,) overlap another one of the same category."""
    if not detections or not others:
        return np.zeros(len(detections), bool)
    boxes, other_boxes = (np.array([d.box_xyxy for d in side]) for side in (detections, others))
    is_same = np.equal.outer([d.category for d in detections], [d.category for d in others])
    return np.asarray(((pairwise_iou(boxes, other_boxes) >= _MIN_IOU) & is_same).any(axis=1))


def _select_confident(detections: Detections) -> Detections:
    return {
        name: tuple(d for d in image if d.score >= _MIN_SCORE) for name, image in detections.items()
    }


def _sum_scores(detections: Detections) -> float:
    return sum(d.score for image in detections.values() for d in image)


def _compute_median_side(detections: Detections, input_scale: float) -> float | None:
    sides = [compute_longer_side(d.box_xyxy) for image in detections.values() for d in image]
    return input_scale * float(np.median(sides)) if sides else None


def _compute_middle_size(size_range_px: tuple[float, float] | None) -> float | None:
    return None if size_range_px is None else float(np.sqrt(size_range_px[0] * size_range_px[1]))
