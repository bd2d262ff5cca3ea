"""What a detector finds before and after a translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import Box, pairwise_iou
from sim2cam.metrics.detection import Detection

Judge = Callable[[NDArray[np.uint8]], Sequence[Detection]]
"""Finds objects in a picture (h, w, 3), unsure ones too."""

CLEAR = 0.75  # only what is surer is held to: blur and noise move what a judge is half sure of
HALF = 0.3  # so sure before and after, a judge speaks for an object that another one lost
FAINT = 0.05  # surer detections keep an object that was found clearly; a little doubt loses none
SAME_IOU = 0.5  # from which two boxes are of one object
NEAR_IOU = 0.3  # a detection that overlaps an object so much is no hallucination


@dataclass(frozen=True)
class Opinion:
    """What a judge found of a picture.

    Attributes:
        found: objects found clearly before, that are labelled where there are labels.
        retained: of these, found again as the same category.
        vanished: of these, not found again at all.
        hallucinated: clear detections after, where nothing was labelled or found before.
        retained_by_others: objects that it does not retain, but another judge does that found them clearly, as
            the same category, before.
        found_by_others: objects that vanished for it, where another judge half believes in one, whatever it
            takes it for, before and after.
    """

    found: int
    retained: int
    vanished: int
    hallucinated: int
    retained_by_others: int = 0
    found_by_others: int = 0


def opinions_of(
    judges: Mapping[str, Judge],
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    labelled: Sequence[Box] | None,
) -> dict[str, Opinion]:
    """Returns what judges find of a picture after a translation, against what they found before.

    Args:
        judges: the detectors, by name.
        before, after: RGB (h, w, 3).
        labelled: boxes of the labelled objects; None when there are no labels.
    """
    views = {name: _view(judge, before, after, labelled) for name, judge in judges.items()}
    found: dict[str, Opinion] = {}
    for name, view in views.items():
        others = [other for who, other in views.items() if who != name]
        retained_there = _retained_by(view, others)
        again_there = _met(view.known, [box for other in others for box in other.believed])
        found[name] = Opinion(
            found=len(view.known),
            retained=int(view.is_retained.sum()),
            vanished=int((~view.is_again).sum()),
            hallucinated=view.hallucinated,
            retained_by_others=int((~view.is_retained & retained_there).sum()),
            found_by_others=int((~view.is_again & again_there).sum()),
        )
    return found


@dataclass(frozen=True, eq=False)
class _View:
    """What a judge found.

    Attributes:
        known: objects found clearly before.
        is_again: (n,) which of these are found again.
        is_retained: (n,) which of these as the same category.
        hallucinated: as ``Opinion`` has it.
        believed: where something is half believed, before and after.
    """

    known: list[Detection]
    is_again: NDArray[np.bool_]
    is_retained: NDArray[np.bool_]
    hallucinated: int
    believed: list[Box]


def _view(
    judge: Judge,
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    labelled: Sequence[Box] | None,
) -> _View:
    first, then = judge(before), judge(after)
    known = [d for d in first if d.score >= CLEAR]
    if labelled is not None:
        known = [d for d, is_one in zip(known, _met(known, labelled), strict=True) if is_one]
    faint = [d for d in then if d.score >= FAINT]
    half, still = ([d for d in seen if d.score >= HALF] for seen in (first, then))
    clear = [d for d in then if d.score >= CLEAR]
    again = _overlaps(known, _boxes([d.box_xyxy for d in faint])) >= SAME_IOU
    there = _boxes([*(d.box_xyxy for d in first if d.score >= FAINT), *(labelled or ())])
    new = _overlaps(clear, there).max(axis=1, initial=0.0) < NEAR_IOU
    is_still = _met(half, [d.box_xyxy for d in still])
    return _View(
        known,
        np.asarray(again.any(axis=1)),
        np.asarray((again & _alike(known, faint)).any(axis=1)),
        int(new.sum()),
        [d.box_xyxy for d, is_one in zip(half, is_still, strict=True) if is_one],
    )


def _retained_by(view: _View, others: Sequence[_View]) -> NDArray[np.bool_]:
    """Returns which objects (n,) of a judge are among those that others knew as the same, and retain."""
    found = np.zeros(len(view.known), np.bool_)
    for other in others:
        overlaps = _overlaps(view.known, _boxes([d.box_xyxy for d in other.known])) >= SAME_IOU
        found |= (overlaps & _alike(view.known, other.known) & other.is_retained).any(axis=1)
    return found


def _met(found: Sequence[Detection], boxes: Sequence[Box]) -> NDArray[np.bool_]:
    """Returns which detections (n,) lie where one of some boxes does."""
    return np.asarray((_overlaps(found, _boxes(boxes)) >= SAME_IOU).any(axis=1))


def _alike(some: Sequence[Detection], others: Sequence[Detection]) -> NDArray[np.bool_]:
    """Returns which of two lots of detections are of one category (n, m)."""
    alike = [[one.category == other.category for other in others] for one in some]
    return np.array(alike, np.bool_).reshape(len(some), len(others))


def _overlaps(found: Sequence[Detection], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    return pairwise_iou(_boxes([d.box_xyxy for d in found]), boxes)


def _boxes(boxes: Sequence[Box]) -> NDArray[np.float64]:
    return np.array(boxes, np.float64).reshape(-1, 4)
