"""Tuning of a detector's input scale and box padding on a validation set; its weights stay unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import select_boxes
from sim2cam.metrics.box_padding import estimate_box_padding, pad_predictions
from sim2cam.metrics.detection import Detection, count_objects, evaluate_detections
from sim2cam.models.inference.detector import (
    AnyDetector,
    detect_dataset,
    load_detector,
    save_detector,
)
from sim2cam.seeds import derive_rng

INPUT_SCALE_FACTORS = (1.0, 1.25, 1.5)


def tune_detector(detector: AnyDetector, validation_set: Dataset) -> AnyDetector:
    """Return the detector with input scale and box padding tuned on labelled images.

    The box padding is the median distance between the sides of labelled and of detected boxes, because people draw
    boxes looser than masks. It is estimated for each input scale. The input scale is the one of
    ``INPUT_SCALE_FACTORS`` times that of the training with the best AP50. With too few detections to estimate a
    box padding, both stay unchanged.

    Args:
        detector: detector to tune.
        validation_set: labelled images that are used neither for training nor for testing.

    Raises:
        InputError: if the images have no labels or no objects.
    """
    input_scale = detector.card.trained_input_scale
    validation_set = select_boxes(validation_set, amodal=detector.card.is_amodal)
    count_objects(validation_set)  # raises an error for images without labels
    trials = [
        _try_input_scale(detector, input_scale * factor, validation_set)
        for factor in INPUT_SCALE_FACTORS
    ]
    measured = [trial for trial in trials if trial is not None]
    return max(measured, key=lambda trial: trial[1])[0] if measured else detector


def tune_weights(path: Path, validation_set: Dataset, *, device: str = "cpu") -> AnyDetector:
    """Tune the detector of a weights file with ``tune_detector`` and update its card.

    Raises:
        CheckpointError, OutputError: if the file cannot be read or written.
        UsageError, BackendError: if the device does not exist.
    """
    detector = tune_detector(load_detector(path, device=device), validation_set)
    save_detector(path, detector.network.state_dict(), detector.card, detector.feature_distribution)
    return detector


def _try_input_scale(
    detector: AnyDetector, input_scale: float, validation_set: Dataset
) -> tuple[AnyDetector, float] | None:
    """Return the detector with an input scale and its box padding, and its AP50.

    Each image is processed once: boxes are padded after detection. Scores are uncalibrated,
    so that a detector can be tuned again. None if there are too few detections for a box padding.
    """
    card = replace(detector.card, input_scale=input_scale)
    untuned_card = replace(card, box_padding=0.0, score_calibration=None)
    detections = detect_dataset(replace(detector, card=untuned_card), validation_set)
    box_padding = estimate_box_padding(detections, validation_set)
    if box_padding is None:
        return None
    padded = pad_predictions(detections, validation_set, box_padding)
    tuned = replace(detector, card=replace(card, box_padding=box_padding))
    return tuned, _evaluate_ap50(padded, validation_set)


def compute_ap50(detector: AnyDetector, validation_set: Dataset) -> float:
    """Compute the AP50 of a detector on labelled images, 0 to 1.

    Raises:
        InputError: if the images have no labels or no objects.
    """
    return _evaluate_ap50(
        detect_dataset(detector, validation_set),
        select_boxes(validation_set, amodal=detector.card.is_amodal),
    )


def _evaluate_ap50(detections: Mapping[str, Sequence[Detection]], validation_set: Dataset) -> float:
    return evaluate_detections(
        validation_set, detections, rng=derive_rng(0, "tuning"), n_resamples=1
    ).ap50.value
