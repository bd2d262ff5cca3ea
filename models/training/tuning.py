"""The two numbers of a detector that labelled development images choose; its weights stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sim2cam.data.sample import Dataset
from sim2cam.data.set_operations import with_boxes
from sim2cam.metrics.box_expansion import measured_margin, with_margin
from sim2cam.metrics.detection import Detection, count_objects, evaluate
from sim2cam.models.inference.detector import (
    AnyDetector,
    load_detector,
    predict_dataset,
    save_detector,
)
from sim2cam.seeds import stream

MAGNIFICATIONS = (1.0, 1.25, 1.5)


def tuned(detector: AnyDetector, dev: Dataset) -> AnyDetector:
    """Returns the detector with the box margin measured and the magnification chosen on images.

    The margin is what brings the median side of found boxes to that of the labels, because people
    draw boxes looser than masks are; it is measured at each magnification, as what a detector finds of an
    object depends on its size. The magnification is the one with the best AP50 of ``MAGNIFICATIONS``, over
    that of the training. Where too few objects are found to measure a margin, both stay as they are.

    Args:
        detector: what its card says of both is replaced.
        dev: labelled images that are neither trained on nor reported as a test.

    Raises:
        InputError: the images have no labels, or none of an object.
    """
    trained = detector.card.trained_magnification
    labelled = with_boxes(dev, amodal=detector.card.is_amodal)
    count_objects(labelled)  # which refuses images without labels
    tried = [_tried(detector, trained * more, labelled) for more in MAGNIFICATIONS]
    measured = [one for one in tried if one is not None]
    return max(measured, key=lambda one: one[1])[0] if measured else detector


def tune_weights(path: Path, dev: Dataset, *, device: str = "cpu") -> AnyDetector:
    """Returns the detector of a weights file after ``tuned``; the card beside the file says so.

    Args:
        path: the weights file.
        dev: as ``tuned`` takes it.
        device: ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        InputError: as ``tuned``.
        CheckpointError, OutputError: the file cannot be read or written.
        UsageError, BackendError: there is no such device.
    """
    detector = tuned(load_detector(path, device=device), dev)
    save_detector(path, detector.network.state_dict(), detector.card, detector.familiar)
    return detector


def _tried(
    detector: AnyDetector, magnification: float, dev: Dataset
) -> tuple[AnyDetector, float] | None:
    """Returns the detector that magnifies so much, with the margin of what it then finds, and its AP50; None where
    that is too little for a margin.

    The images are looked at once: the boxes found without a margin are widened by it. Confidences are those before
    they are calibrated, so that a detector may be tuned again.
    """
    card = replace(detector.card, magnification=magnification)
    plain = replace(card, box_margin=0.0, scaling=None)
    found = predict_dataset(replace(detector, card=plain), dev)
    margin = measured_margin(found, dev)
    if margin is None:
        return None
    wide = with_margin(found, dev, margin)
    return replace(detector, card=replace(card, box_margin=margin)), _ap50(wide, dev)


def ap50_on(detector: AnyDetector, dev: Dataset) -> float:
    """Returns the AP50 of a detector on labelled images, 0 to 1.

    Raises:
        InputError: the images have no labels, or none of an object.
    """
    return _ap50(predict_dataset(detector, dev), with_boxes(dev, amodal=detector.card.is_amodal))


def _ap50(found: Mapping[str, Sequence[Detection]], dev: Dataset) -> float:
    return evaluate(dev, found, rng=stream(0, "tuning"), draws=1).ap50.value
