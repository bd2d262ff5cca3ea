"""Training loop of the detector and of all translators.

Seed and step number determine each batch, so a resumed training continues bit-exactly.
"""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from sim2cam.errors import DivergenceError, InputError
from sim2cam.files import write_atomic
from sim2cam.learn.checkpoint import (
    Checkpoint,
    collect_optimizer_state,
    open_checkpointer,
    restore_optimizer,
)
from sim2cam.learn.device import explain_out_of_memory, release_memory
from sim2cam.learn.distributed import all_reduce_mean, join_process_group, wait_for_all
from sim2cam.learn.ema import ExponentialMovingAverage
from sim2cam.learn.launch import is_main_process
from sim2cam.learn.prefetch import prefetch
from sim2cam.learn.run_folder import (
    BATCH_FILE,
    CHECKPOINT,
    WEIGHTS,
    MetricsLineT,
    MetricsLog,
    open_run,
)
from sim2cam.progress import Progress, ignore_progress

BatchT = TypeVar("BatchT")

_OPTIMIZER, _AVERAGE = " optimizer", " average"  # suffixes of tensor groups in checkpoints
_BEST, _PENDING_METRICS = "best", "metrics"  # tensor groups


@dataclass(frozen=True)
class Callbacks:
    """Callbacks of a training.

    Attributes:
        log: called with each line of the metrics log.
        progress: called with the numbers of finished and of all steps.
    """

    log: Callable[[Any], None] = lambda line: None
    progress: Progress = ignore_progress


NO_CALLBACKS = Callbacks()


@dataclass(frozen=True)
class Trainable:
    """Network with all state that changes in a training.

    Attributes:
        network: network, or another module with a state.
        optimizer: its optimizer, which several networks may share; None if only ``train_step`` changes it.
        average: average of its weights; None without.
    """

    network: nn.Module
    optimizer: torch.optim.Optimizer | None = None
    average: ExponentialMovingAverage | None = None


class Task(ABC, Generic[BatchT, MetricsLineT]):
    """Task of a training: networks, batches, losses, evaluation and final weights.

    Attributes:
        steps: number of steps.
        networks: all networks by name.
        remedy: advice if the loss diverges, such as "Lower the learning rate".
        best_weights: weights of the best evaluation; empty before the first one.
        lines: metrics log so far, in the main process.
    """

    steps: int
    networks: Mapping[str, Trainable]
    remedy: str
    best_weights: Mapping[str, Tensor]
    lines: list[MetricsLineT]

    @abstractmethod
    def make_batch(self, step: int) -> BatchT:
        """Return the batch of a step for this process; it depends on the step only."""

    def iterate_batches(self, steps: range) -> Iterator[BatchT]:
        """Return the batches of steps in order, made ahead of their use."""
        return prefetch(self.make_batch, steps)

    @abstractmethod
    def train_step(self, step: int, batch: BatchT) -> Mapping[str, Tensor]:
        """Update the networks and return detached scalars for the metrics log."""

    def start(self, step: int) -> None:
        """Prepare a training, new or resumed after ``step`` steps."""

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate after ``step`` steps if due, update ``best_weights``, and return scalars for the log."""
        return {}

    def dump_evaluations(self) -> list[Any]:
        """Return the evaluations so far as JSON values."""
        return []

    def load_evaluations(self, values: list[Any]) -> None:
        """Restore the evaluations of a checkpoint."""

    @property
    def should_stop(self) -> bool:
        """Whether the training ends before its last step."""
        return False

    @abstractmethod
    def make_line(
        self, step: int, means: dict[str, float], step_s: float, wait_s: float
    ) -> MetricsLineT:
        """Return a line of the metrics log.

        Args:
            step: number of finished steps.
            means: means of the scalars since the previous line, and the scalars of ``evaluate``.
            step_s: seconds per step since the previous line.
            wait_s: part of it spent waiting for batches.
        """

    @abstractmethod
    def compute_weights(self) -> Mapping[str, Tensor]:
        """Return the final weights; called in all processes."""

    @abstractmethod
    def save(self, path: Path, weights: Mapping[str, Tensor], step: int) -> None:
        """Write the final weights and their card after ``step`` steps."""


@explain_out_of_memory()
def train(
    make_task: Callable[[torch.device], Task[Any, MetricsLineT]],
    identity: Mapping[str, Any],
    line_type: type[MetricsLineT],
    run_dir: Path,
    *,
    device: str,
    resume: bool,
    callbacks: Callbacks,
    checkpoint_interval_s: float,
    log_interval_steps: int,
) -> torch.device:
    """Train to the last step, write ``weights.safetensors``, and return the device of this process.

    Args:
        make_task: returns the task at step 0 on a device.
        identity: everything that determines the result, as JSON values; a checkpoint must match it.
        line_type: type of the lines of the metrics log.
        run_dir: folder for checkpoint, metrics log, weights and card.
        device: ``cpu``, ``cuda`` or ``cuda:i``; each process of torchrun uses its own GPU.
        resume: continue from the checkpoint if there is one.
        callbacks: called in the main process.
        checkpoint_interval_s: seconds between checkpoints.
        log_interval_steps: steps between lines of the log.

    Raises:
        CheckpointError: if the checkpoint is damaged or belongs to another training.
        OutputError: if the folder cannot be written, or contains a training and ``resume`` is False.
        InputError: if an image cannot be read.
        UsageError, BackendError: if the device is invalid, missing or out of memory.
        DivergenceError: if a loss is not finite; the batch is kept in ``run_dir``.
    """
    with join_process_group(device) as local_device:
        task = make_task(local_device)
        metrics = MetricsLog(run_dir, task.remedy)
        step, task.best_weights = 0, {}
        checkpoint, task.lines = open_run(run_dir, identity, line_type, resume=resume)
        if checkpoint is not None:
            step = checkpoint.step
            metrics.resume(_restore(task, checkpoint))
        task.start(step)
        callbacks.progress(step, task.steps)
        batches = task.iterate_batches(range(step, step if task.should_stop else task.steps))
        with (
            _explain_unreadable_images(),
            open_checkpointer(run_dir / CHECKPOINT, checkpoint_interval_s) as checkpointer,
        ):
            for batch, wait_s in _measure_waits(batches):
                metrics.add(all_reduce_mean(task.train_step(step, batch)), wait_s)
                step += 1
                scores = task.evaluate(step)
                is_last = step == task.steps or task.should_stop
                is_line = is_last or step % log_interval_steps == 0
                if is_line:
                    means, *times_s = _take_means(metrics, task, step, run_dir)
                if is_main_process():
                    if is_line:
                        task.lines.append(task.make_line(step, means | scores, *times_s))
                        metrics.write(task.lines[-1])
                    checkpointer.update(
                        functools.partial(_make_checkpoint, task, step, identity, metrics),
                        is_last=is_last,
                    )
                    if is_line:
                        callbacks.log(task.lines[-1])
                    callbacks.progress(step, task.steps)
                if is_last:
                    break
        weights = task.compute_weights()
        if is_main_process():
            task.save(run_dir / WEIGHTS, weights, step)
        wait_for_all()
    release_memory()
    return local_device


def _make_checkpoint(
    task: Task[Any, Any], step: int, identity: Mapping[str, Any], metrics: MetricsLog
) -> Checkpoint:
    groups = {_BEST: task.best_weights, _PENDING_METRICS: metrics.pending}
    for name, trainable in task.networks.items():
        groups[name] = trainable.network.state_dict()
        if trainable.optimizer is not None:
            groups[name + _OPTIMIZER] = collect_optimizer_state(
                trainable.network, trainable.optimizer
            )
        if trainable.average is not None:
            groups[name + _AVERAGE] = trainable.average.state
    tensors = {f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()}
    return Checkpoint(step, identity, tensors, {"evaluations": task.dump_evaluations()})


def _restore(task: Task[Any, Any], checkpoint: Checkpoint) -> Mapping[str, Tensor]:
    """Restore the state of a checkpoint and return the pending metrics."""
    groups: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for key, value in checkpoint.tensors.items():
        group, _, name = key.partition(":")
        groups[group][name] = value
    for name, trainable in task.networks.items():
        trainable.network.load_state_dict(groups[name])
        if trainable.optimizer is not None:
            restore_optimizer(trainable.network, trainable.optimizer, groups[name + _OPTIMIZER])
        if trainable.average is not None:
            trainable.average.load(groups[name + _AVERAGE])
    task.best_weights = groups[_BEST]
    task.load_evaluations(checkpoint.extra_state["evaluations"])
    return groups[_PENDING_METRICS]


def _measure_waits(batches: Iterator[BatchT]) -> Iterator[tuple[BatchT, float]]:
    """Yield each batch with the seconds that it was waited for."""
    start_s = time.perf_counter()
    for batch in batches:
        yield batch, time.perf_counter() - start_s
        start_s = time.perf_counter()


def _take_means(
    metrics: MetricsLog, task: Task[Any, Any], step: int, run_dir: Path
) -> tuple[dict[str, float], float, float]:
    """Return ``MetricsLog.take_means``; if it diverged, keep the batch of that step.

    Raises:
        DivergenceError: if a mean is not finite.
    """
    try:
        return metrics.take_means(step)
    except DivergenceError as error:
        if is_main_process():
            batch = dict(_list_arrays(task.make_batch(error.step - 1)))
            write_atomic(run_dir / BATCH_FILE, save(batch))
        message = f"{error} The batch of that step is in {run_dir / BATCH_FILE}."
        raise DivergenceError(message, error.step) from error


def _list_arrays(value: object, name: str = "batch") -> Iterator[tuple[str, Tensor]]:
    """Yield all arrays in nested tuples and dataclasses, named like ``sim/rgb``."""
    children: Iterable[tuple[str, object]] = ()
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value.copy())
    if isinstance(value, Tensor):
        yield name.removeprefix("batch/"), value.detach().cpu().clone().contiguous()
    elif isinstance(value, tuple):
        children = ((str(number), item) for number, item in enumerate(value))
    elif is_dataclass(value):
        children = ((field.name, getattr(value, field.name)) for field in fields(value))
    for child_name, child in children:
        yield from _list_arrays(child, f"{name}/{child_name}")


@contextmanager
def _explain_unreadable_images() -> Iterator[None]:
    """Add a remedy to the error of an image that can no longer be read.

    Raises:
        InputError: if an image cannot be read.
    """
    try:
        yield
    except InputError as error:
        if type(error) is not InputError:  # subclasses are not about images
            raise
        path, problem = error.args
        raise InputError(
            path,
            f"{problem} Restore the file and continue with --resume; progress so far is kept.",
        ) from error
