"""Training of detectors."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from sim2cam.learn.run_folder import WEIGHTS, read_metrics_log
from sim2cam.learn.trainer import NO_CALLBACKS, Callbacks, train
from sim2cam.models.inference.detector import AnyDetector, load_detector
from sim2cam.models.network.torchvision_models import check_operators
from sim2cam.models.training.batches import build_batch_maker
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets
from sim2cam.models.training.setup import (
    NO_AUXILIARY_DATA,
    AuxiliaryData,
    TrainingSetup,
    make_training_setup,
)
from sim2cam.models.training.task import NativeTask, TorchvisionTask, TrainProgress

__all__ = [
    "WEIGHTS",
    "TrainProgress",
    "build_batch_maker",
    "read_metrics",
    "train_detector",
    "train_from_setup",
]


def train_detector(
    datasets: WeightedDatasets,
    config: TrainConfig,
    run_dir: Path,
    *,
    auxiliary_data: AuxiliaryData = NO_AUXILIARY_DATA,
    resume: bool = False,
    device: str = "cpu",
    callbacks: Callbacks = NO_CALLBACKS,
    checkpoint_interval_s: float = 30.0,
    log_interval_steps: int = 20,
) -> AnyDetector:
    """Train a detector and return it with the averaged weights.

    The other arguments and errors are those of ``sim2cam.learn.trainer.train``.

    Args:
        datasets: labelled datasets and their weights.
        config: all other settings.
        run_dir: folder for checkpoint, weights, card and ``metrics.jsonl``.
        auxiliary_data: initial weights, target images, background images, validation set.

    Raises:
        InputError: if the data cannot be used for training.
        CheckpointError: if the initial weights are broken or do not fit.
        UsageError: if settings and data contradict each other, or mirrored crops need keypoint names with
            "left" and "right".
        BackendError: if operators of the architecture do not load.
    """
    check_operators(config.architecture)
    return train_from_setup(
        make_training_setup(datasets, config, auxiliary_data),
        run_dir,
        resume=resume,
        device=device,
        callbacks=callbacks,
        checkpoint_interval_s=checkpoint_interval_s,
        log_interval_steps=log_interval_steps,
    )


def train_from_setup(
    setup: TrainingSetup,
    run_dir: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    callbacks: Callbacks = NO_CALLBACKS,
    checkpoint_interval_s: float = 30.0,
    log_interval_steps: int = 20,
) -> AnyDetector:
    """Train a detector with checked inputs; see ``train_detector``."""
    task_type = TorchvisionTask if setup.config.is_torchvision else NativeTask
    card = replace(setup.make_card(), training_domain=setup.training_domain)
    local_device = train(
        functools.partial(task_type, setup, card),
        setup.identity(),
        TrainProgress,
        run_dir,
        device=device,
        resume=resume,
        callbacks=callbacks,
        checkpoint_interval_s=checkpoint_interval_s,
        log_interval_steps=log_interval_steps,
    )
    return load_detector(run_dir / WEIGHTS, device=str(local_device))


def read_metrics(run_dir: Path) -> tuple[TrainProgress, ...]:
    """Return the training log of a run; empty if there is none.

    Raises:
        InputError: if the log is not of a detector training.
    """
    return read_metrics_log(run_dir, TrainProgress)
