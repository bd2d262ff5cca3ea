"""Error types of detections per object, image and category, as in TIDE.

Bolya et al. 2020, "TIDE: A General Toolbox for Identifying Object Detection Errors".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import Box, pairwise_coverage, pairwise_iou
from sim2cam.metrics.detection import (
    Detection,
    LabelledDataset,
    LabelledImage,
    LabelledObject,
    Predictions,
    is_ignored,
    stack_boxes,
)

OutcomeKind = Literal[
    "true positive", "confusion", "localisation", "both", "duplicate", "background", "missed"
]
ERROR_KINDS: tuple[OutcomeKind, ...] = get_args(OutcomeKind)[1:]

MATCH_IOU = 0.5
OVERLAP_IOU = 0.1
"""IoU below which a detection does not belong to an object."""
COVERING_KINDS: tuple[OutcomeKind, ...] = ("true positive", "confusion", "localisation")
"""Kinds of detections that would detect their object if the error were fixed, best first."""


@dataclass(frozen=True)
class DetectionOutcome:
    """Outcome of one detection, or a missed object.

    Attributes:
        kind: error type, or true positive.
        box_xyxy: box of the detection, or of the missed object, pixels.
        predicted_category: category of the detection; None if missed.
        true_category: category of the object; None for background.
        score: score of the detection; None if missed.
        object_index: index among the labels of the object that the detection matches, would match
            without the error, or duplicates; None for background.
    """

    kind: OutcomeKind
    box_xyxy: Box
    predicted_category: str | None
    true_category: str | None
    score: float | None
    object_index: int | None


@dataclass(frozen=True)
class ImageErrors:
    """Errors in one image, counted as ``DetectionOutcome.kind``: false positives and missed objects.

    Attributes:
        objects: number of labelled objects without ignored ones.
        missed: objects without a true positive, confusion or localisation error.
    """

    name: str
    objects: int
    true_positives: int
    confusion_errors: int
    localisation_errors: int
    both_errors: int
    duplicates: int
    background_errors: int
    missed: int

    @property
    def errors(self) -> int:
        """Total number of errors."""
        return (
            self.confusion_errors
            + self.localisation_errors
            + self.both_errors
            + self.duplicates
            + self.background_errors
            + self.missed
        )


@dataclass(frozen=True)
class CategoryErrors:
    """Errors of one category over all images, counted as in ``ImageErrors``.

    An error belongs to the category of its object, or without one to that of the detection.

    Attributes:
        confused_with: number of confusions of its objects with each other category, largest first.
    """

    name: str
    objects: int
    true_positives: int
    confused_with: Mapping[str, int]
    localisation_errors: int
    both_errors: int
    duplicates: int
    background_errors: int
    missed: int


def classify_detections(
    objects: Sequence[LabelledObject], detections: Sequence[Detection], threshold: float
) -> tuple[DetectionOutcome, ...]:
    """Return the outcomes of detections above a threshold, by falling score, then of missed objects.

    Detections are matched as in COCO and left out if they match an ignored object of their category.
    The outcome of a detection does not depend on detections with lower scores.
    """
    confident = sorted((d for d in detections if d.score >= threshold), key=lambda d: -d.score)
    counted = [(index, o) for index, o in enumerate(objects) if not is_ignored(o)]
    overlaps = pairwise_iou(stack_boxes(confident), stack_boxes([o for _, o in counted]))
    categories = np.array([o.category for _, o in counted], np.str_)
    is_free = np.ones(len(counted), np.bool_)
    outcomes: list[DetectionOutcome] = []
    for detection, overlap in zip(confident, overlaps, strict=True):
        is_same = categories == detection.category
        candidates = np.where(is_same & is_free, overlap, 0.0)
        if candidates.max(initial=0.0) >= MATCH_IOU:
            kind: OutcomeKind = "true positive"
            best: int | None = int(candidates.argmax())
            is_free[best] = False
        elif _lies_in_ignored(detection, objects):
            continue
        else:
            kind, best = _classify_false_positive(overlap, is_same)
        index, category = (
            (None, None) if best is None else (counted[best][0], str(categories[best]))
        )
        outcomes.append(
            DetectionOutcome(
                kind, detection.box_xyxy, detection.category, category, detection.score, index
            )
        )
    covered = {o.object_index for o in outcomes if o.kind in COVERING_KINDS}
    missed = (
        DetectionOutcome("missed", o.box_xyxy, None, o.category, None, index)
        for index, o in counted
        if index not in covered
    )
    return (*outcomes, *missed)


def classify_objects(outcomes: Sequence[DetectionOutcome]) -> dict[int, DetectionOutcome]:
    """Return one outcome for every object index: true positive, confusion, localisation or missed.

    Args:
        outcomes: result of ``classify_detections``.
    """
    by_object: dict[int, DetectionOutcome] = {}
    for kind in (*COVERING_KINDS, "missed"):
        for outcome in outcomes:
            if outcome.kind == kind and outcome.object_index is not None:
                by_object.setdefault(outcome.object_index, outcome)
    return by_object


def _classify_false_positive(
    overlap: NDArray[np.float64], is_same: NDArray[np.bool_]
) -> tuple[OutcomeKind, int | None]:
    """Return the kind of a false positive and its object, in TIDE's order of tests.

    Args:
        overlap: IoU with each counted object (n,).
        is_same: whether the object has the category of the detection (n,).
    """
    same, other = np.where(is_same, overlap, 0.0), np.where(is_same, 0.0, overlap)
    same_iou, other_iou = same.max(initial=0.0), other.max(initial=0.0)
    if OVERLAP_IOU <= same_iou < MATCH_IOU:
        return "localisation", int(same.argmax())
    if other_iou >= MATCH_IOU:
        return "confusion", int(other.argmax())
    if same_iou >= MATCH_IOU:
        return "duplicate", int(same.argmax())
    if other_iou >= OVERLAP_IOU:
        return "both", int(other.argmax())
    return "background", None


def _lies_in_ignored(detection: Detection, objects: Sequence[LabelledObject]) -> bool:
    """Return whether a detection matches an ignored object of its category."""
    ignored = [o for o in objects if is_ignored(o) and o.category == detection.category]
    if not ignored:
        return False
    box = stack_boxes([detection])
    crowds = stack_boxes([o for o in ignored if o.is_crowd])
    single = stack_boxes([o for o in ignored if not o.is_crowd])
    coverage = np.append(pairwise_coverage(box, crowds), pairwise_iou(box, single))
    return bool((coverage >= MATCH_IOU).any())


def count_confusions(
    dataset: LabelledDataset, predictions: Predictions, threshold: float
) -> NDArray[np.int64]:
    """Return the confusion matrix (categories + 1, categories + 2) at a threshold.

    Rows are the categories of objects, and background; columns the detected categories, badly placed
    boxes, and missed objects. Every object counts once; the last row counts background errors.
    """
    indices = {name: index for index, name in enumerate(dataset.categories)}
    counts = np.zeros((len(indices) + 1, len(indices) + 2), np.int64)
    for sample in dataset.samples:
        outcomes = classify_detections(sample.objects or (), predictions[sample.name], threshold)
        background = [o for o in outcomes if o.kind == "background"]
        for outcome in (*classify_objects(outcomes).values(), *background):
            columns = {"localisation": len(indices), "missed": len(indices) + 1}
            row = indices.get(str(outcome.true_category), len(indices))
            column = columns.get(outcome.kind, indices.get(str(outcome.predicted_category), 0))
            counts[row, column] += 1
    return counts


def count_errors(
    dataset: LabelledDataset, predictions: Predictions, threshold: float
) -> tuple[ImageErrors, ...]:
    """Return the errors in every image among detections with a score of at least ``threshold``, in order."""
    return tuple(
        _count_image_errors(sample, predictions[sample.name], threshold)
        for sample in dataset.samples
    )


def count_category_errors(
    dataset: LabelledDataset, predictions: Predictions, threshold: float
) -> tuple[CategoryErrors, ...]:
    """Return the errors of every category among detections with a score of at least ``threshold``."""
    outcomes = [
        outcome
        for sample in dataset.samples
        for outcome in classify_detections(
            sample.objects or (), predictions[sample.name], threshold
        )
    ]
    kinds = Counter((o.true_category or o.predicted_category, o.kind) for o in outcomes)
    confusions = Counter(
        (o.true_category, str(o.predicted_category)) for o in outcomes if o.kind == "confusion"
    )
    objects = Counter(
        o.category for s in dataset.samples for o in s.objects or () if not is_ignored(o)
    )
    return tuple(
        CategoryErrors(
            name=name,
            objects=objects[name],
            true_positives=kinds[name, "true positive"],
            confused_with={
                predicted: n for (true, predicted), n in confusions.most_common() if true == name
            },
            localisation_errors=kinds[name, "localisation"],
            both_errors=kinds[name, "both"],
            duplicates=kinds[name, "duplicate"],
            background_errors=kinds[name, "background"],
            missed=kinds[name, "missed"],
        )
        for name in dataset.categories
    )


def _count_image_errors(
    sample: LabelledImage, detections: Sequence[Detection], threshold: float
) -> ImageErrors:
    objects = sample.objects or ()
    kinds = Counter(o.kind for o in classify_detections(objects, detections, threshold))
    return ImageErrors(
        name=sample.name,
        objects=sum(not is_ignored(o) for o in objects),
        true_positives=kinds["true positive"],
        confusion_errors=kinds["confusion"],
        localisation_errors=kinds["localisation"],
        both_errors=kinds["both"],
        duplicates=kinds["duplicate"],
        background_errors=kinds["background"],
        missed=kinds["missed"],
    )
