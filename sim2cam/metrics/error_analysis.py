"""What is right and what is wrong in an image, object by object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim2cam.geometry.boxes import Box, pairwise_coverage, pairwise_iou
from sim2cam.metrics.box_expansion import margin_warning
from sim2cam.metrics.detection import (
    Detection,
    LabelledImages,
    LabelledObject,
    Predictions,
    boxes_of,
    category_matches,
    is_ignored,
)

Kind = Literal["right", "wrong category", "poorly placed", "duplicate", "false", "missed"]

DEFAULT_THRESHOLD = 0.5
"""Score from which on detections count where none of any score is right."""
FOUND_IOU = 0.5
TOUCHED_IOU = 0.1
"""IoU below which a detection has nothing to do with an object (Bolya et al. 2020, "TIDE")."""
_RULES: tuple[tuple[Kind, bool, float], ...] = (
    ("right", True, FOUND_IOU),
    ("wrong category", False, FOUND_IOU),
    ("poorly placed", True, TOUCHED_IOU),
    ("poorly placed", False, TOUCHED_IOU),
)
"""What a detection of an object is, in the order in which objects are assigned: kind, whether the categories
must be the same, least IoU."""
_SHARES_END = 2.0
"""Pixels from a picture's corner within which boxes end that are shares of its sides."""
_MANY_OUTSIDE = 0.01
"""Share of boxes that lie outside their pictures, beyond which something is wrong with all of them."""


@dataclass(frozen=True)
class Verdict:
    """One detection, or one object that was missed.

    Attributes:
        kind: what it is.
        box_xyxy: of the detection; of the object when it was missed, pixels.
        found: category of the detection; None when missed.
        truth: category of the object; None of a duplicate and when nothing is there.
        score: of the detection; None when missed.
        number: of the object among the labels; None of a duplicate and when nothing is there.
    """

    kind: Kind
    box_xyxy: Box
    found: str | None
    truth: str | None
    score: float | None
    number: int | None


@dataclass(frozen=True)
class ImageErrors:
    """Errors in one image. Every object and every detection is counted once.

    Attributes:
        name: of the image.
        objects: labelled objects without those that ``is_ignored``: the sum of the next four.
        right: objects that were found with their category.
        wrong_category: objects that were found as another category.
        misplaced: objects that were found by a box of IoU ``TOUCHED_IOU`` to ``FOUND_IOU``.
        missed: objects that no detection overlaps.
        duplicate: further detections of objects that were found.
        false: detections that overlap no object.
    """

    name: str
    objects: int
    right: int
    wrong_category: int
    misplaced: int
    missed: int
    duplicate: int
    false: int

    @property
    def errors(self) -> int:
        """All of them."""
        return self.wrong_category + self.misplaced + self.missed + self.duplicate + self.false


@dataclass(frozen=True)
class CategoryErrors:
    """Errors of one category over all images.

    Attributes:
        name: of the category.
        objects: its labelled objects without those that ``is_ignored``.
        right, misplaced, missed: of these objects, as in ``ImageErrors``.
        taken_for: those that were found as another category: how many as which, most first.
        duplicate, false: detections of the category, as in ``ImageErrors``.
    """

    name: str
    objects: int
    right: int
    taken_for: Mapping[str, int]
    misplaced: int
    missed: int
    duplicate: int
    false: int


def best_threshold(dataset: LabelledImages, predictions: Predictions) -> float:
    """Return the score from which on detections have the best F1 at IoU 0.5, over all categories.

    Of several, it is the highest. ``DEFAULT_THRESHOLD`` where no detection is right.
    """
    matches = [
        image
        for category in dataset.categories
        for image in category_matches(dataset, predictions, category)
    ]
    scores = np.concatenate([np.zeros(0), *(image.scores for image in matches)])
    right = np.concatenate([np.zeros(0), *(image.right[0] for image in matches)])
    counted = np.concatenate([np.zeros(0), *(image.counted[0] for image in matches)])
    if not right.any():
        return DEFAULT_THRESHOLD
    order = np.argsort(-scores, kind="stable")
    scores = scores[order]
    objects = sum(image.objects for image in matches)
    f1 = 2 * right[order].cumsum() / (counted[order].cumsum() + objects)
    f1[:-1][scores[:-1] == scores[1:]] = 0  # a threshold takes all detections of one score
    return float(scores[f1.argmax()])


def judge(
    objects: Sequence[LabelledObject], detections: Sequence[Detection], threshold: float
) -> tuple[Verdict, ...]:
    """Return what every detection of a score from ``threshold`` on is, surest first, then the missed objects.

    Every object has one verdict: its own category is assigned first, then others, then badly placed boxes
    (``_RULES``). Detections of what ``is_ignored`` are left out, as they are neither right nor wrong; of a
    group, those that lie in it, as COCO has it.
    """
    sure = sorted((d for d in detections if d.score >= threshold), key=lambda d: -d.score)
    found, labelled = boxes_of(sure), boxes_of(objects)
    overlap = pairwise_iou(found, labelled)  # (detections, objects)
    ignored = np.array([is_ignored(o) for o in objects], np.bool_)
    groups = np.array([o.is_crowd for o in objects], np.bool_)
    covered = np.where(groups, pairwise_coverage(found, labelled), overlap)
    is_left_out = np.any(ignored & (covered >= FOUND_IOU), axis=1).reshape(-1)
    same = np.array([[d.category == o.category for o in objects] for d in sure], np.bool_)
    same = same.reshape(overlap.shape)
    free = ~ignored
    kinds: dict[int, tuple[Kind, int]] = {}
    for kind, same_category, least in _RULES:
        for index in range(len(sure)):
            if index in kinds or (is_left_out[index] and kind == "poorly placed"):
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
            verdicts.append(Verdict(kind, d.box_xyxy, d.category, truth, d.score, best))
        elif not is_left_out[index]:
            touches = (~ignored & (overlap[index] >= TOUCHED_IOU)).any()
            kind = "duplicate" if touches else "false"
            verdicts.append(Verdict(kind, d.box_xyxy, d.category, None, d.score, None))
    missed = (
        Verdict("missed", o.box_xyxy, None, o.category, None, number)
        for number, o in enumerate(objects)
        if free[number]
    )
    return (*verdicts, *missed)


def oddities(dataset: LabelledImages, predictions: Predictions) -> tuple[str, ...]:
    """Returns, in words, what is odd about labels and what was found, by which a score can mislead."""
    found = (
        boxes_warning(dataset, predictions),
        repeats_warning(dataset),
        unlabelled_warning(dataset, predictions),
        margin_warning(dataset, predictions),
    )
    return tuple(filter(None, found))


def unlabelled_warning(dataset: LabelledImages, predictions: Predictions) -> str | None:
    """Returns that something sure is found in images where nothing is labelled, in words; None where it is not."""
    bare = [sample.name for sample in dataset.samples if not sample.objects]
    threshold = best_threshold(dataset, predictions)
    found = [name for name in bare if any(d.score >= threshold for d in predictions[name])]
    if not found:
        return None
    return (
        f"{len(bare)} of {len(dataset.samples)} images have no labelled object, and something sure is found in "
        f"{len(found)} of them, as {found[0]}: it counts as wrong. Leave out images that nobody has labelled."
    )


def empty_warning(predictions: Predictions) -> str | None:
    """Returns that results say nothing of some images, in words; None where they do of all."""
    empty = [name for name, found in predictions.items() if not found]
    if not empty:
        return None
    return (
        f"there is no result of {len(empty)} of {len(predictions)} images, as {empty[0]}: what they show counts "
        "as missed."
    )


def boxes_warning(dataset: LabelledImages, predictions: Predictions) -> str | None:
    """Returns why boxes cannot be right, in words, where they look like shares of the sides or many lie outside
    their pictures; None otherwise.
    """
    truth = {sample.name: boxes_of(sample.objects or ()) for sample in dataset.samples}
    found = {sample.name: boxes_of(predictions[sample.name]) for sample in dataset.samples}
    ends = {sample.name: np.array([sample.width, sample.height]) for sample in dataset.samples}
    for words, boxes in (("labelled", truth), ("found", found)):
        every = np.concatenate(list(boxes.values()))
        if not len(every):
            continue
        if every.max() <= _SHARES_END:
            return (
                f"all {words} boxes end within {every.max():.3g} pixels of the corner: they look like shares of a "
                "picture's sides. Write them in pixels."
            )
        outside = {
            name: int(((each[:, 2:] <= 0) | (each[:, :2] >= ends[name])).any(axis=1).sum())
            for name, each in boxes.items()
        }
        if sum(outside.values()) > _MANY_OUTSIDE * len(every):
            first = next(name for name, count in outside.items() if count)
            return (
                f"{sum(outside.values())} of {len(every)} {words} boxes lie wholly outside their pictures, as in "
                f"{first}. Are they of pictures of this size, and x, y, width, height?"
            )
    return None


def repeats_warning(dataset: LabelledImages) -> str | None:
    """Returns that objects are labelled twice, in words; None where none is."""
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
    dataset: LabelledImages, predictions: Predictions, threshold: float
) -> tuple[ImageErrors, ...]:
    """Return the errors in every image among detections of a score from ``threshold`` on, in order."""
    return tuple(
        _counted(sample.name, judge(sample.objects or (), predictions[sample.name], threshold))
        for sample in dataset.samples
    )


def count_category_errors(
    dataset: LabelledImages, predictions: Predictions, threshold: float
) -> tuple[CategoryErrors, ...]:
    """Return the errors of every category among detections of a score from ``threshold`` on, in order."""
    verdicts = [
        verdict
        for sample in dataset.samples
        for verdict in judge(sample.objects or (), predictions[sample.name], threshold)
    ]
    objects = Counter((v.truth, v.kind) for v in verdicts if v.number is not None)
    others = Counter((v.found, v.kind) for v in verdicts if v.number is None)
    mixed = Counter((v.truth, v.found) for v in verdicts if v.kind == "wrong category")
    return tuple(
        CategoryErrors(
            name=name,
            objects=sum(n for (truth, _), n in objects.items() if truth == name),
            right=objects[name, "right"],
            taken_for={str(found): n for (truth, found), n in mixed.most_common() if truth == name},
            misplaced=objects[name, "poorly placed"],
            missed=objects[name, "missed"],
            duplicate=others[name, "duplicate"],
            false=others[name, "false"],
        )
        for name in dataset.categories
    )


def _counted(name: str, verdicts: Sequence[Verdict]) -> ImageErrors:
    kinds = Counter(verdict.kind for verdict in verdicts)
    return ImageErrors(
        name=name,
        objects=sum(verdict.number is not None for verdict in verdicts),
        right=kinds["right"],
        wrong_category=kinds["wrong category"],
        misplaced=kinds["poorly placed"],
        missed=kinds["missed"],
        duplicate=kinds["duplicate"],
        false=kinds["false"],
    )
