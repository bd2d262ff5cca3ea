"""Labelling captures by what a detector finds in them, so that another one learns from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sim2cam.data.sample import PSEUDO_LABELLED, Dataset, ObjectLabel
from sim2cam.data.set_operations import strip_annotations
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detector import AnyDetector, detect_dataset

MIN_LABEL_SCORE = 0.5
"""Score from which on what is found is a label."""

MIN_IGNORE_SCORE = 0.1
"""Score from which on what is found is labelled at all, as a crowd."""


def pseudo_label(
    detector: AnyDetector,
    images: Dataset,
    *,
    min_score: float = MIN_LABEL_SCORE,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Return captures with what a detector finds in them as their labels, to train on.

    That is self-training with pseudo-labels (Lee 2013, "Pseudo-Label"). What it is not sure of is
    labelled as a crowd, which is neither learned nor unlearned; nor is what lies outside the labels
    (``Picture.is_complete``), where it may have missed objects. Boxes are as tight as those that it
    learned: its margin, which fits them to how people draw theirs, is left out.

    Args:
        detector: whose categories they get. Its confidences are calibrated (``calibrate_detector``), or ``min_score``
            is no probability.
        images: pictures; labels of theirs are not looked at.
        min_score: score from which on what is found is a label, ``UNSURE`` to 1.
        progress: is told how many images of how many are done.

    Raises:
        ValueError: ``min_score`` is out of range.
        InputError: an image cannot be read.
    """
    if not MIN_IGNORE_SCORE <= min_score <= 1:
        raise ValueError(f"sure must be {MIN_IGNORE_SCORE} to 1, not {min_score}")
    tight = replace(detector, card=replace(detector.card, box_expansion=0.0))
    found = detect_dataset(tight, images, score_floor=MIN_IGNORE_SCORE, progress=progress)
    samples = tuple(
        replace(
            sample,
            objects=tuple(
                filter(_has_area, (_make_label(one, min_score) for one in found[sample.name]))
            ),
            origin=PSEUDO_LABELLED,
        )
        for sample in strip_annotations(images).samples
    )
    return replace(images, categories=detector.card.categories, samples=samples)


def _make_label(detection: Detection, min_score: float) -> ObjectLabel:
    left, top, right, bottom = detection.box_xyxy
    area_px = (right - left) * (bottom - top)
    is_unsure = detection.score < min_score
    return ObjectLabel(
        detection.category, detection.box_xyxy, area_px, is_crowd=is_unsure, mask=detection.mask
    )


def _has_area(label: ObjectLabel) -> bool:
    return label.area_px > 0
