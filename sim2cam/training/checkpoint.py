"""Checkpoints from which a training goes on as if it had never stopped.

One safetensors file holds the tensors and, as its header's text, the JSON state, so that both are
replaced in one step and never belong to two moments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from sim2cam.errors import CheckpointError
from sim2cam.training.weights import write_whole

_TEXT = "state"


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a training.

    Attributes:
        step: how many steps are done.
        identity: all that decides the training's result, by name; only an equal one goes on.
        tensors: weights, averages and moments by name, on the CPU.
        facts: what else the training goes on from, as JSON values.
    """

    step: int
    identity: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any] = field(default_factory=dict)


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint, replacing the last one in one step.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    tensors = {n: v.detach().cpu().clone().contiguous() for n, v in checkpoint.tensors.items()}
    state = {name: getattr(checkpoint, name) for name in ("step", "identity", "facts")}
    write_whole(path, save(tensors, {_TEXT: json.dumps(state, sort_keys=True)}))


def load_checkpoint(path: Path, identity: Mapping[str, Any]) -> Checkpoint:
    """Returns a checkpoint of this very training.

    Args:
        path: the file.
        identity: what the training is now; JSON values.

    Raises:
        CheckpointError: missing or broken, or of a training with another identity.
    """
    if not path.is_file():
        raise CheckpointError(path, "no checkpoint to resume. Run without --resume.")
    try:
        with safe_open(path, framework="pt") as file:
            state = json.loads((file.metadata() or {})[_TEXT])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        step, found, facts = int(state["step"]), state["identity"], dict(state.get("facts", {}))
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            path, f"not a whole checkpoint ({error}). Run with --overwrite to start again."
        ) from error
    _check_identity(path, found, json.loads(json.dumps(identity)))
    return Checkpoint(step, found, tensors, facts)


def optimizer_tensors(network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Returns the optimizer's state by ``parameter/quantity``; its values must all be tensors."""
    found = {}
    for name, parameter in network.named_parameters():
        for quantity, value in optimizer.state.get(parameter, {}).items():
            found[f"{name}/{quantity}"] = value
    return found


def restore_optimizer(
    network: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Puts back what ``optimizer_tensors`` returned, on each parameter's device."""
    parameters = dict(network.named_parameters())
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        parameter = parameters[name]
        optimizer.state[parameter][quantity] = value.to(parameter.device).clone()
        if value.shape == parameter.shape:
            laid_out = torch.empty_like(parameter).copy_(value.to(parameter.device))
            optimizer.state[parameter][quantity] = laid_out.detach()


def _check_identity(path: Path, found: object, wanted: Mapping[str, Any]) -> None:
    ours, theirs = _flatten(wanted), _flatten(found)
    for name in sorted(ours.keys() | theirs.keys()):
        was, now = theirs.get(name), ours.get(name)
        if was != now:
            raise CheckpointError(
                path,
                f"belongs to another training: {name} was {was!r} and is now {now!r}. Give what it "
                "was, or run with --overwrite to start again.",
            )


def _flatten(value: object, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {
            name: leaf
            for key, inner in value.items()
            for name, leaf in _flatten(inner, f"{prefix}{key}.").items()
        }
    return {prefix.rstrip("."): value}
