"""Adversarial training loop: steps, metrics log, checkpoints and candidates."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from pydantic import TypeAdapter
from safetensors.torch import save
from torch import Tensor, nn

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.training.candidates import CandidateModel, CheckpointSelector
from sim2cam.adapt.training.checkpoint_selection import (
    MAX_CANDIDATES,
    MIN_CANDIDATES,
    MIN_INTERVAL_STEPS,
    CandidateScores,
    CheckpointSelection,
    TrainingOutcome,
    TrainingSplit,
    build_selection,
    schedule_evaluations,
    select_best,
    split_held_out,
)
from sim2cam.adapt.training.diagnostics import diagnose_training
from sim2cam.adapt.training.input_images import (
    IMAGE_DIGESTS,
    check_images_unchanged,
    explain_unreadable_images,
)
from sim2cam.adapt.training.sample_images import write_sample_images
from sim2cam.adapt.translation import Verification
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.data.sample import Dataset
from sim2cam.errors import DivergenceError, InputError
from sim2cam.files import write_atomic
from sim2cam.learn.checkpoint import (
    Checkpoint,
    collect_optimizer_state,
    open_checkpointer,
    restore_optimizer,
)
from sim2cam.learn.distributed import all_reduce_mean
from sim2cam.learn.launch import is_main_process
from sim2cam.learn.run_folder import BATCH_FILE, CHECKPOINT, MetricsLog, open_run, read_metrics_log

MIN_REAL_IMAGES = 20
LOG_INTERVAL_STEPS = 10

_SELECTED, _PENDING_METRICS = "selected", "record"  # tensor groups of a checkpoint
_WARMUP_DIVISOR = 4  # no warnings in the first 1/4 of the steps
_RECENT_DIVISOR = 10  # warnings depend on the last 1/10 of the steps

TensorGroups = dict[str, dict[str, Tensor]]


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
    """

    chance_loss: tuple[str, float]

    def train_step(self, step: int) -> dict[str, Tensor]:
        """Train one step and return its scalars; the result depends only on the state and ``step``."""
        ...

    def load_batch(self, step: int) -> dict[str, Tensor]:
        """Return the training batch of a step by name, on the CPU."""
        ...

    def get_state(self) -> TensorGroups:
        """Return the training state as named groups of named tensors."""
        ...

    def load_state(self, groups: TensorGroups) -> None:
        """Restore the training state."""
        ...

    def get_weights(self) -> dict[str, Tensor]:
        """Return the weights of the generator that would ship."""
        ...


@dataclass(frozen=True)
class AdversarialResult:
    """Result of an adversarial training.

    Attributes:
        weights: weights that ship.
        outcome: checkpoint selection and warnings.
    """

    weights: Mapping[str, Tensor]
    outcome: TrainingOutcome


def train_adversarial(
    model: AdversarialModel,
    identity: Mapping[str, Any],
    image_digests: Mapping[str, Mapping[str, str]],
    steps: int,
    run_dir: Path,
    selector: CheckpointSelector,
    *,
    hint: str,
    resume: bool,
    progress: Callable[[TranslatorProgress], None] | None,
    checkpoint_s: float,
) -> AdversarialResult:
    """Train a model to its last step and return the weights that ship.

    Args:
        model: the model at step 0.
        identity: values that decide the result apart from the verification; a checkpoint resumes only if they
            are equal.
        image_digests: digests of the images by side and name.
        steps: steps of the training.
        run_dir: folder for checkpoint, ``metrics.jsonl`` and sample images.
        selector: schedule and evaluation of candidates.
        hint: remedy for a diverging loss, as in ``MetricsLog``.
        resume: whether to continue from an existing checkpoint.
        progress: callback for each line of the metrics log.
        checkpoint_s: seconds between checkpoints.

    Raises:
        CheckpointError: the checkpoint is broken, or belongs to another training or other images.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        InputError: an image cannot be read.
        DivergenceError: a loss is not finite; the batch is kept in ``run_dir``.
        BackendError: the memory of the GPU is full.
    """
    step, tracker = 0, _CandidateTracker(selector, model)
    identity = {**identity, **tracker.identity}
    metrics_log = MetricsLog(run_dir, hint)
    if resume:
        check_images_unchanged(run_dir, image_digests)
    if checkpoint := open_run(run_dir, identity, TranslatorProgress, resume=resume):
        step = checkpoint.step
        groups = _unflatten_groups(checkpoint.tensors)
        tracker.load_state(checkpoint.extra_state, groups)
        metrics_log.resume(groups.pop(_PENDING_METRICS, {}))
        model.load_state(groups)
    lines = list(read_metrics(run_dir)) if is_main_process() else []
    min_interval_steps = max(
        LOG_INTERVAL_STEPS, min(MIN_INTERVAL_STEPS, steps // MIN_CANDIDATES)
    )  # closer together in short trainings, so that these have sample images too
    sample_steps = schedule_evaluations(
        steps, MAX_CANDIDATES, LOG_INTERVAL_STEPS, min_interval_steps=min_interval_steps
    )
    write_samples = functools.partial(_write_sample_images, model, run_dir, selector, sample_steps)
    if step == 0:
        write_samples(0)

    def build_checkpoint() -> Checkpoint:
        groups = model.get_state() | tracker.groups | {_PENDING_METRICS: metrics_log.pending}
        return Checkpoint(
            step,
            identity,
            _flatten_groups(groups),
            tracker.facts | {IMAGE_DIGESTS: image_digests},
        )

    with (
        explain_unreadable_images(),
        open_checkpointer(run_dir / CHECKPOINT, checkpoint_s) as checkpointer,
    ):
        while step < steps:
            metrics_log.add(all_reduce_mean(model.train_step(step)))
            step += 1
            is_line = step % LOG_INTERVAL_STEPS == 0 or step == steps
            if is_line:
                scalars, step_s = _average_metrics(metrics_log, step, model, run_dir)
            if not is_main_process():
                continue
            if is_line:
                line = TranslatorProgress(
                    step, steps, scalars | tracker.evaluate_step(step), step_s
                )
                lines.append(replace(line, warnings=tracker.collect_warnings([*lines, line])))
                metrics_log.write(lines[-1])
                write_samples(step)
            checkpointer.update(build_checkpoint, is_last=step == steps)
            if is_line and progress is not None:
                progress(lines[-1])
    return tracker.select_weights(lines, steps)


def _average_metrics(
    metrics_log: MetricsLog, step: int, model: AdversarialModel, run_dir: Path
) -> tuple[dict[str, float], float]:
    """Return the mean scalars since the last line, and seconds per step.

    Raises:
        DivergenceError: a mean is not finite; the batch is kept in ``run_dir``.
    """
    try:
        return metrics_log.take_means(step)
    except DivergenceError as error:
        if is_main_process():
            batch = {name: v.contiguous() for name, v in model.load_batch(error.step - 1).items()}
            write_atomic(run_dir / BATCH_FILE, save(batch))
        message = f"{error} The batch of that step is in {run_dir / BATCH_FILE}."
        raise DivergenceError(message, error.step) from error


def _write_sample_images(
    model: AdversarialModel,
    run_dir: Path,
    selector: CheckpointSelector,
    sample_steps: Sequence[int],
    step: int,
) -> None:
    if not sample_steps or step not in (0, *sample_steps) or not is_main_process():
        return
    samples = selector.split.sim_held_out.samples or selector.split.sim.samples
    transfer = model.build_transfer() if step else None
    write_sample_images(run_dir, step, samples, transfer, selector.seed)


class _CandidateTracker:
    """Candidates so far, and the weights of the best one."""

    def __init__(self, selector: CheckpointSelector, model: AdversarialModel) -> None:
        self._selector = selector
        self._model = model
        self._candidates: list[CandidateScores] = []
        self._best_weights: dict[str, Tensor] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """Values that decide the selection, as JSON; empty without candidates."""
        verification = self._selector.verification
        if not self._selector.split.candidate_steps:
            return {}
        return {
            "certificate": {
                "limits": asdict(verification.limits),
                "verifiers": dict(verification.verifier_digests),
            }
        }

    @property
    def facts(self) -> dict[str, Any]:
        """The candidates as JSON values."""
        return {"candidates": [asdict(candidate) for candidate in self._candidates]}

    @property
    def groups(self) -> TensorGroups:
        """Tensor group of the best weights; empty without candidates."""
        return {} if self._best_weights is None else {_SELECTED: self._best_weights}

    def load_state(self, facts: Mapping[str, Any], groups: TensorGroups) -> None:
        """Restore candidates and best weights; remove their group from ``groups``."""
        candidates = facts.get("candidates", [])
        self._candidates = TypeAdapter(list[CandidateScores]).validate_python(candidates)
        self._best_weights = groups.pop(_SELECTED) if self._candidates else None

    def evaluate_step(self, step: int) -> dict[str, float]:
        """Evaluate the candidate of a step and return its scalars; empty between candidates."""
        if step not in self._selector.split.candidate_steps:
            return {}
        candidate = self._selector.evaluate(step, self._model)
        self._candidates.append(candidate)
        if select_best(self._candidates) is candidate:
            weights = self._model.get_weights()
            self._best_weights = {name: value.clone() for name, value in weights.items()}
        accepted = candidate.accepted / len(self._selector.split.sim_held_out.samples)
        return {"held_out_accepted": accepted, "held_out_distance": candidate.distance}

    def collect_warnings(self, lines: Sequence[TranslatorProgress]) -> list[str]:
        """Return diagnostics from the last lines."""
        last = lines[-1]
        if last.step * _WARMUP_DIVISOR < last.steps:
            return []
        recent = [
            line.scalars
            for line in lines
            if (last.step - line.step) * _RECENT_DIVISOR <= last.steps
        ]
        return list(diagnose_training(recent, self._model.chance_loss))

    def select_weights(self, lines: Sequence[TranslatorProgress], steps: int) -> AdversarialResult:
        """Return the weights that ship and the outcome."""
        warnings = tuple(lines[-1].warnings) if lines else ()
        split = self._selector.split
        if self._best_weights is None:
            reason = f"the last weights, as nothing is held out: {split.reason}"
            return AdversarialResult(
                self._model.get_weights(),
                TrainingOutcome(CheckpointSelection(steps, reason), warnings),
            )
        source_distance = self._selector.source_distance
        if select_best(self._candidates).distance >= source_distance:
            warnings = (*warnings, _NO_IMPROVEMENT_WARNING)
        selection = build_selection(split, self._candidates, source_distance)
        return AdversarialResult(self._best_weights, TrainingOutcome(selection, warnings))


_NO_IMPROVEMENT_WARNING = (
    "the selected weights bring renders no nearer to the held-out real images. Train with more --steps, or use "
    "the renders without translation."
)


def collect_network_state(
    name: str, network: nn.Module, optimiser: torch.optim.Optimizer
) -> TensorGroups:
    """Return the tensor groups ``name`` and ``name optimiser`` of a network and its optimiser."""
    return {
        name: network.state_dict(),
        f"{name} optimiser": collect_optimizer_state(network, optimiser),
    }


def restore_network_state(
    groups: TensorGroups, name: str, network: nn.Module, optimiser: torch.optim.Optimizer
) -> None:
    """Restore a network and its optimiser from ``collect_network_state``."""
    network.load_state_dict(groups[name])
    restore_optimizer(network, optimiser, groups[f"{name} optimiser"])


def read_metrics(run_dir: Path) -> tuple[TranslatorProgress, ...]:
    """Read the metrics log of a training; empty without a log, without a last line cut by a crash.

    Raises:
        InputError: the log does not belong to the training of a translator.
    """
    return read_metrics_log(run_dir, TranslatorProgress)


def build_checkpoint_selector(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig | ReferenceConfig,
    verification: Verification,
    *,
    is_paired: bool = False,
) -> CheckpointSelector:
    """Split the images of a training and return the selector of its checkpoints.

    Args:
        sim: renders.
        real: real images.
        config: configuration of the training.
        verification: limits and verifiers of the translations.
        is_paired: whether renders and real images are pairs, as in ``split_held_out``.

    Raises:
        InputError: there are no renders or fewer than ``MIN_REAL_IMAGES`` real images, or one cannot be read.
    """
    check_image_counts(sim, real)
    split = split_training_images(
        sim, real, config, verifier_count=len(verification.verifiers), is_paired=is_paired
    )
    return CheckpointSelector(split, verification, config.seed)


def split_training_images(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig | ReferenceConfig,
    *,
    verifier_count: int,
    is_paired: bool,
) -> TrainingSplit:
    """Split the images of a training with ``split_held_out``.

    Args:
        sim: renders.
        real: real images.
        config: configuration of the training.
        verifier_count: number of verifiers.
        is_paired: whether renders and real images are pairs.

    Raises:
        InputError: a real image cannot be read.
    """
    return split_held_out(
        sim,
        real,
        steps=config.steps,
        pixels=config.batch * config.patch_px**2,
        log_interval_steps=LOG_INTERVAL_STEPS,
        verifier_count=verifier_count,
        is_paired=is_paired,
    )


def check_image_counts(sim: Dataset, real: Dataset) -> None:
    """Raise if there are too few images to train a translator.

    Raises:
        InputError: there are no renders, or fewer than ``MIN_REAL_IMAGES`` real images.
    """
    if not sim.samples:
        raise InputError(sim.root, "no renders to train on. Render some first.")
    if len(real.samples) < MIN_REAL_IMAGES:
        raise InputError(
            real.root,
            f"{len(real.samples)} real images, but a translator needs at least {MIN_REAL_IMAGES}. "
            "Add some, or use the renders without translation.",
        )


def _flatten_groups(groups: TensorGroups) -> dict[str, Tensor]:
    return {f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()}


def _unflatten_groups(tensors: Mapping[str, Tensor]) -> TensorGroups:
    groups: TensorGroups = defaultdict(dict)
    for key, value in tensors.items():
        group, _, name = key.partition(":")
        groups[group][name] = value
    return groups
