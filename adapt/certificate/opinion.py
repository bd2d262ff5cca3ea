"""What a detector finds before and after a translation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import Box, pairwise_iou
from sim2cam.measure.detection import Detection

Judge = Callable[[NDArray[np.uint8]], Sequence[Detection]]
"""Finds objects in a picture (h, w, 3), unsure ones too."""

CLEAR = 0.75  # only what is surer is held to: blur and noise move what a judge is half sure of
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
    """

    found: int
    retained: int
    vanished: int
    hallucinated: int


def opinion_of(
    judge: Judge,
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    labelled: Sequence[Box] | None,
) -> Opinion:
    """Returns what a judge finds of a picture after a translation, against what it found before.

    Args:
        judge: the detector.
        before, after: RGB (h, w, 3).
        labelled: boxes of the labelled objects; None when there are no labels.
    """
    first, then = judge(before), judge(after)
    known = [d for d in first if d.score >= CLEAR]
    if labelled is not None:
        covered = _overlaps(known, _boxes(labelled)).max(axis=1, initial=0.0) >= SAME_IOU
        known = [d for d, is_one in zip(known, covered, strict=True) if is_one]
    faint = [d for d in then if d.score >= FAINT]
    clear = [d for d in then if d.score >= CLEAR]
    again = _overlaps(known, _boxes([d.box_xyxy for d in faint])) >= SAME_IOU
    same = np.array([[k.category == d.category for d in faint] for k in known], np.bool_)
    there = _boxes([*(d.box_xyxy for d in first if d.score >= FAINT), *(labelled or ())])
    new = _overlaps(clear, there).max(axis=1, initial=0.0) < NEAR_IOU
    return Opinion(
        found=len(known),
        retained=int((again & same.reshape(again.shape)).any(axis=1).sum()),
        vanished=int((~again.any(axis=1)).sum()),
        hallucinated=int(new.sum()),
    )


def _overlaps(found: Sequence[Detection], boxes: NDArray[np.float64]) -> NDArray[np.float64]:
    return pairwise_iou(_boxes([d.box_xyxy for d in found]), boxes)


def _boxes(boxes: Sequence[Box]) -> NDArray[np.float64]:
    return np.array(boxes, np.float64).reshape(-1, 4)
