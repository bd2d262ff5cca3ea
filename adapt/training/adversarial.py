"""Adversarial training: a generator and its discriminators as a task of the trainer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from pydantic import TypeAdapter
from torch import Tensor

from sim2cam.adapt.training.candidates import CandidateModel, CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import (
    LOG_INTERVAL_STEPS,
    MIN_CANDIDATES,
    MIN_INTERVAL_STEPS,
    CandidateScores,
    CheckpointSelection,
    TrainingOutcome,
    build_selection,
    schedule_evaluations,
    select_best,
)
from sim2cam.adapt.training.diagnostics import diagnose_training
from sim2cam.adapt.training.sample_images import write_sample_images
from sim2cam.data.sample import Dataset
from sim2cam.errors import InputError
from sim2cam.learn.launch import is_main_process
from sim2cam.learn.run_folder import read_metrics_log
from sim2cam.learn.trainer import Callbacks, Task, Trainable, train

MIN_REAL_IMAGES = 20

_MAX_SAMPLE_IMAGES = 8
_WARMUP_DIVISOR = 4  # no warnings in the first 1/4 of the steps
_RECENT_DIVISOR = 10  # warnings depend on the last 1/10 of the steps
_NO_IMPROVEMENT_WARNING = (
    "the selected weights bring renders no nearer to the held-out real images. Train with more --steps, or use "
    "the renders without translation."
)


@dataclass(frozen=True)
class TranslatorProgress:
    """One line of the metrics log.

    Attributes:
        step: steps done.
        steps: steps of the training.
        scalars: means since the last line: losses by name, and ``mean_change`` of a render on a scale of 0 to
            1. After the evaluation of a candidate also ``held_out_accepted`` (fraction) and
            ``held_out_distance`` (see ``CandidateScores``).
        step_s: seconds per step since the last line, including waiting for data.
        warnings: diagnostics, as messages.
    """

    step: int
    steps: int
    scalars: dict[str, float]
    step_s: float
    warnings: list[str] = field(default_factory=list)


class AdversarialModel(CandidateModel, Protocol):
    """A generator and its discriminators in training.

    Attributes:
        chance_loss: name among the scalars of the loss of the real-image discriminator, and its value if the
            discriminator guesses.
        remedy: as in ``Task``.
    """

    chance_loss: tuple[str, float]
    remedy: str

    @property
    def networks(self) -> Mapping[str, Trainable]:
        """All networks by name."""
        ...

    def make_batch(self, step: int, /) -> Any:
        """Return the batch of a step for this process."""
        ...

    def train_step(self, step: int, batch: Any) -> dict[str, Tensor]:
        """Train one step and return its scalars, among them ``mean_change``."""
        ...

    def get_weights(self) -> dict[str, Tensor]:
        """Return the weights of the generator that would ship."""
        ...


class AdversarialTask(Task[Any, TranslatorProgress]):
    """Training of an adversarial model; the result is the best candidate on held-out images.

    Args:
        model: model at step 0.
        selector: held-out images and evaluation of candidates.
        steps: steps of the training.
        run_dir: folder of the sample images.
        save_weights: writes weights and outcome to a file.
    """

    def __init__(
        self,
        model: AdversarialModel,
        selector: CheckpointSelector,
        steps: int,
        run_dir: Path,
        save_weights: Callable[[Path, Mapping[str, Tensor], TrainingOutcome], None],
    ) -> None:
        self._model, self._selector, self._run_dir = model, selector, run_dir
        self._save_weights = save_weights
        self.steps, self.remedy, self.networks = steps, model.remedy, model.networks
        self._candidates: list[CandidateScores] = []
        # closer together in short trainings than candidates, so that these have sample images too
        min_interval_steps = max(
            LOG_INTERVAL_STEPS, min(MIN_INTERVAL_STEPS, steps // MIN_CANDIDATES)
        )
        self._sample_steps = schedule_evaluations(steps, _MAX_SAMPLE_IMAGES, min_interval_steps)

    def make_batch(self, step: int) -> Any:
        """Return the batch of a step."""
        return self._model.make_batch(step)

    def train_step(self, step: int, batch: Any) -> dict[str, Tensor]:
        """Train one step and return its scalars."""
        return self._model.train_step(step, batch)

    def start(self, step: int) -> None:
        """Write sample images of a new training."""
        if step == 0 and self._sample_steps and is_main_process():
            self._write_sample_images(0)

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate a candidate in the main process if due."""
        split = self._selector.split
        if step not in split.candidate_steps or not is_main_process():
            return {}
        candidate = self._selector.evaluate(step, self._model)
        self._candidates.append(candidate)
        if select_best(self._candidates) is candidate:
            weights = self._model.get_weights()
            self.best_weights = {name: value.clone() for name, value in weights.items()}
        accepted = candidate.accepted / len(split.sim_held_out.samples)
        return {"held_out_accepted": accepted, "held_out_distance": candidate.distance}

    def dump_evaluations(self) -> list[Any]:
        """Return the candidates as JSON values."""
        return [asdict(candidate) for candidate in self._candidates]

    def load_evaluations(self, values: list[Any]) -> None:
        """Restore the candidates."""
        self._candidates = TypeAdapter(list[CandidateScores]).validate_python(values)

    def make_line(
        self, step: int, means: dict[str, float], step_s: float, wait_s: float
    ) -> TranslatorProgress:
        """Return a line of the metrics log with warnings, and write sample images if due."""
        if step in self._sample_steps:
            self._write_sample_images(step)
        warnings: list[str] = []
        if step * _WARMUP_DIVISOR >= self.steps:
            recent = [
                line.scalars
                for line in self.lines
                if (step - line.step) * _RECENT_DIVISOR <= self.steps
            ]
            warnings = list(diagnose_training([*recent, means], self._model.chance_loss))
        return TranslatorProgress(step, self.steps, means, step_s, warnings)

    def compute_weights(self) -> Mapping[str, Tensor]:
        """Return the weights of the best candidate, or the last ones without candidates."""
        return self.best_weights or self._model.get_weights()

    def save(self, path: Path, weights: Mapping[str, Tensor], step: int) -> None:
        """Write weights and outcome."""
        warnings = tuple(self.lines[-1].warnings) if self.lines else ()
        split = self._selector.split
        if self._candidates:
            source_distance = self._selector.source_distance
            if select_best(self._candidates).distance >= source_distance:
                warnings = (*warnings, _NO_IMPROVEMENT_WARNING)
            selection = build_selection(split, self._candidates, source_distance)
        else:
            reason = f"the last weights, as nothing is held out: {split.reason}"
            selection = CheckpointSelection(step, reason)
        self._save_weights(path, weights, TrainingOutcome(selection, warnings))

    def _write_sample_images(self, step: int) -> None:
        split = self._selector.split
        samples = split.sim_held_out.samples or split.sim.samples
        transfer = self._model.build_transfer() if step else None
        write_sample_images(self._run_dir, step, samples, transfer, self._selector.seed)


def train_adversarial(
    make_model: Callable[[torch.device], AdversarialModel],
    identity: Mapping[str, Any],
    steps: int,
    run_dir: Path,
    selector: CheckpointSelector,
    save_weights: Callable[[Path, Mapping[str, Tensor], TrainingOutcome], None],
    *,
    resume: bool,
    device: str,
    callbacks: Callbacks,
    checkpoint_s: float,
) -> torch.device:
    """Train a model with ``sim2cam.learn.trainer.train``, which explains the other arguments and errors.

    Args:
        make_model: returns the model at step 0 on a device.
        identity: values that decide the result apart from the verification.
        steps, run_dir, selector, save_weights: as in ``AdversarialTask``.
    """
    return train(
        lambda local_device: AdversarialTask(
            make_model(local_device), selector, steps, run_dir, save_weights
        ),
        {**identity, **selector.identity},
        TranslatorProgress,
        run_dir,
        device=device,
        resume=resume,
        callbacks=callbacks,
        checkpoint_interval_s=checkpoint_s,
        log_interval_steps=LOG_INTERVAL_STEPS,
    )


def read_metrics(run_dir: Path) -> tuple[TranslatorProgress, ...]:
    """Read the metrics log of a training; empty without a log.

    Raises:
        InputError: the log does not belong to the training of a translator.
    """
    return read_metrics_log(run_dir, TranslatorProgress)


def check_image_counts(sim: Dataset, real: Dataset) -> None:
    """Raise InputError if there are no renders or fewer than ``MIN_REAL_IMAGES`` real images."""
    if not sim.samples:
        raise InputError(sim.root, "no renders to train on. Render some first.")
    if len(real.samples) < MIN_REAL_IMAGES:
        raise InputError(
            real.root,
            f"{len(real.samples)} real images, but a translator needs at least {MIN_REAL_IMAGES}. "
            "Add some, or use the renders without translation.",
        )
