"""The two numbers of a detector that labelled development images choose; its weights stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import select_boxes
from sim2cam.metrics.box_expansion import estimate_box_expansion, expand_predictions
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
    """Return the detector with the box margin measured and the magnification chosen on images.

    The margin is what brings the median side of found boxes to that of the labels, because people
    draw boxes looser than masks are; it is measured at each magnification, as what a detector finds of an
    object depends on its size. The magnification is the one with the best AP50 of ``INPUT_SCALE_FACTORS``, over
    that of the training. Where too few objects are found to measure a margin, both stay as they are.

    Args:
        detector: what its card says of both is replaced.
        validation_set: labelled images that are neither trained on nor reported as a test.

    Raises:
        InputError: the images have no labels, or none of an object.
    """
    trained = detector.card.trained_input_scale
    labelled = select_boxes(validation_set, amodal=detector.card.is_amodal)
    count_objects(labelled)  # which refuses images without labels
    tried = [_try_input_scale(detector, trained * more, labelled) for more in INPUT_SCALE_FACTORS]
    measured = [one for one in tried if one is not None]
    return max(measured, key=lambda one: one[1])[0] if measured else detector


def tune_weights(path: Path, validation_set: Dataset, *, device: str = "cpu") -> AnyDetector:
    """Return the detector of a weights file after ``tuned``; the card beside the file says so.

    Args:
        path: the weights file.
        validation_set: as ``tuned`` takes it.
        device: ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        InputError: as ``tuned``.
        CheckpointError, OutputError: the file cannot be read or written.
        UsageError, BackendError: there is no such device.
    """
    detector = tune_detector(load_detector(path, device=device), validation_set)
    save_detector(path, detector.network.state_dict(), detector.card, detector.feature_distribution)
    return detector


def _try_input_scale(
    detector: AnyDetector, input_scale: float, validation_set: Dataset
) -> tuple[AnyDetector, float] | None:
    """Return the detector that magnifies so much, with the margin of what it then finds, and its AP50; None where
    that is too little for a margin.

    The images are looked at once: the boxes found without a margin are widened by it. Confidences are those before
    they are calibrated, so that a detector may be tuned again.
    """
    card = replace(detector.card, input_scale=input_scale)
    plain = replace(card, box_expansion=0.0, score_calibration=None)
    found = detect_dataset(replace(detector, card=plain), validation_set)
    margin = estimate_box_expansion(found, validation_set)
    if margin is None:
        return None
    wide = expand_predictions(found, validation_set, margin)
    return replace(detector, card=replace(card, box_expansion=margin)), _evaluate_ap50(
        wide, validation_set
    )


def compute_ap50(detector: AnyDetector, validation_set: Dataset) -> float:
    """Return the AP50 of a detector on labelled images, 0 to 1.

    Raises:
        InputError: the images have no labels, or none of an object.
    """
    return _evaluate_ap50(
        detect_dataset(detector, validation_set),
        select_boxes(validation_set, amodal=detector.card.is_amodal),
    )


def _evaluate_ap50(detections: Mapping[str, Sequence[Detection]], validation_set: Dataset) -> float:
    return evaluate_detections(
        validation_set, detections, rng=derive_rng(0, "tuning"), n_resamples=1
    ).ap50.value
