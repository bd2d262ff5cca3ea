"""Training a translator from renders and unlabelled captures."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sim2cam.adapt.translator.buffers import buffers_of, count_channels
from sim2cam.adapt.translator.card import TranslatorCard, images_record
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.patches import Batch, PatchSource, draw_batch
from sim2cam.adapt.translator.step import build_players, update
from sim2cam.adapt.translator.translator import Translator, load_translator, save_translator
from sim2cam.dataset.sample import Dataset
from sim2cam.errors import InputError
from sim2cam.training.checkpoint import (
    Checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from sim2cam.training.device import find_device
from sim2cam.training.ema import WeightAverage
from sim2cam.training.run import CHECKPOINT, WEIGHTS, Record, open_run, read_record

MIN_CAPTURES = 20
LINE_STEPS = 10


@dataclass(frozen=True)
class TranslatorProgress:
    """A line of the training's record.

    Attributes:
        step: steps done.
        steps: steps in all.
        scalars: means since the last line: the losses ``adversarial identity structure range
            generator discriminator gradient_penalty``, the ``mean_change`` of a render (of a range
            of 1), and the ``discriminator_accuracy`` (0.5: it cannot tell).
        step_s: seconds a step since the last line, waiting for data included.
    """

    step: int
    steps: int
    scalars: dict[str, float]
    step_s: float


def train_translator(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig,
    run_dir: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    progress: Callable[[TranslatorProgress], None] | None = None,
    checkpoint_s: float = 30.0,
) -> Translator:
    """Returns the translator whose averaged weights are then in ``run_dir/weights.safetensors``.

    Args:
        sim: renders; their depth and instance ids are used where all have them.
        real: captures; only their pixels are looked at.
        config: everything else that decides the result.
        run_dir: for checkpoint, weights, their card and ``metrics.jsonl``.
        resume: goes on from the checkpoint, where there is one.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.

    Raises:
        InputError: no renders, fewer than ``MIN_CAPTURES`` captures, or an image cannot be read.
        CheckpointError: the checkpoint is broken or of another training.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError, BackendError: there is no such device.
        Sim2CamError: the loss is no longer finite.
    """
    _check_images(sim, real)
    place = find_device(device)
    buffers = buffers_of(sim) if config.use_buffers else ()
    card = TranslatorCard(config.steps, buffers, config, images_record(sim), images_record(real))
    identity = _identity(card)
    run = _Run(config, buffers, place)
    if checkpoint := open_run(run_dir, identity, TranslatorProgress, resume=resume):
        run.restore(checkpoint)
    sources = (
        PatchSource(sim, buffers=buffers, cache_bytes=config.cache_bytes),
        PatchSource(real, buffers=(), cache_bytes=config.cache_bytes),
    )
    record = Record(run_dir, "learning_rate_generator and learning_rate_discriminator")
    saved_at = time.monotonic()
    while run.step < config.steps:
        batch = draw_batch(*sources, config, count_channels(buffers), run.step)
        record.add(run.train_step(batch))
        if run.step % LINE_STEPS and run.step < config.steps:
            continue
        line = TranslatorProgress(run.step, config.steps, *record.take_means(run.step))
        record.write(line)
        if run.step == config.steps or time.monotonic() - saved_at >= checkpoint_s:
            save_checkpoint(run_dir / CHECKPOINT, run.checkpoint(identity))
            saved_at = time.monotonic()
        if progress is not None:
            progress(line)
    save_translator(run_dir / WEIGHTS, run.average.state, card)
    return load_translator(run_dir, device=device)


def read_metrics(run_dir: Path) -> tuple[TranslatorProgress, ...]:
    """Returns the training's record; empty when there is none, short of a line cut by a crash.

    Raises:
        InputError: it is not that of a translator's training.
    """
    return read_record(run_dir, TranslatorProgress)


class _Run:
    """A training between two steps."""

    def __init__(
        self, config: TranslatorConfig, buffers: tuple[str, ...], device: torch.device
    ) -> None:
        self._config = config
        self._device = device
        self._players = build_players(config, buffers, device)
        self.average = WeightAverage(self._players.generator, config.ema_decay)
        self.step = 0

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        """Returns the scalars of one more step."""
        scalars = update(self._players, batch.to(self._device), self._config, self.step)
        self.average.update(self._players.generator, self.step)
        self.step += 1
        return scalars

    def checkpoint(self, identity: Mapping[str, Any]) -> Checkpoint:
        """Returns all that the next step depends on."""
        p = self._players
        groups = {
            "generator": p.generator.state_dict(),
            "discriminator": p.discriminator.state_dict(),
            "average": self.average.state,
            "generator optimiser": optimizer_tensors(p.generator, p.generator_optimiser),
            "discriminator optimiser": optimizer_tensors(
                p.discriminator, p.discriminator_optimiser
            ),
        }
        tensors = {
            f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()
        }
        return Checkpoint(self.step, identity, tensors)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Becomes the training that the checkpoint was taken of."""
        groups: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for key, value in checkpoint.tensors.items():
            group, _, name = key.partition(":")
            groups[group][name] = value
        p = self._players
        p.generator.load_state_dict(groups["generator"])
        p.discriminator.load_state_dict(groups["discriminator"])
        self.average.load(groups["average"])
        restore_optimizer(p.generator, p.generator_optimiser, groups["generator optimiser"])
        restore_optimizer(
            p.discriminator, p.discriminator_optimiser, groups["discriminator optimiser"]
        )
        self.step = checkpoint.step


def _check_images(sim: Dataset, real: Dataset) -> None:
    if not sim.samples:
        raise InputError(sim.root, "no renders to train on. Render some first.")
    if len(real.samples) < MIN_CAPTURES:
        raise InputError(
            real.root,
            f"{len(real.samples)} captures, but a translator needs at least {MIN_CAPTURES}. "
            "Add some, or go on without translation.",
        )


def _identity(card: TranslatorCard) -> dict[str, Any]:
    decisive = {name: value for name, value in asdict(card.config).items() if name != "cache_bytes"}
    return {
        "config": decisive,
        "buffers": list(card.buffers),
        "sim": card.sim.digest,
        "real": card.real.digest,
    }
