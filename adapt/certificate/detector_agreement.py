"""Agreement of detectors before and after a translation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.boxes import Box, pairwise_iou
from sim2cam.metrics.detection import Detection

Verifier = Callable[[NDArray[np.uint8]], Sequence[Detection]]
"""Detector of objects in an image (h, w, 3), including detections of low confidence."""

CONFIDENT_SCORE = 0.75  # of detections that must survive: blur and noise change less confident ones
MEDIUM_SCORE = 0.3  # before and after, to confirm an object that another verifier misses
MIN_SCORE = 0.05  # after, to match a confident detection before
MATCH_IOU = 0.5  # least IoU of two boxes of one object
OVERLAP_IOU = 0.3  # least IoU with an object for a detection not to be a hallucination


@dataclass(frozen=True)
class DetectorAgreement:
    """Agreement of a verifier's detections before and after a translation.

    Attributes:
        reference_detections: confident detections before; only labelled ones if there are labels.
        retained: reference detections that are detected again with the same category.
        missed: reference detections that are not detected again.
        hallucinated: confident detections after, without a label or a detection before.
        retained_by_other_verifiers: reference detections that are not retained, but that another verifier detects
            confidently before with the same category, and retains.
        detected_by_other_verifiers: missed detections where another verifier has a detection of medium confidence
            before and after, of any category.
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
    """Compare the detections of verifiers before and after a translation.

    Args:
        before, after: RGB (h, w, 3).
        labelled_boxes: boxes of the labelled objects; None without labels.
    """
    matches_by_name = {
        name: _match_detections(verifier, before, after, labelled_boxes)
        for name, verifier in verifiers.items()
    }
    agreements: dict[str, DetectorAgreement] = {}
    for name, matches in matches_by_name.items():
        others = [other for other_name, other in matches_by_name.items() if other_name != name]
        retained_by_others = _find_retained_by_others(matches, others)
        detected_by_others = _find_overlapping(
            matches.reference_detections,
            [box for other in others for box in other.persistent_boxes],
        )
        agreements[name] = DetectorAgreement(
            reference_detections=len(matches.reference_detections),
            retained=int(matches.is_retained.sum()),
            missed=int((~matches.is_redetected).sum()),
            hallucinated=matches.hallucinated,
            retained_by_other_verifiers=int((~matches.is_retained & retained_by_others).sum()),
            detected_by_other_verifiers=int((~matches.is_redetected & detected_by_others).sum()),
        )
    return agreements


@dataclass(frozen=True, eq=False)
class _VerifierMatches:
    """Matched detections of one verifier.

    Attributes:
        reference_detections: confident detections before (n of them).
        is_redetected: (n,), whether each is detected again.
        is_retained: (n,), whether each is detected again with the same category.
        hallucinated: as in ``DetectorAgreement``.
        persistent_boxes: boxes detected with medium confidence before and after.
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
    before_detections, after_detections = verifier(before), verifier(after)
    reference = [d for d in before_detections if d.score >= CONFIDENT_SCORE]
    if labelled_boxes is not None:
        reference = list(compress(reference, _find_overlapping(reference, labelled_boxes)))
    candidates = [d for d in after_detections if d.score >= MIN_SCORE]
    medium_before, medium_after = (
        [d for d in detections if d.score >= MEDIUM_SCORE]
        for detections in (before_detections, after_detections)
    )
    confident_after = [d for d in after_detections if d.score >= CONFIDENT_SCORE]
    is_match = _compute_ious(reference, [d.box_xyxy for d in candidates]) >= MATCH_IOU
    explained_boxes = [d.box_xyxy for d in before_detections if d.score >= MIN_SCORE]
    explained_boxes += labelled_boxes or ()
    is_new = _compute_ious(confident_after, explained_boxes).max(axis=1, initial=0.0) < OVERLAP_IOU
    is_persistent = _find_overlapping(medium_before, [d.box_xyxy for d in medium_after])
    return _VerifierMatches(
        reference,
        np.asarray(is_match.any(axis=1)),
        np.asarray((is_match & _match_categories(reference, candidates)).any(axis=1)),
        int(is_new.sum()),
        [d.box_xyxy for d in compress(medium_before, is_persistent)],
    )


def _find_retained_by_others(
    matches: _VerifierMatches, others: Sequence[_VerifierMatches]
) -> NDArray[np.bool_]:
    """Return whether another verifier retains each reference detection (n,) with the same category."""
    is_retained = np.zeros(len(matches.reference_detections), np.bool_)
    for other in others:
        boxes = [d.box_xyxy for d in other.reference_detections]
        overlaps = _compute_ious(matches.reference_detections, boxes) >= MATCH_IOU
        is_retained |= (
            overlaps
            & _match_categories(matches.reference_detections, other.reference_detections)
            & other.is_retained
        ).any(axis=1)
    return is_retained


def _find_overlapping(detections: Sequence[Detection], boxes: Sequence[Box]) -> NDArray[np.bool_]:
    """Return whether each detection (n,) matches one of the boxes."""
    return np.asarray((_compute_ious(detections, boxes) >= MATCH_IOU).any(axis=1))


def _match_categories(
    detections: Sequence[Detection], others: Sequence[Detection]
) -> NDArray[np.bool_]:
    """Return whether detections of two lists share a category (n, m)."""
    is_same = [
        [detection.category == other.category for other in others] for detection in detections
    ]
    return np.array(is_same, np.bool_).reshape(len(detections), len(others))


def _compute_ious(detections: Sequence[Detection], boxes: Sequence[Box]) -> NDArray[np.float64]:
    return pairwise_iou(_stack_boxes([d.box_xyxy for d in detections]), _stack_boxes(boxes))


def _stack_boxes(boxes: Sequence[Box]) -> NDArray[np.float64]:
    return np.array(boxes, np.float64).reshape(-1, 4)
