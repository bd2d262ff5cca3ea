"""Detectors of the pipeline: verifiers of translations, perceptual consistency, drift monitor."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.detector_drift import DetectorMonitor, DetectorResponse
from sim2cam.adapt.certificate.detector_agreement import MIN_SCORE, Verifier
from sim2cam.adapt.translator.perceptual_consistency import PerceptionModel, PerceptionRecord
from sim2cam.data.sample import Dataset
from sim2cam.errors import UsageError
from sim2cam.images import compute_digest
from sim2cam.learn.weight_file import get_card_path
from sim2cam.models.inference.detector import (
    AnyDetector,
    NativeDetector,
    detect_objects,
    load_detector,
    predict_image,
)
from sim2cam.models.inference.differentiable import compute_differentiable_maps
from sim2cam.models.training.tuning import compute_ap50

MIN_AP50 = 0.8
"""Smallest AP50 on renders of a detector for perceptual consistency."""

MAX_RENDERS = 40
"""Largest number of renders for that measurement."""

VerifierFiles = tuple[tuple[str, Path], ...]
"""Names of verifiers and their weights files."""


def check_verifiers(verifiers: VerifierFiles) -> None:
    """Refuse two verifiers of one architecture, which would make the same errors.

    Raises:
        UsageError: if two verifiers have the same architecture.
        CheckpointError: if weights are missing or broken.
    """
    names: dict[str, str] = {}
    for name, path in verifiers:
        architecture = load_detector(path).card.architecture
        if architecture in names:
            raise UsageError(
                f"--{name} {path} has the architecture '{architecture}', like --{names[architecture]}. "
                "Independent verifiers need different architectures."
            )
        names[architecture] = name


def load_perception(path: Path, renders: Dataset, device: str) -> PerceptionModel | str:
    """Return the detector for perceptual consistency, or the reason why it is unsuitable.

    A detector with errors on renders would force translations to reproduce them.

    Args:
        renders: labelled renders; at most ``MAX_RENDERS``, evenly spaced, are evaluated.

    Raises:
        CheckpointError: if the weights are missing or broken.
        InputError: if a render cannot be read.
        UsageError, BackendError: if the device does not exist.
    """
    detector = load_detector(path, device=device)
    if not isinstance(detector, NativeDetector):
        return "it is a torchvision model, which gives no gradients"
    labelled = tuple(s for s in renders.samples if s.objects)
    unknown = set(renders.categories) - set(detector.card.categories)
    if not labelled:
        return "renders have no labels"
    if unknown:
        return f"it lacks the category {min(unknown)}"
    indices = np.linspace(0, len(labelled) - 1, min(MAX_RENDERS, len(labelled))).round().astype(int)
    samples = tuple(labelled[index] for index in indices)
    ap50 = compute_ap50(detector, replace(renders, samples=samples))
    if not ap50 >= MIN_AP50:
        return f"its AP50 on {len(samples)} renders is {ap50:.2f}, less than {MIN_AP50:g}"
    detector.network.requires_grad_(requires_grad=False)
    return PerceptionModel(
        functools.partial(compute_differentiable_maps, detector),
        PerceptionRecord(compute_digest(path), round(ap50, 4), len(samples)),
    )


def load_monitor(path: Path) -> DetectorMonitor:
    """Return the detector whose responses a drift check compares.

    Raises:
        CheckpointError: if the weights are missing or broken.
    """
    return DetectorMonitor(
        compute_digest(path), functools.partial(_measure_response, load_detector(path))
    )


def _measure_response(detector: AnyDetector, rgb: NDArray[np.uint8]) -> DetectorResponse:
    prediction = predict_image(detector, rgb, score_floor=_MIN_CONFIDENCE)
    scores = [detection.score for detection in prediction.detections]
    return DetectorResponse(prediction.ood_score, float(np.mean(scores)) if scores else None)


_MIN_CONFIDENCE = 0.3
"""Detections with lower scores are mostly wrong."""


def load_verifiers(verifiers: VerifierFiles, device: str) -> Mapping[str, Verifier]:
    """Load the verifiers by name.

    Raises:
        InputError, CheckpointError: if weights are missing or broken.
        UsageError, BackendError: if the device does not exist.
    """
    return {
        name: functools.partial(
            detect_objects,
            _load_cached_detector(
                path, (compute_digest(path), compute_digest(get_card_path(path))), device
            ),
            score_floor=MIN_SCORE,
        )
        for name, path in verifiers
    }


@functools.lru_cache(maxsize=4)
def _load_cached_detector(path: Path, digests: tuple[str, str], device: str) -> AnyDetector:
    del digests  # part of the cache key only
    return load_detector(path, device=device)
