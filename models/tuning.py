"""The two numbers of a detector that labelled development images choose; its weights stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sim2cam.dataset.sample import Dataset
from sim2cam.geometry.boxes import pairwise_iou
from sim2cam.measure.detection import Detection, evaluate
from sim2cam.models.prediction import AnyDetector, load_detector, predict_dataset, save_detector
from sim2cam.seeds import stream

MAGNIFICATIONS = (1.0, 1.25, 1.5)
SAME_OBJECT_IOU = 0.3  # boxes that are drawn by other habits overlap less
SURE = 0.3  # less sure detections do not say how boxes are drawn
MIN_PAIRS = 10


def tuned(detector: AnyDetector, dev: Dataset) -> AnyDetector:
    """Returns the detector with the box margin measured and the magnification chosen on images.

    The margin is what brings the median side of found boxes to that of the labels, because people
    draw boxes looser than masks are; it is measured at each magnification, as what a detector finds of an
    object depends on its size. The magnification is the one with the best AP50 of ``MAGNIFICATIONS``, over
    that of the training.

    Args:
        detector: what its card says of both is replaced.
        dev: labelled images that are neither trained on nor reported as a test.

    Raises:
        InputError: the images have no labels, or none of an object.
    """
    trained = detector.card.trained_magnification
    candidates = [_with_margin(detector, trained * more, dev) for more in MAGNIFICATIONS]
    return max(candidates, key=lambda candidate: ap50_on(candidate, dev))


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


def measured_margin(found: Mapping[str, Sequence[Detection]], dataset: Dataset) -> float:
    """Returns by which share of its side a found box must reach further, in the median, on each.

    It is 0 when fewer than ``MIN_PAIRS`` objects were found.
    """
    shares: list[float] = []
    for sample in dataset.samples:
        labels = [o.box_xyxy for o in sample.objects or () if not o.is_crowd]
        boxes = [d.box_xyxy for d in found[sample.name] if d.score >= SURE]
        if not labels or not boxes:
            continue
        truth, drawn = np.array(labels), np.array(boxes)
        overlap = pairwise_iou(drawn, truth)
        best = overlap.argmax(axis=1)
        same = overlap.max(axis=1) >= SAME_OBJECT_IOU
        drawn_sides = (drawn[:, 2:] - drawn[:, :2])[same]
        true_sides = (truth[:, 2:] - truth[:, :2])[best[same]]
        shares.extend(((true_sides / drawn_sides - 1) / 2).ravel())
    return round(float(np.median(shares)), 3) if len(shares) >= 2 * MIN_PAIRS else 0.0


def _with_margin(detector: AnyDetector, magnification: float, dev: Dataset) -> AnyDetector:
    """Returns the detector that magnifies so much, with the margin of what it then finds."""
    found = predict_dataset(_with(detector, magnification, 0.0), dev)
    return _with(detector, magnification, measured_margin(found, dev))


def _with(detector: AnyDetector, magnification: float, margin: float) -> AnyDetector:
    card = replace(detector.card, magnification=magnification, box_margin=margin)
    return replace(detector, card=card)


def ap50_on(detector: AnyDetector, dev: Dataset) -> float:
    """Returns the AP50 of a detector on labelled images, 0 to 1.

    Raises:
        InputError: the images have no labels, or none of an object.
    """
    found = predict_dataset(detector, dev)
    return evaluate(dev, found, rng=stream(0, "tuning"), draws=1).ap50.value
