"""Detectors that judge translations; two of them have to be of different make."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from sim2cam.adapt.certificate.opinion import FAINT, Judge
from sim2cam.errors import UsageError
from sim2cam.models.prediction import load_detector, predict

Judges = tuple[tuple[str, Path], ...]
"""Weights files by the names of the judges."""


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


@functools.lru_cache(maxsize=2)
def load_judges(judges: Judges, device: str) -> Mapping[str, Judge]:
    """Returns the judges by name, ready to be asked.

    Raises:
        CheckpointError: weights are missing or broken.
        UsageError, BackendError: there is no such device.
    """
    return {
        name: functools.partial(predict, load_detector(path, device=device), score_floor=FAINT)
        for name, path in judges
    }
