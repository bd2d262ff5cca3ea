"""Weights that ship: a safetensors file and, beside it, a JSON card that says what they are."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from sim2cam.data.parsing import check_nesting, is_file, read_json
from sim2cam.errors import CheckpointError, InputError, UsageError
from sim2cam.files import write_atomic

WEIGHTS_SUFFIX = ".safetensors"
_MAX_CARD_BYTES = 1 << 26

Card = TypeVar("Card")


def save_weights(path: Path, tensors: Mapping[str, Tensor], card: Mapping[str, Any]) -> None:
    """Write a weights file and its card; floats are stored in half precision.

    Raises:
        CheckpointError: another suffix than ``.safetensors``, or numbers that are too large or none.
        OutputError: the folder cannot be written.
    """
    _check_suffix(path)
    halved = {name: value.cpu().contiguous() for name, value in to_half_precision(tensors).items()}
    for name, value in halved.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise CheckpointError(
                path,
                f"'{name}' would hold numbers that are not finite in half precision, so nothing is "
                "written. Lower the learning rate, then train again.",
            )
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    write_atomic(path, save(halved))
    write_atomic(get_card_path(path), text.encode(errors="backslashreplace"))


def to_half_precision(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors as ``save_weights`` stores them: floats in half precision."""
    return {
        name: (value.half() if value.is_floating_point() else value).detach()
        for name, value in tensors.items()
    }


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, floats in single precision on the CPU, and the card.

    Raises:
        CheckpointError: either file is missing or broken, or the suffix is another.
    """
    _check_suffix(path)
    if not is_file(path):
        raise CheckpointError(path, "no such weights. Check the path, or train them first.")
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            path, f"not a whole safetensors file ({error}). Copy or train it again."
        ) from error
    tensors = {n: v.float() if v.is_floating_point() else v for n, v in stored.items()}
    return tensors, load_card(path)


def load_card(weights_path: Path) -> dict[str, Any]:
    """Return the card of a weights file, as JSON values.

    Raises:
        CheckpointError: it is missing or broken.
    """
    path = get_card_path(weights_path)
    if not is_file(path):
        raise CheckpointError(path, "the card of the weights is missing. Copy both files.")
    try:
        card = read_json(path, _MAX_CARD_BYTES, "card of weights", "Copy both files again.")
        check_nesting(path, card)
    except InputError as error:
        raise CheckpointError(*error.args) from error
    if not isinstance(card, dict):
        raise CheckpointError(
            path, "not a JSON card: an object is expected. Copy both files again."
        )
    return card


def parse_card(path: Path, content: Mapping[str, Any], card_type: type[Card], owner: str) -> Card:
    """Return the card that a JSON file holds.

    Args:
        path: the file, for the errors.
        content: of the file.
        card_type: the card's dataclass.
        owner: what the card describes: "a detector".

    Raises:
        CheckpointError: another card, or a value in it is missing or not allowed.
    """
    try:
        return TypeAdapter(card_type).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CheckpointError(
            path, f"not the card of {owner}: {key}: {first['msg']}. Copy both files again."
        ) from error
    except UsageError as error:
        raise CheckpointError(path, f"{error}. Copy both files again.") from error


def get_card_path(weights_path: Path) -> Path:
    """Return where the card of a weights file lies: ``dice.json`` beside ``dice.safetensors``."""
    return weights_path.with_suffix(".json")


def check_sizes(
    path: Path,
    tensors: Mapping[str, Tensor],
    *,
    layers: Mapping[str, int] | None = None,
    widths: Mapping[str, int] | None = None,
    channels: Mapping[str, int] | None = None,
) -> None:
    """Refuse a card that asks for a larger network than its tensors can fill, before it is built.

    Args:
        path: the weights file, for the error.
        tensors: in it.
        layers: what the card says, by its name, of numbers of which a network has a tensor each.
        widths: what it says of numbers of which a network has a tensor with as many rows and columns.
        channels: what it says of numbers of which a network has a tensor with as long a side.

    Raises:
        CheckpointError: naming the number.
    """
    held = [tensor for tensor in tensors.values() if tensor.numel()]
    largest = max((tensor.numel() for tensor in held), default=0)
    longest = max((side for tensor in held for side in tensor.shape), default=0)
    bounds = ((len(held), layers), (math.isqrt(largest), widths), (longest, channels))
    for most, numbers in bounds:
        for name, number in (numbers or {}).items():
            if number > most:
                raise CheckpointError(
                    path,
                    f"its card asks for {name} = {reprlib.repr(number)}, for which its tensors are too few or too "
                    f"small ({most} at most). Copy both files again.",
                )


def load_into_network(path: Path, network: torch.nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a network its weights.

    Raises:
        CheckpointError: a tensor is missing, not used, not finite or of another shape.
    """
    wanted = network.state_dict()
    for name in sorted(wanted.keys() | tensors.keys()):
        if name not in tensors:
            raise CheckpointError(path, f"tensor {name} is missing, which its card asks for.")
        if name not in wanted:
            raise CheckpointError(path, f"tensor {name} is not part of what its card describes.")
        if tensors[name].shape != wanted[name].shape:
            raise CheckpointError(
                path,
                f"tensor {name} has the shape {tuple(tensors[name].shape)}, but its card asks for "
                f"{tuple(wanted[name].shape)}.",
            )
        if not torch.isfinite(tensors[name]).all():
            raise CheckpointError(path, f"tensor {name} holds values that are not finite.")
    network.load_state_dict(dict(tensors))


def _check_suffix(path: Path) -> None:
    if path.suffix != WEIGHTS_SUFFIX:
        raise CheckpointError(
            path,
            f"weights end in {WEIGHTS_SUFFIX}, not in '{path.suffix}'. Nothing else is opened.",
        )
