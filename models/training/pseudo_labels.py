"""Labelling captures by what a detector finds in them, so that another one learns from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sim2cam.data.sample import SELF_LABELLED, Dataset, ObjectLabel
from sim2cam.data.set_operations import pictures_alone
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detector import AnyDetector, predict_dataset

SURE = 0.5
"""Score from which on what is found is a label."""

UNSURE = 0.1
"""Score from which on what is found is labelled at all, as a crowd."""


def labelled(
    detector: AnyDetector,
    captures: Dataset,
    *,
    sure: float = SURE,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Returns captures with what a detector finds in them as their labels, to train on.

    That is self-training with pseudo-labels (Lee 2013, "Pseudo-Label"). What it is not sure of is
    labelled as a crowd, which is neither learned nor unlearned; nor is what lies outside the labels
    (``Picture.is_complete``), where it may have missed objects. Boxes are as tight as those that it
    learned: its margin, which fits them to how people draw theirs, is left out.

    Args:
        detector: whose categories they get. Its confidences are calibrated (``with_trust``), or ``sure``
            is no probability.
        captures: pictures; labels of theirs are not looked at.
        sure: score from which on what is found is a label, ``UNSURE`` to 1.
        progress: is told how many images of how many are done.

    Raises:
        ValueError: ``sure`` is out of range.
        InputError: an image cannot be read.
    """
    if not UNSURE <= sure <= 1:
        raise ValueError(f"sure must be {UNSURE} to 1, not {sure}")
    tight = replace(detector, card=replace(detector.card, box_margin=0.0))
    found = predict_dataset(tight, captures, score_floor=UNSURE, progress=progress)
    samples = tuple(
        replace(
            sample,
            objects=tuple(filter(_has_area, (_label(one, sure) for one in found[sample.name]))),
            origin=SELF_LABELLED,
        )
        for sample in pictures_alone(captures).samples
    )
    return replace(captures, categories=detector.card.categories, samples=samples)


def _label(found: Detection, sure: float) -> ObjectLabel:
    left, top, right, bottom = found.box_xyxy
    area_px = (right - left) * (bottom - top)
    is_unsure = found.score < sure
    return ObjectLabel(found.category, found.box_xyxy, area_px, is_crowd=is_unsure, mask=found.mask)


def _has_area(label: ObjectLabel) -> bool:
    return label.area_px > 0
