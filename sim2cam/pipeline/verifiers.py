"""Detectors that judge translations, that translators look through, and that are asked of captures; two judges
have to be of different make.
"""

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
from sim2cam.errors import UsageError, suggest_name
from sim2cam.images import compute_digest
from sim2cam.learn.weight_file import WEIGHTS_SUFFIX, get_card_path
from sim2cam.models.inference.detector import (
    SHIPPED_WEIGHTS,
    AnyDetector,
    NativeDetector,
    detect_objects,
    load_detector,
    predict_image,
)
from sim2cam.models.inference.differentiable import compute_differentiable_maps
from sim2cam.models.training.tuning import compute_ap50

MIN_AP50 = 0.8
"""AP50 on renders from which a detector is good enough for translations to be held to what it says."""

MAX_RENDERS = 40
"""Renders on which that is measured, at most."""

VerifierFiles = tuple[tuple[str, Path], ...]
"""Weights files by the names of the judges."""


def resolve_weights(name_or_path: Path) -> Path:
    """Return the file of weights by its path, or of weights that ship by their name.

    Raises:
        UsageError: a name of none that ship.
    """
    if name_or_path.suffix or name_or_path.parent != Path() or name_or_path.exists():
        return name_or_path
    shipped = {path.stem: path for path in SHIPPED_WEIGHTS.glob(f"*{WEIGHTS_SUFFIX}")}
    if name_or_path.name not in shipped:
        hint = suggest_name(name_or_path.name, shipped)
        raise UsageError(f"no weights '{name_or_path}' ship, and there is no such file. {hint}")
    return shipped[name_or_path.name]


def check_verifiers(verifiers: VerifierFiles) -> None:
    """Refuse two judges of one architecture, which would be wrong about the same pictures.

    Raises:
        UsageError: they are.
        CheckpointError: weights are missing or broken.
    """
    seen: dict[str, str] = {}
    for name, path in verifiers:
        architecture = load_detector(path).card.architecture
        if architecture in seen:
            raise UsageError(
                f"--{name} {path}: of the architecture '{architecture}', as --{seen[architecture]}. "
                "A second opinion needs a detector of another one."
            )
        seen[architecture] = name


def load_perception(path: Path, renders: Dataset, device: str) -> PerceptionModel | str:
    """Return the detector that a translator learns to speak the same to, or why there is none.

    One that misses objects of renders, or takes one for another, would hold translations to its errors.

    Args:
        path: of its weights.
        renders: labelled; ``MAX_RENDERS`` of them are looked at, evenly spread.
        device: where it looks.

    Raises:
        CheckpointError: the weights are missing or broken.
        InputError: a render cannot be read.
        UsageError, BackendError: there is no such device.
    """
    detector = load_detector(path, device=device)
    if not isinstance(detector, NativeDetector):
        return "it is a model of torchvision, through which no gradients go"
    labelled = tuple(s for s in renders.samples if s.objects)
    strangers = set(renders.categories) - set(detector.card.categories)
    if not labelled or strangers:
        return "renders have no labels" if not labelled else f"it does not know {min(strangers)}"
    places = np.linspace(0, len(labelled) - 1, min(MAX_RENDERS, len(labelled))).round().astype(int)
    chosen = tuple(labelled[place] for place in places)
    found = compute_ap50(detector, replace(renders, samples=chosen))
    if not found >= MIN_AP50:
        return f"its AP50 on {len(chosen)} renders is {found:.2f}, less than {MIN_AP50:g}"
    detector.network.requires_grad_(requires_grad=False)
    look = functools.partial(compute_differentiable_maps, detector)
    return PerceptionModel(
        look, PerceptionRecord(compute_digest(path), round(found, 4), len(chosen))
    )


def load_monitor(path: Path) -> DetectorMonitor:
    """Return the detector that says of captures what drift compares.

    Raises:
        CheckpointError: the weights are missing or broken.
    """
    return DetectorMonitor(
        compute_digest(path), functools.partial(_measure_response, load_detector(path))
    )


def _measure_response(detector: AnyDetector, rgb: NDArray[np.uint8]) -> DetectorResponse:
    seen = predict_image(detector, rgb, score_floor=_MIN_CONFIDENCE)
    scores = [found.score for found in seen.detections]
    return DetectorResponse(seen.ood_score, float(np.mean(scores)) if scores else None)


_MIN_CONFIDENCE = 0.3
"""Detections that are less sure are nearly all wrong, and say so."""


def load_verifiers(verifiers: VerifierFiles, device: str) -> Mapping[str, Verifier]:
    """Return the judges by name, ready to be asked.

    Raises:
        InputError, CheckpointError: weights are missing or broken.
        UsageError, BackendError: there is no such device.
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
    del digests  # tell it from one that was in the files before
    return load_detector(path, device=device)
