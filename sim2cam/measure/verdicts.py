"""What is right and what is wrong in an image, object by object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim2cam.geometry.boxes import Box, pairwise_coverage, pairwise_iou
from sim2cam.measure.detection import (
    Detection,
    LabelledImages,
    LabelledObject,
    Predictions,
    boxes_of,
    is_ignored,
)
from sim2cam.measure.margin import margin_warning

Kind = Literal["right", "wrong category", "false", "missed"]

SURE_SCORE = 0.5
"""Surer detections are held against the labels."""
_FOUND_IOU = 0.5
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
        truth: category of the object; None when nothing is there.
        score: of the detection; None when missed.
        number: of the object among the labels; None when nothing is there.
    """

    kind: Kind
    box_xyxy: Box
    found: str | None
    truth: str | None
    score: float | None
    number: int | None


@dataclass(frozen=True)
class ImageErrors:
    """What is wrong in one image among detections surer than ``SURE_SCORE``.

    Attributes:
        name: of the image.
        objects: labelled objects, those that ``is_ignored`` left out.
        right: objects that were found with their category.
        wrong_category: objects that were found, but as something else.
        missed: objects that were not found.
        false: detections where no object is.
    """

    name: str
    objects: int
    right: int
    wrong_category: int
    missed: int
    false: int

    @property
    def errors(self) -> int:
        """All of them."""
        return self.wrong_category + self.missed + self.false


@dataclass(frozen=True)
class CategoryErrors:
    """What is wrong with one category, over all images, among detections surer than ``SURE_SCORE``.

    Attributes:
        name: of the category.
        objects: labelled objects, those that ``is_ignored`` left out.
        right: those that were found with their category.
        taken_for: those that were found as something else: how many as what, most first.
        missed: those that were not found.
        false: detections of it where no object is.
    """

    name: str
    objects: int
    right: int
    taken_for: Mapping[str, int]
    missed: int
    false: int


def judge(
    objects: Sequence[LabelledObject], detections: Sequence[Detection]
) -> tuple[Verdict, ...]:
    """Returns a verdict on every sure detection, surest first, then the missed objects.

    Detections of what ``is_ignored`` are left out, as they are neither right nor wrong; of a group, those
    that lie in it, as COCO has it.
    """
    sure = sorted((d for d in detections if d.score >= SURE_SCORE), key=lambda d: -d.score)
    found, labelled = boxes_of(sure), boxes_of(objects)
    groups = np.array([o.is_crowd for o in objects], np.bool_)
    overlap = np.where(  # (detections, objects)
        groups, pairwise_coverage(found, labelled), pairwise_iou(found, labelled)
    )
    ignored = np.array([is_ignored(o) for o in objects], np.bool_)
    free = ~ignored
    verdicts = []
    for index, d in enumerate(sure):
        fitting = np.where(free, overlap[index], 0.0)
        if len(objects) and fitting.max() >= _FOUND_IOU:
            best = int(fitting.argmax())
            free[best] = False
            truth = objects[best].category
            kind: Kind = "right" if truth == d.category else "wrong category"
            verdicts.append(Verdict(kind, d.box_xyxy, d.category, truth, d.score, best))
        elif not (ignored & (overlap[index] >= _FOUND_IOU)).any():
            verdicts.append(Verdict("false", d.box_xyxy, d.category, None, d.score, None))
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
        scores_warning(predictions),
        margin_warning(dataset, predictions),
    )
    return tuple(filter(None, found))


def unlabelled_warning(dataset: LabelledImages, predictions: Predictions) -> str | None:
    """Returns that something sure is found in images where nothing is labelled, in words; None where it is not."""
    bare = [sample.name for sample in dataset.samples if not sample.objects]
    found = [name for name in bare if any(d.score >= SURE_SCORE for d in predictions[name])]
    if not found:
        return None
    return (
        f"{len(bare)} of {len(dataset.samples)} images have no labelled object, and something sure is found in "
        f"{len(found)} of them, as {found[0]}: it counts as wrong. Leave out images that nobody has labelled."
    )


def scores_warning(predictions: Predictions) -> str | None:
    """Returns why verdicts mislead, in words, where scores are not 0 to 1; None otherwise."""
    scores = [one.score for found in predictions.values() for one in found]
    if all(0 <= score <= 1 for score in scores):
        return None
    return (
        f"scores are {min(scores):.3g} to {max(scores):.3g}, not 0 to 1: AP asks for their order alone, but "
        f"an object counts as found by a score of {SURE_SCORE} or more. Bring scores to 0 to 1."
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


def count_errors(dataset: LabelledImages, predictions: Predictions) -> tuple[ImageErrors, ...]:
    """Returns what is wrong in every image, in order."""
    return tuple(
        _counted(sample.name, judge(sample.objects or (), predictions[sample.name]))
        for sample in dataset.samples
    )


def count_category_errors(
    dataset: LabelledImages, predictions: Predictions
) -> tuple[CategoryErrors, ...]:
    """Returns what is wrong with every category, in order."""
    verdicts = [
        verdict
        for sample in dataset.samples
        for verdict in judge(sample.objects or (), predictions[sample.name])
    ]
    counts = Counter((v.truth, v.kind) for v in verdicts)
    false = Counter(v.found for v in verdicts if v.kind == "false")
    mixed = Counter((v.truth, v.found) for v in verdicts if v.kind == "wrong category")
    return tuple(
        CategoryErrors(
            name,
            sum(counts[name, kind] for kind in ("right", "wrong category", "missed")),
            counts[name, "right"],
            {str(found): n for (truth, found), n in mixed.most_common() if truth == name},
            counts[name, "missed"],
            false[name],
        )
        for name in dataset.categories
    )


def _counted(name: str, verdicts: Sequence[Verdict]) -> ImageErrors:
    kinds = Counter(verdict.kind for verdict in verdicts)
    right, wrong, missed = kinds["right"], kinds["wrong category"], kinds["missed"]
    return ImageErrors(name, right + wrong + missed, right, wrong, missed, kinds["false"])
