"""Checkpoints that ``trainer`` writes, and that resume a training exactly.

One safetensors file holds the tensors and, in its metadata, the JSON state, so that both are replaced
atomically. Safetensors reorders tensors, so the state also holds their names in the original order.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from sim2cam.errors import CheckpointError, DivergenceError, OutputError
from sim2cam.files import write_atomic

_STATE_KEY, _TENSOR_ORDER_KEY = "state", "tensors"
_SNAPSHOT_INTERVAL_S = 1.0  # a copy costs about 1 % of a step of a large network


@dataclass(frozen=True)
class Checkpoint:
    """State of a training.

    Attributes:
        step: Number of finished steps.
        identity: Everything that determines the result, by name; a resumed training must match it.
        tensors: Weights, averages and optimizer moments by name.
        extra_state: Further state as JSON values.
    """

    step: int
    identity: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    extra_state: Mapping[str, Any] = field(default_factory=dict)


class Checkpointer:
    """Periodic writer of checkpoints that keeps a snapshot of the last complete state.

    Args:
        path: Checkpoint file.
        interval_s: Time between writes in seconds.
    """

    def __init__(self, path: Path, interval_s: float) -> None:
        self._path, self._interval_s = path, interval_s
        self._snapshot: Checkpoint | None = None
        self._snapshot_at = self._written_at = time.monotonic()

    def update(self, make_checkpoint: Callable[[], Checkpoint], *, is_last: bool) -> None:
        """Copy the state after a step, and write it if the interval has passed.

        Args:
            make_checkpoint: Returns the state; its tensors may be changed in place afterwards.
            is_last: Write in any case.

        Raises:
            OutputError: If the folder cannot be written or the disk is full.
        """
        now = time.monotonic()
        if not is_last and now - self._snapshot_at < min(_SNAPSHOT_INTERVAL_S, self._interval_s):
            return
        checkpoint = make_checkpoint()
        tensors = {name: value.detach().clone() for name, value in checkpoint.tensors.items()}
        self._snapshot, self._snapshot_at = replace(checkpoint, tensors=tensors), now
        if is_last or now - self._written_at >= self._interval_s:
            self.write()

    def write(self) -> None:
        """Write the snapshot, unless it is written already or contains non-finite values.

        Raises:
            OutputError: If the folder cannot be written or the disk is full.
        """
        if self._snapshot is None:
            return
        tensors = {name: value.cpu() for name, value in self._snapshot.tensors.items()}
        if all(bool(torch.isfinite(value).all()) for value in tensors.values()):
            save_checkpoint(self._path, replace(self._snapshot, tensors=tensors))
        self._snapshot, self._written_at = None, time.monotonic()


@contextmanager
def open_checkpointer(path: Path, interval_s: float) -> Iterator[Checkpointer]:
    """Yield a checkpointer that writes its last snapshot if the training ends with an error.

    The snapshot is from before the failed step, in which networks may be partly updated. A diverged
    training writes nothing, because it would diverge again.

    Args:
        path: Checkpoint file.
        interval_s: Time between writes in seconds.
    """
    checkpointer = Checkpointer(path, interval_s)
    try:
        yield checkpointer
    except DivergenceError:
        raise
    except BaseException:
        with suppress(OutputError):  # the first error is raised
            checkpointer.write()
        raise


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically; its tensors must not share memory.

    Raises:
        OutputError: If the folder cannot be written or the disk is full.
    """
    tensors = {name: value.contiguous() for name, value in checkpoint.tensors.items()}
    state = {name: getattr(checkpoint, name) for name in ("step", "identity", "extra_state")}
    write_atomic(
        path, save(tensors, {_STATE_KEY: json.dumps(state | {_TENSOR_ORDER_KEY: list(tensors)})})
    )


def load_checkpoint(path: Path, identity: Mapping[str, Any]) -> Checkpoint:
    """Load a checkpoint of the same training.

    Args:
        path: Checkpoint file.
        identity: Identity of the training as JSON values.

    Raises:
        CheckpointError: If the file is missing, damaged, or of a training with another identity.
    """
    with _open_state(path) as (file, state):
        tensors = {name: file.get_tensor(name) for name in state[_TENSOR_ORDER_KEY]}
        checkpoint = Checkpoint(
            int(state["step"]), state["identity"], tensors, dict(state["extra_state"])
        )
    _check_identity(path, checkpoint.identity, json.loads(json.dumps(identity)))
    return checkpoint


def load_identity(path: Path) -> Mapping[str, Any]:
    """Load the identity of the training of a checkpoint.

    Raises:
        CheckpointError: If the file is missing or damaged.
    """
    with _open_state(path) as (_, state):
        return dict(state["identity"])


@contextmanager
def _open_state(path: Path) -> Iterator[tuple[Any, Any]]:
    """Yield the open file of a checkpoint and its JSON state; raise CheckpointError if it is damaged."""
    if not path.is_file():
        raise CheckpointError(path, "no such checkpoint. Run without --resume.")
    try:
        with safe_open(path, framework="pt") as file:
            yield file, json.loads((file.metadata() or {})[_STATE_KEY])
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            path, f"damaged checkpoint ({error}). Run with --overwrite to start again."
        ) from error


def collect_optimizer_state(
    network: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Return the optimizer state by ``parameter/quantity``; all values must be tensors."""
    tensors = {}
    for name, parameter in network.named_parameters():
        for quantity, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}/{quantity}"] = value
    return tensors


def restore_optimizer(
    network: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restore the state of ``collect_optimizer_state`` on the device of each parameter."""
    parameters = dict(network.named_parameters())
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        parameter = parameters[name]
        optimizer.state[parameter][quantity] = value.to(parameter.device).clone()
        if value.shape == parameter.shape:
            moment = torch.empty_like(parameter).copy_(value.to(parameter.device))
            optimizer.state[parameter][quantity] = moment.detach()


def _check_identity(path: Path, stored: object, current: Mapping[str, Any]) -> None:
    current_values, stored_values = _flatten(current), _flatten(stored)
    for name in sorted(current_values.keys() | stored_values.keys()):
        old, new = stored_values.get(name), current_values.get(name)
        if old != new:
            raise CheckpointError(
                path,
                f"belongs to another training: {name} was {old!r} and is now {new!r}. Restore the old "
                "value, or run with --overwrite to start again.",
            )


def _flatten(value: object, prefix: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {
            name: leaf
            for key, inner in value.items()
            for name, leaf in _flatten(inner, f"{prefix}{key}.").items()
        }
    return {prefix.rstrip("."): value}
