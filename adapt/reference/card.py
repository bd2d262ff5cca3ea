"""What is told of a published translator beside its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sim2cam import __version__
from sim2cam.adapt.card import ImageSetRecord
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome

REFERENCE_KIND: Final = "sim2cam reference translator"


@dataclass(frozen=True)
class ReferenceCard:
    """A published translator in words.

    Attributes:
        method: which.
        steps: training steps done in all.
        config: the training's configuration.
        sim, real: what it was trained on, with what was kept aside; of the captures, no label.
        outcome: after which step its weights were taken, and why; None in cards that do not say.
        licence: of the weights, as an SPDX expression; empty where nobody has said.
        kind, format: what the file is.
        version: of sim2cam.
        stored_as: type of the floating-point tensors in the file.
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
