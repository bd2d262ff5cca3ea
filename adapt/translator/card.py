"""Card of a residual translator."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sim2cam.adapt.card import ImageSetRecord
from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome
from sim2cam.adapt.translator.buffers import BUFFER_CHANNELS, is_buffer
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.pairs import PairsRecord
from sim2cam.adapt.translator.perceptual_consistency import PerceptionRecord
from sim2cam.errors import CheckpointError, suggest_name
from sim2cam.learn.weight_file import parse_card
from sim2cam.version import __version__


@dataclass(frozen=True)
class TranslatorCard:
    """Metadata stored with the weights of a translator.

    Attributes:
        steps: training steps.
        buffers: input buffers, as named by ``list_common_buffers``.
        config: training configuration.
        sim, real: training images, including held-out ones; labels of real images are not used.
        outcome: checkpoint selection and warnings; None in old cards.
        pairs: record of the pairs; None for unpaired training.
        perception: detector of the perception-consistency loss; None without it.
        licence: SPDX expression of the weights' licence; empty if unknown.
        kind, format: type and version of the file.
        version: version of sim2cam.
        stored_as: type of floating-point tensors in the file.
    """

    steps: int
    buffers: tuple[str, ...]
    config: TranslatorConfig
    sim: ImageSetRecord
    real: ImageSetRecord
    outcome: TrainingOutcome | None = None
    pairs: PairsRecord | None = None
    perception: PerceptionRecord | None = None
    licence: str = ""
    kind: Literal["sim2cam translator"] = "sim2cam translator"
    format: Literal[1] = 1
    version: str = __version__
    stored_as: Literal["float16"] = "float16"

    def to_json(self) -> dict[str, Any]:
        """Return the card as JSON values."""
        content = asdict(self) | {"config": self.config.to_json()}
        return (
            content if self.perception else {n: v for n, v in content.items() if n != "perception"}
        )


def card_from_json(path: Path, card: dict[str, Any]) -> TranslatorCard:
    """Parse the JSON values of a translator's card.

    Raises:
        CheckpointError: it is not the card of a translator, or a value is missing or not allowed.
    """
    parsed = parse_card(path, card, TranslatorCard, "a translator")
    for name in parsed.buffers:
        if not is_buffer(name):
            hint = suggest_name(name, BUFFER_CHANNELS)
            raise CheckpointError(path, f"unknown buffer '{name}'. {hint}")
    return parsed
