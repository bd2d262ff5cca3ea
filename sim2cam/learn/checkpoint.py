"""Checkpoints from which a training goes on as if it had never stopped.

One safetensors file holds the tensors and, as its header's text, the JSON state, so that both are
replaced in one step and never belong to two moments. Safetensors stores tensors in an order of its own, so
the state has their names in ours: what a record lists first comes first after a resume, too.
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
_SNAPSHOT_INTERVAL_S = (
    1.0  # between copies of the state, which cost a step of a large network a hundredth
)


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a training.

    Attributes:
        step: how many steps are done.
        identity: all that decides the training's result, by name; only an equal one goes on.
        tensors: weights, averages and moments by name.
        extra_state: what else the training goes on from, as JSON values.
    """

    step: int
    identity: Mapping[str, Any]
    tensors: Mapping[str, Tensor]
    extra_state: Mapping[str, Any] = field(default_factory=dict)


class Checkpointer:
    """Keeps the last whole state of a training, and writes it now and then.

    Args:
        path: of the checkpoint.
        interval_s: seconds between those that are written.
    """

    def __init__(self, path: Path, interval_s: float) -> None:
        self._path, self._interval_s = path, interval_s
        self._snapshot: Checkpoint | None = None
        self._snapshot_at = self._written_at = time.monotonic()

    def update(self, make_checkpoint: Callable[[], Checkpoint], *, is_last: bool) -> None:
        """Take in what a training is after a step, which the next one may change in its place.

        Raises:
            OutputError: it is time to write it, and the folder cannot be written or the disk is full.
        """
        now = time.monotonic()
        if not is_last and now - self._snapshot_at < min(_SNAPSHOT_INTERVAL_S, self._interval_s):
            return
        found = make_checkpoint()
        tensors = {name: value.detach().clone() for name, value in found.tensors.items()}
        self._snapshot, self._snapshot_at = replace(found, tensors=tensors), now
        if is_last or now - self._written_at >= self._interval_s:
            self.write()

    def write(self) -> None:
        """Write the state that is kept, unless that is done or numbers in it are no longer finite.

        Raises:
            OutputError: the folder cannot be written or the disk is full.
        """
        if self._snapshot is None:
            return
        tensors = {name: value.cpu() for name, value in self._snapshot.tensors.items()}
        if all(bool(torch.isfinite(value).all()) for value in tensors.values()):
            save_checkpoint(self._path, replace(self._snapshot, tensors=tensors))
        self._snapshot, self._written_at = None, time.monotonic()


@contextmanager
def open_checkpointer(path: Path, interval_s: float) -> Iterator[Checkpointer]:
    """Yield what keeps the states of a training and, whatever ends it early, writes the last of them.

    An error in the middle of a step leaves networks of which some have learned and others not: what is
    written is of before. Of losses that ran away nothing is, since they would again.

    Args:
        path: of the checkpoint.
        interval_s: as ``Checkpointer`` takes it.
    """
    keeper = Checkpointer(path, interval_s)
    try:
        yield keeper
    except DivergenceError:
        raise
    except BaseException:
        with suppress(OutputError):  # what ended it is told
            keeper.write()
        raise


def save_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, of which no tensors share memory, replacing the last one in one step.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    tensors = {name: value.contiguous() for name, value in checkpoint.tensors.items()}
    state = {name: getattr(checkpoint, name) for name in ("step", "identity", "extra_state")}
    write_atomic(
        path, save(tensors, {_STATE_KEY: json.dumps(state | {_TENSOR_ORDER_KEY: list(tensors)})})
    )


def load_checkpoint(path: Path, identity: Mapping[str, Any]) -> Checkpoint:
    """Return a checkpoint of this very training.

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
            state = json.loads((file.metadata() or {})[_STATE_KEY])
            names = state.get(_TENSOR_ORDER_KEY, file.keys())  # those of before have no order
            tensors = {name: file.get_tensor(name) for name in names}
        step, found, facts = (
            int(state["step"]),
            state["identity"],
            dict(state.get("extra_state", {})),
        )
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(
            path, f"not a whole checkpoint ({error}). Run with --overwrite to start again."
        ) from error
    _check_identity(path, found, json.loads(json.dumps(identity)))
    return Checkpoint(step, found, tensors, facts)


def load_extra_state(path: Path) -> Mapping[str, Any]:
    """Return the facts of a checkpoint, of whatever training; none of one that is missing or broken."""
    try:
        with safe_open(path, framework="pt") as file:
            return dict(json.loads((file.metadata() or {})[_STATE_KEY]).get("extra_state", {}))
    except (SafetensorError, OSError, ValueError, KeyError, RecursionError):
        return {}


def collect_optimizer_state(
    network: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Return the optimizer's state by ``parameter/quantity``; its values must all be tensors."""
    found = {}
    for name, parameter in network.named_parameters():
        for quantity, value in optimizer.state.get(parameter, {}).items():
            found[f"{name}/{quantity}"] = value
    return found


def restore_optimizer(
    network: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what ``collect_optimizer_state`` returned, on each parameter's device."""
    parameters = dict(network.named_parameters())
    for key, value in tensors.items():
        name, _, quantity = key.rpartition("/")
        parameter = parameters[name]
        optimizer.state[parameter][quantity] = value.to(parameter.device).clone()
        if value.shape == parameter.shape:
            laid_out = torch.empty_like(parameter).copy_(value.to(parameter.device))
            optimizer.state[parameter][quantity] = laid_out.detach()


def _check_identity(path: Path, stored: object, current: Mapping[str, Any]) -> None:
    ours, theirs = _flatten(current), _flatten(stored)
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
