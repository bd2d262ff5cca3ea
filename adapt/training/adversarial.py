"""The loop of every adversarial training: steps, their record, and checkpoints."""

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

_SELECTED, _PENDING_METRICS = "selected", "record"  # groups of a checkpoint's tensors
_WARMUP_DIVISOR = 4  # a training is not warned of in its first part of so many,
_RECENT_DIVISOR = 10  # and by its last part of so many

TensorGroups = dict[str, dict[str, Tensor]]


@dataclass(frozen=True)
class TranslatorProgress:
    """A line of the training's record.

    Attributes:
        step: steps done.
        steps: steps in all.
        scalars: means since the last line of what the game measures: its losses by name, and the
            ``mean_change`` of a render (of a range of 1). Where a candidate was judged, its
            ``held_out_accepted`` and ``held_out_distance`` (see ``CandidateScores``).
        step_s: seconds a step since the last line, waiting for data included.
        warnings: signs that the training goes wrong, in words.
    """

    step: int
    steps: int
    scalars: dict[str, float]
    step_s: float
    warnings: list[str] = field(default_factory=list)


class AdversarialModel(CandidateModel, Protocol):
    """Networks that are trained against each other, between two steps.

    Attributes:
        chance_loss: the loss of the discriminator of captures, by its name among the scalars, and its
            value when it cannot tell translations from captures.
    """

    chance_loss: tuple[str, float]

    def train_step(self, step: int) -> dict[str, Tensor]:
        """Return the scalars of this step, which depends on nothing but the state and ``step``."""
        ...

    def load_batch(self, step: int) -> dict[str, Tensor]:
        """Return what a step is taught with, by name; on the CPU."""
        ...

    def get_state(self) -> TensorGroups:
        """Return all that the next step depends on, in named groups of named tensors."""
        ...

    def load_state(self, groups: TensorGroups) -> None:
        """Become the game that ``state`` was taken of."""
        ...

    def get_weights(self) -> dict[str, Tensor]:
        """Return the weights that would ship."""
        ...


@dataclass(frozen=True)
class AdversarialResult:
    """What came of a game.

    Attributes:
        weights: that ship.
        outcome: which these are, and what went wrong.
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
    """Play a game to its last step, from its checkpoint where there is one, and returns what ships.

    Args:
        model: at step 0.
        identity: all that decides the result besides what judges it; only a checkpoint with an equal
            one goes on.
        image_digests: of the pictures of either side, by name.
        steps: of the whole game.
        run_dir: for checkpoint, ``metrics.jsonl`` and, where it is long enough, ``write_sample_images``.
        selector: says when candidates are judged, and judges them.
        hint: what to do when it runs away, as ``MetricsLog`` takes it.
        resume: goes on from the checkpoint, where there is one.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.

    Raises:
        CheckpointError: the checkpoint is broken or of another training, or of other pictures.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        InputError: a picture cannot be read.
        DivergenceError: a loss is no longer finite; the batch lies in ``run_dir``.
        BackendError: a GPU's memory is full.
    """
    step, standings = 0, _CandidateTracker(selector, model)
    identity = {**identity, **standings.identity}
    record = MetricsLog(run_dir, hint)
    if resume:
        check_images_unchanged(run_dir, image_digests)
    if checkpoint := open_run(run_dir, identity, TranslatorProgress, resume=resume):
        step = checkpoint.step
        groups = _unflatten_groups(checkpoint.tensors)
        standings.load_state(checkpoint.extra_state, groups)
        record.resume(groups.pop(_PENDING_METRICS, {}))
        model.load_state(groups)
    lines = list(read_metrics(run_dir)) if is_main_process() else []
    apart = max(
        LOG_INTERVAL_STEPS, min(MIN_INTERVAL_STEPS, steps // MIN_CANDIDATES)
    )  # short ones show some too
    shown = schedule_evaluations(
        steps, MAX_CANDIDATES, LOG_INTERVAL_STEPS, min_interval_steps=apart
    )
    show = functools.partial(_write_sample_images, model, run_dir, selector, shown)
    if step == 0:
        show(0)

    def build_checkpoint() -> Checkpoint:
        groups = model.get_state() | standings.groups | {_PENDING_METRICS: record.pending}
        return Checkpoint(
            step,
            identity,
            _flatten_groups(groups),
            standings.facts | {IMAGE_DIGESTS: image_digests},
        )

    with (
        explain_unreadable_images(),
        open_checkpointer(run_dir / CHECKPOINT, checkpoint_s) as keeper,
    ):
        while step < steps:
            record.add(all_reduce_mean(model.train_step(step)))
            step += 1
            is_line = step % LOG_INTERVAL_STEPS == 0 or step == steps
            if is_line:
                scalars, step_s = _average_metrics(record, step, model, run_dir)
            if not is_main_process():
                continue
            if is_line:
                line = TranslatorProgress(
                    step, steps, scalars | standings.evaluate_step(step), step_s
                )
                lines.append(replace(line, warnings=standings.collect_warnings([*lines, line])))
                record.write(lines[-1])
                show(step)
            keeper.update(build_checkpoint, is_last=step == steps)
            if is_line and progress is not None:
                progress(lines[-1])
    return standings.select_weights(lines, steps)


def _average_metrics(
    record: MetricsLog, step: int, model: AdversarialModel, run_dir: Path
) -> tuple[dict[str, float], float]:
    """Return the means since the last line, and seconds a step.

    Raises:
        DivergenceError: one is not finite; the batch lies in ``run_dir``.
    """
    try:
        return record.take_means(step)
    except DivergenceError as error:
        if is_main_process():
            batch = {name: v.contiguous() for name, v in model.load_batch(error.step - 1).items()}
            write_atomic(run_dir / BATCH_FILE, save(batch))
        kept = f"{error} What that step was taught with is kept in {run_dir / BATCH_FILE}."
        raise DivergenceError(kept, error.step) from error


def _write_sample_images(
    model: AdversarialModel,
    run_dir: Path,
    selector: CheckpointSelector,
    sample_steps: Sequence[int],
    step: int,
) -> None:
    """Write what becomes of the same few renders, after steps at which that is shown, and before all."""
    if not sample_steps or step not in (0, *sample_steps) or not is_main_process():
        return
    shown = selector.split.sim_held_out.samples or selector.split.sim.samples
    transfer = model.build_transfer() if step else None
    write_sample_images(run_dir, step, shown, transfer, selector.seed)


class _CandidateTracker:
    """The candidates of a game so far, and the weights of the best one."""

    def __init__(self, selector: CheckpointSelector, model: AdversarialModel) -> None:
        self._selector = selector
        self._model = model
        self._candidates: list[CandidateScores] = []
        self._best_weights: dict[str, Tensor] | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What decides which weights ship, as JSON values; nothing without candidates."""
        jury = self._selector.verification
        if not self._selector.split.candidate_steps:
            return {}
        return {
            "certificate": {"limits": asdict(jury.limits), "verifiers": dict(jury.verifier_digests)}
        }

    @property
    def facts(self) -> dict[str, Any]:
        """The candidates as JSON values."""
        return {"candidates": [asdict(candidate) for candidate in self._candidates]}

    @property
    def groups(self) -> TensorGroups:
        """The weights that would ship now."""
        return {} if self._best_weights is None else {_SELECTED: self._best_weights}

    def load_state(self, facts: Mapping[str, Any], groups: TensorGroups) -> None:
        """Become the standings that ``facts`` and ``groups`` were taken of, and takes its own out of these."""
        found = facts.get("candidates", [])
        self._candidates = TypeAdapter(list[CandidateScores]).validate_python(found)
        self._best_weights = groups.pop(_SELECTED) if self._candidates else None

    def evaluate_step(self, step: int) -> dict[str, float]:
        """Return the scalars of the candidate of this step; none where none is judged."""
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
        """Return what goes wrong by the last lines."""
        last = lines[-1]
        if last.step * _WARMUP_DIVISOR < last.steps:
            return []
        recent = [o.scalars for o in lines if (last.step - o.step) * _RECENT_DIVISOR <= last.steps]
        return list(diagnose_training(recent, self._model.chance_loss))

    def select_weights(self, lines: Sequence[TranslatorProgress], steps: int) -> AdversarialResult:
        """Return what ships."""
        warnings = tuple(lines[-1].warnings) if lines else ()
        parts = self._selector.split
        if self._best_weights is None:
            why = f"the last ones: {parts.reason}, so nothing was kept aside to judge others by"
            return AdversarialResult(
                self._model.get_weights(),
                TrainingOutcome(CheckpointSelection(steps, why), warnings),
            )
        untouched = self._selector.source_distance
        if select_best(self._candidates).distance >= untouched:
            warnings = (*warnings, _NO_IMPROVEMENT_WARNING)
        selection = build_selection(parts, self._candidates, untouched)
        return AdversarialResult(self._best_weights, TrainingOutcome(selection, warnings))


_NO_IMPROVEMENT_WARNING = (
    "the weights that ship bring renders no nearer to the captures kept aside than they were. Train "
    "again with more --steps, or do without translation."
)


def collect_network_state(
    name: str, network: nn.Module, optimiser: torch.optim.Optimizer
) -> TensorGroups:
    """Return the groups ``name`` and ``name optimiser`` of a network and what trains it."""
    return {
        name: network.state_dict(),
        f"{name} optimiser": collect_optimizer_state(network, optimiser),
    }


def restore_network_state(
    groups: TensorGroups, name: str, network: nn.Module, optimiser: torch.optim.Optimizer
) -> None:
    """Put back what ``collect_network_state`` returned."""
    network.load_state_dict(groups[name])
    restore_optimizer(network, optimiser, groups[f"{name} optimiser"])


def read_metrics(run_dir: Path) -> tuple[TranslatorProgress, ...]:
    """Return the training's record; empty when there is none, short of a line cut by a crash.

    Raises:
        InputError: it is not that of a translator's training.
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
    """Return the contest of a training's candidates; its ``parts`` say what is trained on.

    Args:
        sim, real: renders and captures.
        config: of the training.
        verification: that translations are judged by.
        is_paired: as ``parts_of`` takes it.

    Raises:
        InputError: no renders, fewer than ``MIN_REAL_IMAGES`` captures, or one that cannot be read.
    """
    check_image_counts(sim, real)
    parts = split_training_images(
        sim, real, config, verifier_count=len(verification.verifiers), is_paired=is_paired
    )
    return CheckpointSelector(parts, verification, config.seed)


def split_training_images(
    sim: Dataset,
    real: Dataset,
    config: TranslatorConfig | ReferenceConfig,
    *,
    verifier_count: int,
    is_paired: bool,
) -> TrainingSplit:
    """Return what a training learns from and what it is judged by, as ``parts_of`` does.

    Args:
        sim, real: renders and captures.
        config: of the training.
        verifier_count, is_paired: as ``parts_of`` takes them.

    Raises:
        InputError: a capture cannot be read.
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
    """Refuse what no translator is trained on.

    Raises:
        InputError: no renders, or fewer than ``MIN_REAL_IMAGES`` captures.
    """
    if not sim.samples:
        raise InputError(sim.root, "no renders to train on. Render some first.")
    if len(real.samples) < MIN_REAL_IMAGES:
        raise InputError(
            real.root,
            f"{len(real.samples)} captures, but a translator needs at least {MIN_REAL_IMAGES}. "
            "Add some, or go on without translation.",
        )


def _flatten_groups(groups: TensorGroups) -> dict[str, Tensor]:
    return {f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()}


def _unflatten_groups(tensors: Mapping[str, Tensor]) -> TensorGroups:
    groups: TensorGroups = defaultdict(dict)
    for key, value in tensors.items():
        group, _, name = key.partition(":")
        groups[group][name] = value
    return groups
