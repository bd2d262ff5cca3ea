"""Card of a reference translator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sim2cam.adapt.card import ImageSetRecord
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome
from sim2cam.version import __version__

REFERENCE_KIND: Final = "sim2cam reference translator"


@dataclass(frozen=True)
class ReferenceCard:
    """Metadata stored with the weights of a reference translator.

    Attributes:
        method: training method.
        steps: training steps.
        config: training configuration.
        sim, real: training images, including held-out ones; labels of real images are not used.
        outcome: checkpoint selection and warnings; None in old cards.
        licence: SPDX expression of the weights' licence; empty if unknown.
        kind, format: type and version of the file.
        version: version of sim2cam.
        stored_as: type of floating-point tensors in the file.
    """

    method: ReferenceMethod
    steps: int
    config: ReferenceConfig
    sim: ImageSetRecord
    real: ImageSetRecord
    outcome: TrainingOutcome | None = None
    licence: str = ""
    kind: Literal["sim2cam reference translator"] = REFERENCE_KIND
    format: Literal[1] = 1
    version: str = __version__
    stored_as: Literal["float16"] = "float16"
