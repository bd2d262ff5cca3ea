"""What is right and what is wrong in an image, object by object."""

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
"""Score from which on detections count where none of any score is right."""
MATCH_IOU = 0.5
OVERLAP_IOU = 0.1
"""IoU below which a detection has nothing to do with an object (Bolya et al. 2020, "TIDE")."""
_ASSIGNMENT_RULES: tuple[tuple[OutcomeKind, bool, float], ...] = (
    ("true positive", True, MATCH_IOU),
    ("confusion", False, MATCH_IOU),
    ("localisation", True, OVERLAP_IOU),
    ("localisation", False, OVERLAP_IOU),
)
"""What a detection of an object is, in the order in which objects are assigned: kind, whether the categories
must be the same, least IoU."""
_MAX_NORMALISED_COORDINATE_PX = 2.0
"""Pixels from a picture's corner within which boxes end that are shares of its sides."""
_MAX_OUTSIDE_FRACTION = 0.01
"""Share of boxes that lie outside their pictures, beyond which something is wrong with all of them."""


@dataclass(frozen=True)
class DetectionOutcome:
    """One detection, or one object that was missed.

    Attributes:
        kind: what it is.
        box_xyxy: of the detection; of the object when it was missed, pixels.
        predicted_category: category of the detection; None when missed.
        true_category: category of the object; None of a duplicate and when nothing is there.
        score: of the detection; None when missed.
        object_index: of the object among the labels; None of a duplicate and when nothing is there.
    """

    kind: OutcomeKind
    box_xyxy: Box
    predicted_category: str | None
    true_category: str | None
    score: float | None
    object_index: int | None


@dataclass(frozen=True)
class ImageErrors:
    """Errors in one image. Every object and every detection is counted once.

    Attributes:
        name: of the image.
        objects: labelled objects without those that ``is_ignored``: the sum of the next four.
        true_positives: objects that were found with their category.
        confusion_errors: objects that were found as another category.
        localisation_errors: objects that were found by a box of IoU ``OVERLAP_IOU`` to ``MATCH_IOU``.
        missed: objects that no detection overlaps.
        duplicates: further detections of objects that were found.
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
        """All of them."""
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
        name: of the category.
        objects: its labelled objects without those that ``is_ignored``.
        true_positives, localisation_errors, missed: of these objects, as in ``ImageErrors``.
        confused_with: those that were found as another category: how many as which, most first.
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
    """Return the score from which on detections have the best F1 at IoU 0.5, over all categories.

    Of several, it is the highest. ``DEFAULT_SCORE_THRESHOLD`` where no detection is right.
    """
    matches = [
        image
        for category in dataset.categories
        for image in match_category(dataset, predictions, category)
    ]
    scores = np.concatenate([np.zeros(0), *(image.scores for image in matches)])
    right = np.concatenate([np.zeros(0), *(image.is_true_positive[0] for image in matches)])
    counted = np.concatenate([np.zeros(0), *(image.is_counted[0] for image in matches)])
    if not right.any():
        return DEFAULT_SCORE_THRESHOLD
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    objects = sum(image.n_objects for image in matches)
    f1 = 2 * right[order].cumsum() / (counted[order].cumsum() + objects)
    f1[:-1][scores[:-1] == scores[1:]] = 0  # a threshold takes all detections of one score
    return float(scores[f1.argmax()])


def classify_detections(
    objects: Sequence[LabelledObject], detections: Sequence[Detection], threshold: float
) -> tuple[DetectionOutcome, ...]:
    """Return what every detection of a score from ``threshold`` on is, surest first, then the missed objects.

    Every object has one verdict: its own category is assigned first, then others, then badly placed boxes
    (``_ASSIGNMENT_RULES``). Detections of what ``is_ignored`` are left out, as they are neither right nor wrong; of a
    group, those that lie in it, as COCO has it.
    """
    sure = sorted((d for d in detections if d.score >= threshold), key=lambda d: -d.score)
    found, labelled = stack_boxes(sure), stack_boxes(objects)
    overlap = pairwise_iou(found, labelled)  # (detections, objects)
    ignored = np.array([is_ignored(o) for o in objects], np.bool_)
    groups = np.array([o.is_crowd for o in objects], np.bool_)
    covered = np.where(groups, pairwise_coverage(found, labelled), overlap)
    is_left_out = np.any(ignored & (covered >= MATCH_IOU), axis=1).reshape(-1)
    same = np.array([[d.category == o.category for o in objects] for d in sure], np.bool_)
    same = same.reshape(overlap.shape)
    free = ~ignored
    kinds: dict[int, tuple[OutcomeKind, int]] = {}
    for kind, same_category, least in _ASSIGNMENT_RULES:
        for index in range(len(sure)):
            if index in kinds or (is_left_out[index] and kind == "localisation"):
                continue
            fitting = np.where(free & (same[index] == same_category), overlap[index], 0.0)
            if len(objects) and fitting.max() >= least:
                best = int(fitting.argmax())
                free[best] = False
                kinds[index] = kind, best
    verdicts = []
    for index, d in enumerate(sure):
        if index in kinds:
            kind, best = kinds[index]
            truth = objects[best].category
            verdicts.append(DetectionOutcome(kind, d.box_xyxy, d.category, truth, d.score, best))
        elif not is_left_out[index]:
            touches = (~ignored & (overlap[index] >= OVERLAP_IOU)).any()
            kind = "duplicate" if touches else "background"
            verdicts.append(DetectionOutcome(kind, d.box_xyxy, d.category, None, d.score, None))
    missed = (
        DetectionOutcome("missed", o.box_xyxy, None, o.category, None, number)
        for number, o in enumerate(objects)
        if free[number]
    )
    return (*verdicts, *missed)


def find_sanity_warnings(dataset: LabelledDataset, predictions: Predictions) -> tuple[str, ...]:
    """Return, in words, what is odd about labels and what was found, by which a score can mislead."""
    found = (
        find_box_warning(dataset, predictions),
        find_duplicate_label_warning(dataset),
        find_unlabelled_warning(dataset, predictions),
        find_expansion_warning(dataset, predictions),
    )
    return tuple(filter(None, found))


def find_unlabelled_warning(dataset: LabelledDataset, predictions: Predictions) -> str | None:
    """Return that something sure is found in images where nothing is labelled, in words; None where it is not."""
    bare = [sample.name for sample in dataset.samples if not sample.objects]
    threshold = find_best_f1_threshold(dataset, predictions)
    found = [name for name in bare if any(d.score >= threshold for d in predictions[name])]
    if not found:
        return None
    return (
        f"{len(bare)} of {len(dataset.samples)} images have no labelled object, and something sure is found in "
        f"{len(found)} of them, as {found[0]}: it counts as wrong. Leave out images that nobody has labelled."
    )


def find_missing_results_warning(predictions: Predictions) -> str | None:
    """Return that results say nothing of some images, in words; None where they do of all."""
    empty = [name for name, found in predictions.items() if not found]
    if not empty:
        return None
    return (
        f"there is no result of {len(empty)} of {len(predictions)} images, as {empty[0]}: what they show counts "
        "as missed."
    )


def find_box_warning(dataset: LabelledDataset, predictions: Predictions) -> str | None:
    """Return why boxes cannot be right, in words, where they look like shares of the sides or many lie outside
    their pictures; None otherwise.
    """
    truth = {sample.name: stack_boxes(sample.objects or ()) for sample in dataset.samples}
    found = {sample.name: stack_boxes(predictions[sample.name]) for sample in dataset.samples}
    ends = {sample.name: np.array([sample.width, sample.height]) for sample in dataset.samples}
    for words, boxes in (("labelled", truth), ("found", found)):
        every = np.concatenate(list(boxes.values()))
        if not len(every):
            continue
        if every.max() <= _MAX_NORMALISED_COORDINATE_PX:
            return (
                f"all {words} boxes end within {every.max():.3g} pixels of the corner: they look like shares of a "
                "picture's sides. Write them in pixels."
            )
        outside = {
            name: int(((each[:, 2:] <= 0) | (each[:, :2] >= ends[name])).any(axis=1).sum())
            for name, each in boxes.items()
        }
        if sum(outside.values()) > _MAX_OUTSIDE_FRACTION * len(every):
            first = next(name for name, count in outside.items() if count)
            return (
                f"{sum(outside.values())} of {len(every)} {words} boxes lie wholly outside their pictures, as in "
                f"{first}. Are they of pictures of this size, and x, y, width, height?"
            )
    return None


def find_duplicate_label_warning(dataset: LabelledDataset) -> str | None:
    """Return that objects are labelled twice, in words; None where none is."""
    repeats = {
        sample.name: labels.total() - len(labels)
        for sample in dataset.samples
        for labels in [Counter((o.category, o.box_xyxy) for o in sample.objects or ())]
        if labels.total() > len(labels)
    }
    if not repeats:
        return None
    return (
        f"{sum(repeats.values())} labels are there twice, with the same category and box, as in "
        f"{next(iter(repeats))}: no detector finds an object twice. Remove the repeats."
    )


def count_errors(
    dataset: LabelledDataset, predictions: Predictions, threshold: float
) -> tuple[ImageErrors, ...]:
    """Return the errors in every image among detections of a score from ``threshold`` on, in order."""
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
    """Return the errors of every category among detections of a score from ``threshold`` on, in order."""
    verdicts = [
        verdict
        for sample in dataset.samples
        for verdict in classify_detections(
            sample.objects or (), predictions[sample.name], threshold
        )
    ]
    objects = Counter((v.true_category, v.kind) for v in verdicts if v.object_index is not None)
    others = Counter((v.predicted_category, v.kind) for v in verdicts if v.object_index is None)
    mixed = Counter(
        (v.true_category, v.predicted_category) for v in verdicts if v.kind == "confusion"
    )
    return tuple(
        CategoryErrors(
            name=name,
            objects=sum(n for (truth, _), n in objects.items() if truth == name),
            true_positives=objects[name, "true positive"],
            confused_with={
                str(found): n for (truth, found), n in mixed.most_common() if truth == name
            },
            localisation_errors=objects[name, "localisation"],
            missed=objects[name, "missed"],
            duplicates=others[name, "duplicate"],
            background_errors=others[name, "background"],
        )
        for name in dataset.categories
    )


def _count_image_errors(name: str, outcomes: Sequence[DetectionOutcome]) -> ImageErrors:
    kinds = Counter(verdict.kind for verdict in outcomes)
    return ImageErrors(
        name=name,
        objects=sum(verdict.object_index is not None for verdict in outcomes),
        true_positives=kinds["true positive"],
        confusion_errors=kinds["confusion"],
        localisation_errors=kinds["localisation"],
        missed=kinds["missed"],
        duplicates=kinds["duplicate"],
        background_errors=kinds["background"],
    )
