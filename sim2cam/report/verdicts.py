"""What is right and what is wrong in one image, object by object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sim2cam.dataset.sample import ObjectLabel
from sim2cam.geometry.boxes import Box, pairwise_iou
from sim2cam.measure.detection import ERROR_IOU, ERROR_SCORE, Detection

Kind = Literal["right", "wrong category", "false", "missed"]


@dataclass(frozen=True)
class Verdict:
    """One detection, or one object that was missed.

    Attributes:
        kind: what it is; counted as in ``measure.detection.ImageErrors``.
        box_xyxy: of the detection; of the object when it was missed, pixels.
        found: category of the detection; None when missed.
        truth: category of the object; None when nothing is there.
        score: of the detection; None when missed.
    """

    kind: Kind
    box_xyxy: Box
    found: str | None
    truth: str | None
    score: float | None


def judge(objects: Sequence[ObjectLabel], detections: Sequence[Detection]) -> tuple[Verdict, ...]:
    """Returns a verdict on every sure detection, surest first, then the missed objects.

    Detections in a labelled group are left out, as they are neither right nor wrong.
    """
    sure = sorted((d for d in detections if d.score >= ERROR_SCORE), key=lambda d: -d.score)
    overlap = pairwise_iou(_boxes(sure), _boxes(objects))  # (detections, objects)
    crowd = np.array([o.is_crowd for o in objects], np.bool_)
    free = ~crowd
    verdicts = []
    for index, d in enumerate(sure):
        fitting = np.where(free, overlap[index], 0.0)
        if len(objects) and fitting.max() >= ERROR_IOU:
            best = int(fitting.argmax())
            free[best] = False
            truth = objects[best].category
            kind: Kind = "right" if truth == d.category else "wrong category"
            verdicts.append(Verdict(kind, d.box_xyxy, d.category, truth, d.score))
        elif not (crowd & (overlap[index] >= ERROR_IOU)).any():
            verdicts.append(Verdict("false", d.box_xyxy, d.category, None, d.score))
    missed = (o for o, is_free in zip(objects, free, strict=True) if is_free)
    return (*verdicts, *(Verdict("missed", o.box_xyxy, None, o.category, None) for o in missed))


def _boxes(boxed: Sequence[Detection] | Sequence[ObjectLabel]) -> NDArray[np.float64]:
    return np.array([b.box_xyxy for b in boxed], np.float64).reshape(-1, 4)
