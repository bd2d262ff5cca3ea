"""What is told of a translator beside its weights."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from sim2cam import __version__
from sim2cam.adapt.translator.buffers import CHANNELS
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.errors import CheckpointError, InputError, UsageError, did_you_mean


@dataclass(frozen=True)
class ImagesRecord:
    """What a card says of the images of one side.

    Attributes:
        name: their folder's name.
        images: how many.
        digest: SHA-256 over all of them.
    """

    name: str
    images: int
    digest: str


@dataclass(frozen=True)
class TranslatorCard:
    """A translator in words.

    Attributes:
        steps: training steps done.
        buffers: what it wants to know beside the image, of ``CHANNELS``.
        config: the training's configuration.
        sim, real: what it was trained on; of the captures, no label.
        licence: of the weights, as an SPDX expression.
        kind, format: what the file is.
        version: of sim2cam.
        stored_as: type of the floating-point tensors in the file.
    """

    steps: int
    buffers: tuple[str, ...]
    config: TranslatorConfig
    sim: ImagesRecord
    real: ImagesRecord
    licence: str = "Apache-2.0"
    kind: Literal["sim2cam translator"] = "sim2cam translator"
    format: Literal[1] = 1
    version: str = __version__
    stored_as: Literal["float16"] = "float16"

    def to_json(self) -> dict[str, Any]:
        """Returns the card as JSON values."""
        return asdict(self)


def card_from_json(path: Path, card: dict[str, Any]) -> TranslatorCard:
    """Returns the card that a JSON file holds.

    Args:
        path: the file, for the errors.
        card: its content.

    Raises:
        CheckpointError: not a translator's card, or a value in it is missing or not allowed.
    """
    try:
        read = TypeAdapter(TranslatorCard).validate_python(card)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CheckpointError(
            path, f"not the card of a translator: {key}: {first['msg']}. Copy both files again."
        ) from error
    except UsageError as error:
        raise CheckpointError(path, f"{error}. Copy both files again.") from error
    for name in read.buffers:
        if name not in CHANNELS:
            hint = did_you_mean(name, CHANNELS)
            raise CheckpointError(path, f"buffer '{name}' is not known. {hint}")
    return read


def images_record(dataset: Dataset) -> ImagesRecord:
    """Returns what the card says of a data set's images.

    Raises:
        InputError: an image cannot be read.
    """
    total = hashlib.sha256()
    for sample in dataset.samples:
        total.update(f"{sample.name}\0{sample.digest or _file_digest(sample)}\0".encode())
    return ImagesRecord(dataset.root.name, len(dataset.samples), total.hexdigest())


def _file_digest(sample: Sample) -> str:
    try:
        return hashlib.sha256(sample.rgb.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(
            sample.rgb, f"cannot be read ({error.strerror}). Check the path."
        ) from error
