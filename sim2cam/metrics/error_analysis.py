"""Error types of detections per object, image and category, after TIDE (Bolya et al. 2020)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim2cam.geometry.boxes import Box, pairwise_coverage, pairwise_iou
from sim2cam.metrics.box_expansion import find_expansion_warning
from sim2cam.metrics.detection import (
    Detection,
    LabelledDataset,
    LabelledObject,
    Predictions,
    is_ignored,
    match_category,
    stack_boxes,
)

OutcomeKind = Literal[
    "true positive", "confusion", "localisation", "duplicate", "background", "missed"
]

DEFAULT_SCORE_THRESHOLD = 0.5
"""Score threshold if no detection is correct."""
MATCH_IOU = 0.5
OVERLAP_IOU = 0.1
"""IoU below which a detection does not belong to an object (Bolya et al. 2020, "TIDE")."""
_ASSIGNMENT_RULES: tuple[tuple[OutcomeKind, bool, float], ...] = (
    ("true positive", True, MATCH_IOU),
    ("confusion", False, MATCH_IOU),
    ("localisation", True, OVERLAP_IOU),
    ("localisation", False, OVERLAP_IOU),
)
"""Rules that assign detections to objects, in order: kind, whether categories must agree, minimum IoU."""
_MAX_NORMALISED_COORDINATE_PX = 2.0
"""Maximum coordinate of boxes that are taken for normalised coordinates."""
_MAX_OUTSIDE_FRACTION = 0.01
"""Fraction of boxes outside their images above which all boxes are suspect."""


@dataclass(frozen=True)
class DetectionOutcome:
    """Outcome of one detection, or a missed object.

    Attributes:
        kind: error type, or true positive.
        box_xyxy: box of the detection, or of the missed object, pixels.
        predicted_category: category of the detection; None if missed.
        true_category: category of the object; None for duplicates and background.
        score: score of the detection; None if missed.
        object_index: index of the object among the labels; None for duplicates and background.
    """

    kind: OutcomeKind
    box_xyxy: Box
    predicted_category: str | None
    true_category: str | None
    score: float | None
    object_index: int | None


@dataclass(frozen=True)
class ImageErrors:
    """Errors in one image. Every object and every detection counts once.

    Attributes:
        objects: number of labelled objects without ignored ones: the sum of the next four.
        true_positives: objects detected with their category.
        confusion_errors: objects detected as another category.
        localisation_errors: objects detected by a box of IoU ``OVERLAP_IOU`` to ``MATCH_IOU``.
        missed: objects without an overlapping detection.
        duplicates: further detections of detected objects.
        background_errors: detections that overlap no object.
    """

    name: str
    objects: int
    true_positives: int
    confusion_errors: int
    localisation_errors: int
    missed: int
    duplicates: int
    background_errors: int

    @property
    def errors(self) -> int:
        """Total number of errors."""
        return (
            self.confusion_errors
            + self.localisation_errors
            + self.missed
            + self.duplicates
            + self.background_errors
        )


@dataclass(frozen=True)
class CategoryErrors:
    """Errors of one category over all images.

    Attributes:
        objects: number of its labelled objects without ignored ones.
        true_positives, localisation_errors, missed: outcomes of these objects, as in
            ``ImageErrors``.
        confused_with: number of its objects detected as each other category, largest first.
        duplicates, background_errors: detections of the category, as in ``ImageErrors``.
    """

    name: str
    objects: int
    true_positives: int
    confused_with: Mapping[str, int]
    localisation_errors: int
    missed: int
    duplicates: int
    background_errors: int


def find_best_f1_threshold(dataset: LabelledDataset, predictions: Predictions) -> float:
    """Return the score threshold with the best F1 at IoU 0.5 over all categories.

    The highest of equals; ``DEFAULT_SCORE_THRESHOLD`` if no detection is correct.
    """
    matches = [
        image
        for category in dataset.categories
        for image in match_category(dataset, predictions, category)
    ]
    scores = np.concatenate([np.zeros(0), *(image.scores for image in matches)])
    is_correct = np.concatenate([np.zeros(0), *(image.is_true_positive[0] for image in matches)])
    is_counted = np.concatenate([np.zeros(0), *(image.is_counted[0] for image in matches)])
    if not is_correct.any():
        return DEFAULT_SCORE_THRESHOLD
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    objects = sum(image.n_objects for image in matches)
    f1 = 2 * is_correct[order].cumsum() / (is_counted[order].cumsum() + objects)
    f1[:-1][scores[:-1] == scores[1:]] = 0  # a threshold cannot separate equal scores
    return float(scores[f1.argmax()])


def classify_detections(
    objects: Sequence[LabelledObject], detections: Sequence[Detection], threshold: float
) -> tuple[DetectionOutcome, ...]:
    """Return the outcomes of detections above a threshold, by falling score, then of missed objects.

    Every object has one outcome, by ``_ASSIGNMENT_RULES``: its own category first, then other
    categories, then poor localisation. Detections of ignored objects are left out, as are
    detections inside crowds (as in COCO).
    """
    confident = sorted((d for d in detections if d.score >= threshold), key=lambda d: -d.score)
    detected_boxes, labelled_boxes = stack_boxes(confident), stack_boxes(objects)
    overlap = pairwise_iou(detected_boxes, labelled_boxes)  # (detections, objects)
    are_ignored = np.array([is_ignored(o) for o in objects], np.bool_)
    are_crowds = np.array([o.is_crowd for o in objects], np.bool_)
    coverage = np.where(are_crowds, pairwise_coverage(detected_boxes, labelled_boxes), overlap)
    is_left_out = np.any(are_ignored & (coverage >= MATCH_IOU), axis=1).reshape(-1)
    same_category = np.array(
        [[d.category == o.category for o in objects] for d in confident], np.bool_
    )
    same_category = same_category.reshape(overlap.shape)
    is_free = ~are_ignored
    assigned: dict[int, tuple[OutcomeKind, int]] = {}
    for kind, must_agree, min_iou in _ASSIGNMENT_RULES:
        for index in range(len(confident)):
            if index in assigned or (is_left_out[index] and kind == "localisation"):
                continue
            candidates = np.where(
                is_free & (same_category[index] == must_agree), overlap[index], 0.0
            )
            if len(objects) and candidates.max() >= min_iou:
                best = int(candidates.argmax())
                is_free[best] = False
                assigned[index] = kind, best
    outcomes = []
    for index, d in enumerate(confident):
        if index in assigned:
            kind, best = assigned[index]
            true_category = objects[best].category
            outcomes.append(
                DetectionOutcome(kind, d.box_xyxy, d.category, true_category, d.score, best)
            )
        elif not is_left_out[index]:
            overlaps = (~are_ignored & (overlap[index] >= OVERLAP_IOU)).any()
            kind = "duplicate" if overlaps else "background"
            outcomes.append(DetectionOutcome(kind, d.box_xyxy, d.category, None, d.score, None))
    missed = (
        DetectionOutcome("missed", o.box_xyxy, None, o.category, None, number)
        for number, o in enumerate(objects)
        if is_free[number]
    )
    return (*outcomes, *missed)


def find_sanity_warnings(dataset: LabelledDataset, predictions: Predictions) -> tuple[str, ...]:
    """Return warnings about labels and detections that can make scores misleading."""
    sanity_warnings = (
        find_box_warning(dataset, predictions),
        find_duplicate_label_warning(dataset),
        find_unlabelled_warning(dataset, predictions),
        find_expansion_warning(dataset, predictions),
    )
    return tuple(filter(None, sanity_warnings))


def find_unlabelled_warning(dataset: LabelledDataset, predictions: Predictions) -> str | None:
    """Return a warning if confident detections lie in images without labels, else None."""
    unlabelled = [sample.name for sample in dataset.samples if not sample.objects]
    threshold = find_best_f1_threshold(dataset, predictions)
    detected = [name for name in unlabelled if any(d.score >= threshold for d in predictions[name])]
    if not detected:
        return None
    return (
        f"{len(unlabelled)} of {len(dataset.samples)} images have no labelled object. {len(detected)} of them, e.g. "
        f"{detected[0]}, have confident detections, which count as errors. Remove images that are not labelled."
    )


def find_missing_results_warning(predictions: Predictions) -> str | None:
    """Return a warning if images have no detections, else None."""
    empty = [name for name, detections in predictions.items() if not detections]
    if not empty:
        return None
    return (
        f"{len(empty)} of {len(predictions)} images, e.g. {empty[0]}, have no results: their objects count as "
        "missed."
    )


def find_box_warning(dataset: LabelledDataset, predictions: Predictions) -> str | None:
    """Return a warning if boxes look normalised or many lie outside their images, else None."""
    labelled = {sample.name: stack_boxes(sample.objects or ()) for sample in dataset.samples}
    detected = {sample.name: stack_boxes(predictions[sample.name]) for sample in dataset.samples}
    sizes = {sample.name: np.array([sample.width, sample.height]) for sample in dataset.samples}
    for kind, boxes in (("labelled", labelled), ("detected", detected)):
        all_boxes = np.concatenate(list(boxes.values()))
        if not len(all_boxes):
            continue
        if all_boxes.max() <= _MAX_NORMALISED_COORDINATE_PX:
            return (
                f"no coordinate of the {kind} boxes exceeds {all_boxes.max():.3g}: they look normalised to the "
                "image size. Write them in pixels."
            )
        outside = {
            name: int(
                ((image_boxes[:, 2:] <= 0) | (image_boxes[:, :2] >= sizes[name])).any(axis=1).sum()
            )
            for name, image_boxes in boxes.items()
        }
        if sum(outside.values()) > _MAX_OUTSIDE_FRACTION * len(all_boxes):
            first = next(name for name, count in outside.items() if count)
            return (
                f"{sum(outside.values())} of {len(all_boxes)} {kind} boxes lie outside their images, e.g. in {first}. "
                "Check the image size and that boxes are x, y, width, height."
            )
    return None


def find_duplicate_label_warning(dataset: LabelledDataset) -> str | None:
    """Return a warning if objects are labelled twice, else None."""
    duplicates = {
        sample.name: labels.total() - len(labels)
        for sample in dataset.samples
        for labels in [Counter((o.category, o.box_xyxy) for o in sample.objects or ())]
        if labels.total() > len(labels)
    }
    if not duplicates:
        return None
    return (
        f"{sum(duplicates.values())} labels are duplicates with the same category and box, e.g. in "
        f"{next(iter(duplicates))}; one of each counts as missed. Remove them."
    )


def count_errors(
    dataset: LabelledDataset, predictions: Predictions, threshold: float
) -> tuple[ImageErrors, ...]:
    """Return the errors in every image among detections with a score of at least ``threshold``, in order."""
    return tuple(
        _count_image_errors(
            sample.name,
            classify_detections(sample.objects or (), predictions[sample.name], threshold),
        )
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
    assigned = Counter((o.true_category, o.kind) for o in outcomes if o.object_index is not None)
    unassigned = Counter((o.predicted_category, o.kind) for o in outcomes if o.object_index is None)
    confusions = Counter(
        (o.true_category, o.predicted_category) for o in outcomes if o.kind == "confusion"
    )
    return tuple(
        CategoryErrors(
            name=name,
            objects=sum(n for (true, _), n in assigned.items() if true == name),
            true_positives=assigned[name, "true positive"],
            confused_with={
                str(predicted): n
                for (true, predicted), n in confusions.most_common()
                if true == name
            },
            localisation_errors=assigned[name, "localisation"],
            missed=assigned[name, "missed"],
            duplicates=unassigned[name, "duplicate"],
            background_errors=unassigned[name, "background"],
        )
        for name in dataset.categories
    )


def _count_image_errors(name: str, outcomes: Sequence[DetectionOutcome]) -> ImageErrors:
    kinds = Counter(outcome.kind for outcome in outcomes)
    return ImageErrors(
        name=name,
        objects=sum(outcome.object_index is not None for outcome in outcomes),
        true_positives=kinds["true positive"],
        confusion_errors=kinds["confusion"],
        localisation_errors=kinds["localisation"],
        missed=kinds["missed"],
        duplicates=kinds["duplicate"],
        background_errors=kinds["background"],
    )
