"""Training a detector: a plain loop over batches that a seed and a step number decide."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sim2cam.dataset.known_objects import known_objects, turned_corners
from sim2cam.models.batches import Batch, BatchMaker, made_ahead
from sim2cam.models.card import DetectorCard
from sim2cam.models.config import TrainConfig, trained_magnification
from sim2cam.models.crops import CropRules
from sim2cam.models.detector import Detector
from sim2cam.models.losses import TargetTensors, detector_losses
from sim2cam.models.parts import (
    Parts,
    as_learned,
    check_parts,
    part_records,
    shares_at,
    taught_keypoints,
)
from sim2cam.models.pictures import Tasks
from sim2cam.models.prediction import LoadedDetector, load_detector, save_detector
from sim2cam.models.sizes import trained_sizes
from sim2cam.seeds import integer_seed
from sim2cam.training.checkpoint import (
    Checkpoint,
    optimizer_tensors,
    restore_optimizer,
    save_checkpoint,
)
from sim2cam.training.device import autocast, find_device
from sim2cam.training.ema import WeightAverage
from sim2cam.training.run import CHECKPOINT, WEIGHTS, Record, open_run, read_record

__all__ = ["WEIGHTS", "TrainProgress", "read_metrics", "train_detector"]

LOSS_WEIGHTS = {
    "heat": 1.0,
    "box": 1.0,
    "category": 6.0,  # reading categories is the slow part
    "corners": 2.0,
    "keypoints": 2.0,
    "seen": 2.0,
    "shown": 1.0,
    "votes": 1.0,
}
LOADER_THREADS_BESIDE_CUDA = 6


@dataclass(frozen=True)
class TrainProgress:
    """A line of the training's record.

    Attributes:
        step: steps done.
        steps: steps in all.
        losses: means since the last line: ``heat box category total``, with poses
            ``corners``, with keypoints ``keypoints seen``, with masks ``shown votes``.
        learning_rate: of the last step.
        step_s: seconds a step since the last line, waiting for data included.
    """

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    step_s: float


def train_detector(
    parts: Parts,
    config: TrainConfig,
    run_dir: Path,
    *,
    resume: bool = False,
    device: str = "cpu",
    progress: Callable[[TrainProgress], None] | None = None,
    checkpoint_s: float = 30.0,
    line_steps: int = 20,
) -> LoadedDetector:
    """Returns the detector whose averaged weights are then in ``run_dir/weights.safetensors``.

    Args:
        parts: labelled data sets with their weights.
        config: everything else that decides the result.
        run_dir: for checkpoint, weights, their card and ``metrics.jsonl``.
        resume: goes on from the checkpoint, where there is one.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.
        line_steps: steps between lines of the record.

    Raises:
        InputError: the data cannot be trained on.
        CheckpointError: the checkpoint is broken or of another training.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError: names of keypoints do not tell left from right, which mirrored crops take.
        UsageError, BackendError: there is no such device.
        Sim2CamError: the loss is no longer finite.
    """
    categories = check_parts(parts, config)
    parts = tuple((as_learned(dataset, config), weight) for dataset, weight in parts)
    place = find_device(device)
    objects = known_objects([dataset for dataset, _ in parts]) if config.poses else {}
    tasks = Tasks(
        turned_corners(objects[name] for name in categories) if objects else None,
        taught_keypoints(parts, config),
        config.masks,
    )
    records = part_records(parts)
    identity = _identity(config, categories, [asdict(record) for record in records])
    run = _Run(config, len(categories), tasks, place)
    if checkpoint := open_run(run_dir, identity, TrainProgress, resume=resume):
        run.restore(checkpoint)
    make = batch_maker(parts, categories, tasks, config).make
    threads = 1 if place.type == "cpu" else LOADER_THREADS_BESIDE_CUDA
    record = Record(run_dir, "Lower learning_rate")
    saved_at = time.monotonic()
    for batch in made_ahead(make, range(run.step, config.steps), threads):
        record.add(run.train_step(batch))
        if run.step % line_steps and run.step < config.steps:
            continue
        losses, step_s = record.take_means(run.step)
        line = TrainProgress(run.step, config.steps, losses, run.learning_rate, step_s)
        record.write(line)
        if run.step == config.steps or time.monotonic() - saved_at >= checkpoint_s:
            save_checkpoint(run_dir / CHECKPOINT, run.checkpoint(identity))
            saved_at = time.monotonic()
        if progress is not None:
            progress(line)
    card = DetectorCard(
        config.architecture,
        categories,
        run.step,
        config.to_json(),
        records,
        magnification=trained_magnification(config.scale_range),
        objects=objects,
        keypoints=dict(tasks.keypoints),
        masks=tasks.masks,
        sizes_px=trained_sizes(parts, config),
    )
    save_detector(run_dir / WEIGHTS, run.average.state, card)
    return load_detector(run_dir / WEIGHTS, device=device)


class _Run:
    """A training between two steps."""

    def __init__(
        self, config: TrainConfig, n_categories: int, tasks: Tasks, device: torch.device
    ) -> None:
        generator = torch.Generator().manual_seed(integer_seed(config.seed, "weights"))
        self._config = config
        self._device = device
        self.network = Detector(
            config.architecture,
            n_categories,
            generator,
            poses=tasks.corners_m is not None,
            keypoints=max(map(len, tasks.keypoints.values()), default=0),
            masks=tasks.masks,
        )
        self.network.to(device)
        self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.average = WeightAverage(self.network, config.ema_decay)
        self.optimizer = _optimizer(self.network, config)
        self.step = 0

    @property
    def learning_rate(self) -> float:
        """The rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def train_step(self, batch: Batch) -> dict[str, Tensor]:
        """Returns the losses of one more step."""
        for group in self.optimizer.param_groups:
            group["lr"] = _learning_rate(self._config, self.step)
        rgb = torch.from_numpy(batch.rgb).to(self._device).permute(0, 3, 1, 2)
        targets = TargetTensors.of(batch.targets, self._device)
        self.network.train()
        with autocast(self._device):
            maps = self.network(rgb)
        losses = detector_losses(maps, targets)
        total = torch.stack([loss * LOSS_WEIGHTS[name] for name, loss in losses.items()]).sum()
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self._config.clip_norm)
        self.optimizer.step()
        self.average.update(self.network, self.step)
        self.step += 1
        return {name: value.detach() for name, value in (losses | {"total": total}).items()}

    def checkpoint(self, identity: Mapping[str, Any]) -> Checkpoint:
        """Returns all that the next step depends on."""
        groups = {
            "network": self.network.state_dict(),
            "average": self.average.state,
            "optimizer": optimizer_tensors(self.network, self.optimizer),
        }
        tensors = {
            f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()
        }
        return Checkpoint(self.step, identity, tensors)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Becomes the training that the checkpoint was taken of."""
        groups: dict[str, dict[str, Tensor]] = {"network": {}, "average": {}, "optimizer": {}}
        for key, value in checkpoint.tensors.items():
            group, _, name = key.partition(":")
            groups[group][name] = value
        self.network.load_state_dict(groups["network"])
        self.average.load(groups["average"])
        restore_optimizer(self.network, self.optimizer, groups["optimizer"])
        self.step = checkpoint.step


def read_metrics(run_dir: Path) -> tuple[TrainProgress, ...]:
    """Returns the training's record; empty when there is none, short of a line cut by a crash.

    Raises:
        InputError: it is not that of a detector's training.
    """
    return read_record(run_dir, TrainProgress)


def _identity(
    config: TrainConfig, categories: tuple[str, ...], data: list[dict[str, Any]]
) -> dict[str, Any]:
    decisive = {name: v for name, v in config.to_json().items() if name != "cache_bytes"}
    parts = {f"part {number}": part for number, part in enumerate(data, 1)}
    return {"config": decisive, "categories": categories, "data": parts}


def batch_maker(
    parts: Parts,
    categories: tuple[str, ...],
    tasks: Tasks,
    config: TrainConfig,
) -> BatchMaker:
    """Returns what makes the batches of a training.

    Args:
        parts: labelled data sets with their weights.
        categories: names in the order of class indices.
        tasks: what is learned.
        config: how crops are drawn.
    """
    rules = CropRules(
        crop_px=config.crop_px,
        scale_range=config.scale_range,
        quarter_turns=config.quarter_turns,
        free_turns=config.free_turns,
        flips=config.flips,
        min_visible=config.min_visible,
    )
    return BatchMaker(
        parts,
        categories,
        rules,
        shares=lambda step: shares_at(step, parts, config),
        batch=config.batch,
        photometric=config.photometric,
        seed=config.seed,
        cache_bytes=config.cache_bytes,
        tasks=tasks,
    )


def _optimizer(network: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    parameters = list(network.parameters())
    kernels = [p for p in parameters if p.ndim > 1]
    others = [p for p in parameters if p.ndim <= 1]
    groups = [
        {"params": kernels, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)


def _learning_rate(config: TrainConfig, step: int) -> float:
    warmup = min(config.warmup_steps, config.steps // 2)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    share = (step - warmup) / max(config.steps - warmup, 1)
    return config.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))
