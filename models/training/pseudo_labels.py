"""Pseudo-labels: detections in unlabelled images, used as labels for training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sim2cam.data.sample import PSEUDO_LABELLED, Dataset, ObjectLabel
from sim2cam.data.set_operations import strip_annotations
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detector import AnyDetector, detect_dataset

MIN_LABEL_SCORE = 0.5
"""Score from which a detection becomes a label."""

MIN_IGNORE_SCORE = 0.1
"""Score from which a detection becomes an ignored region."""


def pseudo_label(
    detector: AnyDetector,
    images: Dataset,
    *,
    min_score: float = MIN_LABEL_SCORE,
    progress: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Return the images with a detector's detections as labels, for self-training.

    Pseudo-labels after Lee (2013, "Pseudo-Label"). Detections below ``min_score`` become ignored regions. The rest
    of the image is ignored too (``AnnotatedImage.is_fully_labelled``), since the detector may miss objects. Boxes
    are stored without the detector's box padding.

    Args:
        detector: detector with calibrated confidences (``calibrate_detector``); otherwise ``min_score`` is not a
            probability.
        images: images to label; existing labels are ignored.
        min_score: score from which a detection becomes a label, ``MIN_IGNORE_SCORE`` to 1.
        progress: called with the numbers of finished and of all images.

    Raises:
        ValueError: if ``min_score`` is out of range.
        InputError: if an image cannot be read.
    """
    if not MIN_IGNORE_SCORE <= min_score <= 1:
        raise ValueError(f"min_score must be {MIN_IGNORE_SCORE} to 1, not {min_score}")
    unpadded = replace(detector, card=replace(detector.card, box_padding=0.0))
    detections = detect_dataset(unpadded, images, score_floor=MIN_IGNORE_SCORE, progress=progress)
    samples = tuple(
        replace(
            sample,
            objects=tuple(
                filter(_has_area, (_make_label(d, min_score) for d in detections[sample.name]))
            ),
            origin=PSEUDO_LABELLED,
        )
        for sample in strip_annotations(images).samples
    )
    return replace(images, categories=detector.card.categories, samples=samples)


def _make_label(detection: Detection, min_score: float) -> ObjectLabel:
    left, top, right, bottom = detection.box_xyxy
    area_px = (right - left) * (bottom - top)
    is_uncertain = detection.score < min_score
    return ObjectLabel(
        detection.category, detection.box_xyxy, area_px, is_crowd=is_uncertain, mask=detection.mask
    )


def _has_area(label: ObjectLabel) -> bool:
    return label.area_px > 0
