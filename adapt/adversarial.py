"""The loop of every adversarial training: steps, their record, and checkpoints."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from sim2cam.dataset.sample import Dataset
from sim2cam.errors import InputError
from sim2cam.training.checkpoint import (
    Checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from sim2cam.training.run import CHECKPOINT, Record, open_run, read_record

MIN_CAPTURES = 20
LINE_STEPS = 10

Groups = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class TranslatorProgress:
    """A line of the training's record.

    Attributes:
        step: steps done.
        steps: steps in all.
        scalars: means since the last line of what the game measures: its losses by name, and the
            ``mean_change`` of a render (of a range of 1).
        step_s: seconds a step since the last line, waiting for data included.
    """

    step: int
    steps: int
    scalars: dict[str, float]
    step_s: float


class Game(Protocol):
    """Networks that are trained against each other, between two steps."""

    def play(self, step: int) -> dict[str, Tensor]:
        """Returns the scalars of this step, which depends on nothing but the state and ``step``."""
        ...

    def state(self) -> Groups:
        """Returns all that the next step depends on, in named groups of named tensors."""
        ...

    def restore(self, groups: Groups) -> None:
        """Becomes the game that ``state`` was taken of."""
        ...


def play(
    game: Game,
    identity: Mapping[str, Any],
    steps: int,
    run_dir: Path,
    *,
    cure: str,
    resume: bool,
    progress: Callable[[TranslatorProgress], None] | None,
    checkpoint_s: float,
) -> None:
    """Plays a game to its last step, from its checkpoint where there is one.

    Args:
        game: at step 0.
        identity: all that decides the result; only a checkpoint with an equal one goes on.
        steps: of the whole game.
        run_dir: for checkpoint and ``metrics.jsonl``.
        cure: what to do when it runs away, as ``Record`` takes it.
        resume: goes on from the checkpoint, where there is one.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.

    Raises:
        CheckpointError: the checkpoint is broken or of another training.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        Sim2CamError: a loss is no longer finite.
    """
    step = 0
    if checkpoint := open_run(run_dir, identity, TranslatorProgress, resume=resume):
        game.restore(_grouped(checkpoint.tensors))
        step = checkpoint.step
    record = Record(run_dir, cure)
    saved_at = time.monotonic()
    while step < steps:
        record.add(game.play(step))
        step += 1
        if step % LINE_STEPS and step < steps:
            continue
        line = TranslatorProgress(step, steps, *record.take_means(step))
        record.write(line)
        if step == steps or time.monotonic() - saved_at >= checkpoint_s:
            moment = Checkpoint(step, identity, _flat(game.state()))
            save_checkpoint(run_dir / CHECKPOINT, moment)
            saved_at = time.monotonic()
        if progress is not None:
            progress(line)


def player_state(name: str, network: nn.Module, optimiser: torch.optim.Optimizer) -> Groups:
    """Returns the groups ``name`` and ``name optimiser`` of a network and what trains it."""
    return {
        name: network.state_dict(),
        f"{name} optimiser": optimizer_tensors(network, optimiser),
    }


def restore_player(
    groups: Groups, name: str, network: nn.Module, optimiser: torch.optim.Optimizer
) -> None:
    """Puts back what ``player_state`` returned."""
    network.load_state_dict(groups[name])
    restore_optimizer(network, optimiser, groups[f"{name} optimiser"])


def read_metrics(run_dir: Path) -> tuple[TranslatorProgress, ...]:
    """Returns the training's record; empty when there is none, short of a line cut by a crash.

    Raises:
        InputError: it is not that of a translator's training.
    """
    return read_record(run_dir, TranslatorProgress)


def check_images(sim: Dataset, real: Dataset) -> None:
    """Refuses too few images.

    Raises:
        InputError: no renders, or fewer than ``MIN_CAPTURES`` captures.
    """
    if not sim.samples:
        raise InputError(sim.root, "no renders to train on. Render some first.")
    if len(real.samples) < MIN_CAPTURES:
        raise InputError(
            real.root,
            f"{len(real.samples)} captures, but a translator needs at least {MIN_CAPTURES}. "
            "Add some, or go on without translation.",
        )


def _flat(groups: Groups) -> dict[str, Tensor]:
    return {f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()}


def _grouped(tensors: Mapping[str, Tensor]) -> Groups:
    groups: Groups = defaultdict(dict)
    for key, value in tensors.items():
        group, _, name = key.partition(":")
        groups[group][name] = value
    return groups
