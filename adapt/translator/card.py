"""What is told of a translator beside its weights."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from sim2cam import __version__
from sim2cam.adapt.card import ImageSetRecord
from sim2cam.adapt.training.checkpoint_selection import TrainingOutcome
from sim2cam.adapt.translator.buffers import BUFFER_CHANNELS, is_buffer
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.pairs import PairsRecord
from sim2cam.adapt.translator.perceptual_consistency import PerceptionRecord
from sim2cam.errors import CheckpointError, suggest_name
from sim2cam.learn.weight_file import parse_card


@dataclass(frozen=True)
class TranslatorCard:
    """A translator in words.

    Attributes:
        steps: training steps done in all.
        buffers: what it wants to know beside the image, as ``list_common_buffers`` names it.
        config: the training's configuration.
        sim, real: what it was trained on, with what was kept aside; of the captures, no label.
        outcome: after which step its weights were taken, and why; None in cards that do not say.
        pairs: of what it was trained on; None where renders and captures are of different scenes.
        perception: the detector that had to say the same of renders and translations; None without.
        licence: of the weights, as an SPDX expression; empty where nobody has said.
        kind, format: what the file is.
        version: of sim2cam.
        stored_as: type of the floating-point tensors in the file.
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
        facts = asdict(self) | {"config": self.config.to_json()}
        return facts if self.perception else {n: v for n, v in facts.items() if n != "perception"}


def card_from_json(path: Path, card: dict[str, Any]) -> TranslatorCard:
    """Return the card that a JSON file holds.

    Args:
        path: the file, for the errors.
        card: its content.

    Raises:
        CheckpointError: not a translator's card, or a value in it is missing or not allowed.
    """
    read = parse_card(path, card, TranslatorCard, "a translator")
    for name in read.buffers:
        if not is_buffer(name):
            hint = suggest_name(name, BUFFER_CHANNELS)
            raise CheckpointError(path, f"buffer '{name}' is not known. {hint}")
    return read
