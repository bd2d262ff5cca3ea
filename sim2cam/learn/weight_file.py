"""Weight files: safetensors with a JSON card of the same name."""

from __future__ import annotations

import json
import math
import re
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
COPY_AGAIN = "Copy both files again."
_MAX_CARD_BYTES = 1 << 26
_STATISTIC = re.compile(r"(^|\.)running_(mean|var)$")

Card = TypeVar("Card")


def save_weights(path: Path, tensors: Mapping[str, Tensor], card: Mapping[str, Any]) -> None:
    """Write a weights file in half precision, and its card.

    Raises:
        CheckpointError: If the suffix is not ``.safetensors``, or a value is not finite in the stored precision.
        OutputError: If the folder cannot be written.
    """
    _check_suffix(path)
    halved = {name: value.cpu().contiguous() for name, value in to_half_precision(tensors).items()}
    for name, value in halved.items():
        if value.is_floating_point() and not value.isfinite().all():
            raise CheckpointError(
                path,
                f"'{name}' contains values that are not finite in half precision. Nothing is written. "
                "Lower the learning rate, then train again.",
            )
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    write_atomic(path, save(halved))
    write_atomic(get_card_path(path), text.encode(errors="backslashreplace"))


def to_half_precision(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert floating-point tensors to half precision, as ``save_weights`` stores them.

    Statistics of batch norms keep single precision: variances may exceed the range of half precision.
    """
    return {
        name: (
            value.half() if value.is_floating_point() and not _STATISTIC.search(name) else value
        ).detach()
        for name, value in tensors.items()
    }


def load_weights(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Load the tensors, in single precision on the CPU, and the card.

    Raises:
        CheckpointError: If a file is missing or damaged, or the suffix is not ``.safetensors``.
    """
    _check_suffix(path)
    if not is_file(path):
        raise CheckpointError(path, "no such weights. Check the path, or train them first.")
    try:
        stored = load_file(path)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            path, f"damaged safetensors file ({error}). Copy or train it again."
        ) from error
    tensors = {n: v.float() if v.is_floating_point() else v for n, v in stored.items()}
    return tensors, load_card(path)


def load_card(weights_path: Path) -> dict[str, Any]:
    """Load the card of a weights file as JSON values.

    Raises:
        CheckpointError: If the card is missing or damaged.
    """
    path = get_card_path(weights_path)
    if not is_file(path):
        raise CheckpointError(path, "the card of the weights is missing. Copy both files.")
    try:
        card = read_json(path, _MAX_CARD_BYTES, "card of weights", COPY_AGAIN)
        check_nesting(path, card)
    except InputError as error:
        raise CheckpointError(*error.args) from error
    if not isinstance(card, dict):
        raise CheckpointError(path, f"not a JSON card: an object is expected. {COPY_AGAIN}")
    return card


def parse_card(path: Path, content: Mapping[str, Any], card_type: type[Card], owner: str) -> Card:
    """Validate a card.

    Args:
        path: Card file for errors.
        content: Content of the file.
        card_type: Dataclass of the card.
        owner: Subject of the card for errors, such as "a detector".

    Raises:
        CheckpointError: If a value is missing or invalid.
    """
    try:
        return TypeAdapter(card_type).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise CheckpointError(
            path, f"not a card of {owner}: {key}: {first['msg']}. {COPY_AGAIN}"
        ) from error
    except UsageError as error:
        raise CheckpointError(path, f"{str(error).rstrip('.')}. {COPY_AGAIN}") from error


def get_card_path(weights_path: Path) -> Path:
    """Return the path of the card: ``dice.json`` for ``dice.safetensors``."""
    return weights_path.with_suffix(".json")


def check_sizes(
    path: Path,
    tensors: Mapping[str, Tensor],
    *,
    layers: Mapping[str, int] | None = None,
    widths: Mapping[str, int] | None = None,
    channels: Mapping[str, int] | None = None,
) -> None:
    """Check the sizes of a card against its tensors, before a network of these sizes is built.

    Args:
        path: Weights file for errors.
        tensors: Tensors of the file.
        layers: Layer counts of the card by name, at most the number of tensors.
        widths: Widths of square layers by name, at most the square root of the largest tensor size.
        channels: Channel counts by name, at most the longest side of a tensor.

    Raises:
        CheckpointError: If a size exceeds its maximum.
    """
    non_empty = [tensor for tensor in tensors.values() if tensor.numel()]
    largest = max((tensor.numel() for tensor in non_empty), default=0)
    longest = max((side for tensor in non_empty for side in tensor.shape), default=0)
    bounds = ((len(non_empty), layers), (math.isqrt(largest), widths), (longest, channels))
    for maximum, numbers in bounds:
        for name, number in (numbers or {}).items():
            if number > maximum:
                raise CheckpointError(
                    path,
                    f"the card has {name} = {reprlib.repr(number)}, but its tensors allow at most {maximum}. "
                    f"{COPY_AGAIN}",
                )


def load_into_network(path: Path, network: torch.nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load tensors into a network.

    Raises:
        CheckpointError: If a tensor is missing, unexpected, not finite or of another shape.
    """
    expected = network.state_dict()
    for name in sorted(expected.keys() | tensors.keys()):
        if name not in tensors:
            raise CheckpointError(path, f"tensor {name} of the card is missing. {COPY_AGAIN}")
        if name not in expected:
            raise CheckpointError(path, f"tensor {name} is not in the card. {COPY_AGAIN}")
        if tensors[name].shape != expected[name].shape:
            raise CheckpointError(
                path,
                f"tensor {name} has the shape {tuple(tensors[name].shape)}, but the card requires "
                f"{tuple(expected[name].shape)}. {COPY_AGAIN}",
            )
        if not torch.isfinite(tensors[name]).all():
            raise CheckpointError(
                path, f"tensor {name} contains values that are not finite. Train again."
            )
    network.load_state_dict(dict(tensors))


def _check_suffix(path: Path) -> None:
    if path.suffix != WEIGHTS_SUFFIX:
        raise CheckpointError(
            path,
            f"weights must end in {WEIGHTS_SUFFIX}, not '{path.suffix}'.",
        )
