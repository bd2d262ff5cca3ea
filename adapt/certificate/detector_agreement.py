"""What a detector finds before and after a translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import Box, pairwise_iou
from sim2cam.metrics.detection import Detection

Verifier = Callable[[NDArray[np.uint8]], Sequence[Detection]]
"""Finds objects in a picture (h, w, 3), unsure ones too."""

CONFIDENT_SCORE = (
    0.75  # only what is surer is held to: blur and noise move what a judge is half sure of
)
MEDIUM_SCORE = 0.3  # so sure before and after, a judge speaks for an object that another one lost
MIN_SCORE = (
    0.05  # surer detections keep an object that was found clearly; a little doubt loses none
)
MATCH_IOU = 0.5  # from which two boxes are of one object
OVERLAP_IOU = 0.3  # a detection that overlaps an object so much is no hallucination


@dataclass(frozen=True)
class DetectorAgreement:
    """What a judge found of a picture.

    Attributes:
        reference_detections: objects found clearly before, that are labelled where there are labels.
        retained: of these, found again as the same category.
        missed: of these, not found again at all.
        hallucinated: clear detections after, where nothing was labelled or found before.
        retained_by_other_verifiers: objects that it does not retain, but another judge does that found them clearly, as
            the same category, before.
        detected_by_other_verifiers: objects that vanished for it, where another judge half believes in one, whatever it
            takes it for, before and after.
    """

    reference_detections: int
    retained: int
    missed: int
    hallucinated: int
    retained_by_other_verifiers: int = 0
    detected_by_other_verifiers: int = 0


def compare_detections(
    verifiers: Mapping[str, Verifier],
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    labelled_boxes: Sequence[Box] | None,
) -> dict[str, DetectorAgreement]:
    """Return what judges find of a picture after a translation, against what they found before.

    Args:
        verifiers: the detectors, by name.
        before, after: RGB (h, w, 3).
        labelled_boxes: boxes of the labelled objects; None when there are no labels.
    """
    views = {
        name: _match_detections(judge, before, after, labelled_boxes)
        for name, judge in verifiers.items()
    }
    found: dict[str, DetectorAgreement] = {}
    for name, view in views.items():
        others = [other for who, other in views.items() if who != name]
        retained_there = _find_retained_by_others(view, others)
        again_there = _find_overlapping(
            view.reference_detections, [box for other in others for box in other.persistent_boxes]
        )
        found[name] = DetectorAgreement(
            reference_detections=len(view.reference_detections),
            retained=int(view.is_retained.sum()),
            missed=int((~view.is_redetected).sum()),
            hallucinated=view.hallucinated,
            retained_by_other_verifiers=int((~view.is_retained & retained_there).sum()),
            detected_by_other_verifiers=int((~view.is_redetected & again_there).sum()),
        )
    return found


@dataclass(frozen=True, eq=False)
class _VerifierMatches:
    """What a judge found.

    Attributes:
        reference_detections: objects found clearly before.
        is_redetected: (n,) which of these are found again.
        is_retained: (n,) which of these as the same category.
        hallucinated: as ``DetectorAgreement`` has it.
        persistent_boxes: where something is half believed, before and after.
    """

    reference_detections: list[Detection]
    is_redetected: NDArray[np.bool_]
    is_retained: NDArray[np.bool_]
    hallucinated: int
    persistent_boxes: list[Box]


def _match_detections(
    verifier: Verifier,
    before: NDArray[np.uint8],
    after: NDArray[np.uint8],
    labelled_boxes: Sequence[Box] | None,
) -> _VerifierMatches:
    first, then = verifier(before), verifier(after)
    known = [d for d in first if d.score >= CONFIDENT_SCORE]
    if labelled_boxes is not None:
        known = [
            d
            for d, is_one in zip(known, _find_overlapping(known, labelled_boxes), strict=True)
            if is_one
        ]
    faint = [d for d in then if d.score >= MIN_SCORE]
    half, still = ([d for d in seen if d.score >= MEDIUM_SCORE] for seen in (first, then))
    clear = [d for d in then if d.score >= CONFIDENT_SCORE]
    again = _compute_ious(known, _stack_boxes([d.box_xyxy for d in faint])) >= MATCH_IOU
    there = _stack_boxes(
        [*(d.box_xyxy for d in first if d.score >= MIN_SCORE), *(labelled_boxes or ())]
    )
    new = _compute_ious(clear, there).max(axis=1, initial=0.0) < OVERLAP_IOU
    is_still = _find_overlapping(half, [d.box_xyxy for d in still])
    return _VerifierMatches(
        known,
        np.asarray(again.any(axis=1)),
        np.asarray((again & _match_categories(known, faint)).any(axis=1)),
        int(new.sum()),
        [d.box_xyxy for d, is_one in zip(half, is_still, strict=True) if is_one],
    )


def _find_retained_by_others(
    matches: _VerifierMatches, others: Sequence[_VerifierMatches]
) -> NDArray[np.bool_]:
    """Return which objects (n,) of a judge are among those that others knew as the same, and retain."""
    found = np.zeros(len(matches.reference_detections), np.bool_)
    for other in others:
        overlaps = (
            _compute_ious(
                matches.reference_detections,
                _stack_boxes([d.box_xyxy for d in other.reference_detections]),
            )
            >= MATCH_IOU
        )
        found |= (
            overlaps
            & _match_categories(matches.reference_detections, other.reference_detections)
            & other.is_retained
        ).any(axis=1)
    return found


def _find_overlapping(detections: Sequence[Detection], boxes: Sequence[Box]) -> NDArray[np.bool_]:
    """Return which detections (n,) lie where one of some boxes does."""
    return np.asarray((_compute_ious(detections, _stack_boxes(boxes)) >= MATCH_IOU).any(axis=1))


def _match_categories(
    detections: Sequence[Detection], others: Sequence[Detection]
) -> NDArray[np.bool_]:
    """Return which of two lots of detections are of one category (n, m)."""
    alike = [[one.category == other.category for other in others] for one in detections]
    return np.array(alike, np.bool_).reshape(len(detections), len(others))


def _compute_ious(
    detections: Sequence[Detection], boxes: NDArray[np.float64]
) -> NDArray[np.float64]:
    return pairwise_iou(_stack_boxes([d.box_xyxy for d in detections]), boxes)


def _stack_boxes(boxes: Sequence[Box]) -> NDArray[np.float64]:
    return np.array(boxes, np.float64).reshape(-1, 4)
