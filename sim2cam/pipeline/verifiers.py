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

from sim2cam.adapt.calibration.detector_drift import Answer, Witness
from sim2cam.adapt.certificate.detector_agreement import FAINT, Judge
from sim2cam.adapt.translator.perceptual_consistency import Perception, PerceptionRecord
from sim2cam.data.sample import Dataset
from sim2cam.errors import UsageError, did_you_mean
from sim2cam.images import digest_of
from sim2cam.learn.weight_file import SUFFIX, card_path
from sim2cam.models.inference.detector import (
    SHIPPED_WEIGHTS,
    AnyDetector,
    LoadedDetector,
    load_detector,
    look,
    predict,
)
from sim2cam.models.inference.differentiable import perceive
from sim2cam.models.training.tuning import ap50_on

GOOD_AP50 = 0.8
"""AP50 on renders from which a detector is good enough for translations to be held to what it says."""

MEASURED = 40
"""Renders on which that is measured, at most."""

Judges = tuple[tuple[str, Path], ...]
"""Weights files by the names of the judges."""


def weights_file(given: Path) -> Path:
    """Returns the file of weights by its path, or of weights that ship by their name.

    Raises:
        UsageError: a name of none that ship.
    """
    if given.suffix or given.parent != Path() or given.exists():
        return given
    shipped = {path.stem: path for path in SHIPPED_WEIGHTS.glob(f"*{SUFFIX}")}
    if given.name not in shipped:
        hint = did_you_mean(given.name, shipped)
        raise UsageError(f"no weights '{given}' ship, and there is no such file. {hint}")
    return shipped[given.name]


def check_judges(judges: Judges) -> None:
    """Refuses two judges of one architecture, which would be wrong about the same pictures.

    Raises:
        UsageError: they are.
        CheckpointError: weights are missing or broken.
    """
    seen: dict[str, str] = {}
    for name, path in judges:
        architecture = load_detector(path).card.architecture
        if architecture in seen:
            raise UsageError(
                f"--{name} {path}: of the architecture '{architecture}', as --{seen[architecture]}. "
                "A second opinion needs a detector of another one."
            )
        seen[architecture] = name


def perception_of(path: Path, renders: Dataset, device: str) -> Perception | str:
    """Returns the detector that a translator learns to speak the same to, or why there is none.

    One that misses objects of renders, or takes one for another, would hold translations to its errors.

    Args:
        path: of its weights.
        renders: labelled; ``MEASURED`` of them are looked at, evenly spread.
        device: where it looks.

    Raises:
        CheckpointError: the weights are missing or broken.
        InputError: a render cannot be read.
        UsageError, BackendError: there is no such device.
    """
    detector = load_detector(path, device=device)
    if not isinstance(detector, LoadedDetector):
        return "it is a model of torchvision, through which no gradients go"
    labelled = tuple(s for s in renders.samples if s.objects)
    strangers = set(renders.categories) - set(detector.card.categories)
    if not labelled or strangers:
        return "renders have no labels" if not labelled else f"it does not know {min(strangers)}"
    places = np.linspace(0, len(labelled) - 1, min(MEASURED, len(labelled))).round().astype(int)
    chosen = tuple(labelled[place] for place in places)
    found = ap50_on(detector, replace(renders, samples=chosen))
    if not found >= GOOD_AP50:
        return f"its AP50 on {len(chosen)} renders is {found:.2f}, less than {GOOD_AP50:g}"
    detector.network.requires_grad_(requires_grad=False)
    look = functools.partial(perceive, detector)
    return Perception(look, PerceptionRecord(digest_of(path), round(found, 4), len(chosen)))


def witness_of(path: Path) -> Witness:
    """Returns the detector that says of captures what drift compares.

    Raises:
        CheckpointError: the weights are missing or broken.
    """
    return Witness(digest_of(path), functools.partial(_answer, load_detector(path)))


def _answer(detector: AnyDetector, rgb: NDArray[np.uint8]) -> Answer:
    seen = look(detector, rgb, score_floor=_SURE)
    scores = [found.score for found in seen.detections]
    return Answer(seen.novelty, float(np.mean(scores)) if scores else None)


_SURE = 0.3
"""Detections that are less sure are nearly all wrong, and say so."""


def load_judges(judges: Judges, device: str) -> Mapping[str, Judge]:
    """Returns the judges by name, ready to be asked.

    Raises:
        InputError, CheckpointError: weights are missing or broken.
        UsageError, BackendError: there is no such device.
    """
    return {
        name: functools.partial(
            predict,
            _detector(path, (digest_of(path), digest_of(card_path(path))), device),
            score_floor=FAINT,
        )
        for name, path in judges
    }


@functools.lru_cache(maxsize=4)
def _detector(path: Path, digests: tuple[str, str], device: str) -> AnyDetector:
    del digests  # tell it from one that was in the files before
    return load_detector(path, device=device)
