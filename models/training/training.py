"""Training loop of detectors.

Seed and step number determine each batch, so a resumed run continues exactly.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from sim2cam.data.sample import Dataset
from sim2cam.learn.checkpoint import (
    Checkpoint,
    collect_optimizer_state,
    open_checkpointer,
    restore_optimizer,
)
from sim2cam.learn.device import autocast, explain_out_of_memory, get_memory_bytes, release_memory
from sim2cam.learn.distributed import (
    all_reduce_mean,
    average_gradients,
    broadcast_from_main,
    join_process_group,
    synchronize_batch_norms,
    wait_for_all,
)
from sim2cam.learn.ema import ExponentialMovingAverage
from sim2cam.learn.launch import is_main_process
from sim2cam.learn.prefetch import Prefetcher, prefetch_in_processes
from sim2cam.learn.run_folder import CHECKPOINT, WEIGHTS, MetricsLog, open_run, read_metrics_log
from sim2cam.models.augment.backgrounds import BackgroundAugmentation
from sim2cam.models.augment.crops import CropConfig
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import (
    AnyDetector,
    NativeDetector,
    load_detector,
    save_detector,
)
from sim2cam.models.inference.torchvision_detector import TorchvisionDetector
from sim2cam.models.losses.detection import (
    TargetTensors,
    detector_losses,
    roi_category_loss,
    surface_losses,
    total_loss,
)
from sim2cam.models.losses.domain_adaptation import (
    ADABN_CROPS,
    DomainDiscriminator,
    adapt_batch_norm,
    adaptation_losses,
    compute_strength,
)
from sim2cam.models.network.detector import STRIDE_PX, DetectionMaps, DetectorNetwork
from sim2cam.models.network.pretrained import load_pretrained
from sim2cam.models.network.roi_crops import count_roi_crops
from sim2cam.models.network.torchvision_models import check_operators
from sim2cam.models.network.torchvision_network import (
    TorchvisionNetwork,
    build_torchvision_network,
    seed_global_rng,
)
from sim2cam.models.training.batches import (
    BatchMaker,
    DetectorBatch,
    RoiCrops,
    TargetViewMaker,
    TargetViews,
    TimedIterator,
)
from sim2cam.models.training.config import ARCHITECTURES, TrainConfig
from sim2cam.models.training.datasets import WeightedDatasets, compute_dataset_shares
from sim2cam.models.training.early_stopping import EarlyStopping, compute_evaluation_interval
from sim2cam.models.training.fine_tuning import (
    compute_lr_scale,
    copy_weights,
    freeze_except_residual,
)
from sim2cam.models.training.images import ImageCache, Tasks
from sim2cam.models.training.setup import (
    NO_AUXILIARY_DATA,
    AuxiliaryData,
    TrainingSetup,
    make_training_setup,
)
from sim2cam.models.training.tuning import compute_ap50
from sim2cam.seeds import derive_seed

__all__ = ["WEIGHTS", "TrainProgress", "read_metrics", "train_detector"]

CACHE_MEMORY_SHARE = 0.6
"""Largest share of the machine's memory for decoded images."""

BACKGROUND_CACHE_DIVISOR = 8
"""Background images get 1 / BACKGROUND_CACHE_DIVISOR of the memory for decoded images."""

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class TrainProgress:
    """One line of the training log.

    Attributes:
        step: number of completed steps.
        steps: total number of steps.
        losses: mean losses since the previous line: ``total``, the names in ``LOSS_WEIGHTS`` that the tasks
            need, and those of ``adaptation_losses``. Torchvision models keep torchvision's names.
        learning_rate: learning rate of the last step.
        step_s: mean seconds per step since the previous line, including waiting for data.
        wait_s: part of ``step_s`` spent waiting for the batch.
    """

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    step_s: float
    wait_s: float = 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems of the training and what to do about them."""
        # a teacher without pretraining is not confident in the first half of the steps
        if self.losses.get("teacher") != 0.0 or 2 * self.step <= self.steps:
            return ()
        return (
            "the mean teacher is not confident about any object in the target images, so it has no effect. "
            "Start from weights that detect objects in them (--from), or use another method.",
        )


@explain_out_of_memory()
def train_detector(
    datasets: WeightedDatasets,
    config: TrainConfig,
    run_dir: Path,
    *,
    auxiliary_data: AuxiliaryData = NO_AUXILIARY_DATA,
    resume: bool = False,
    device: str = "cpu",
    progress: Callable[[TrainProgress], None] | None = None,
    checkpoint_interval_s: float = 30.0,
    log_interval_steps: int = 20,
) -> AnyDetector:
    """Train a detector and return it with the averaged weights.

    Args:
        datasets: labelled datasets and their weights.
        config: all other settings.
        run_dir: folder for checkpoint, weights, card and ``metrics.jsonl``.
        auxiliary_data: initial weights, target images, background images, validation set.
        resume: continue from the checkpoint if there is one.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: called with each line of the log.
        checkpoint_interval_s: seconds between checkpoints.
        log_interval_steps: steps between lines of the log.

    Raises:
        InputError: if the data cannot be used for training.
        CheckpointError: if the checkpoint is broken or belongs to another training, or the initial weights
            are broken or do not fit.
        OutputError: if the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError: if settings and data contradict each other, or mirrored crops need keypoint names with
            "left" and "right".
        BackendError: if the device is missing or out of memory, the processes cannot share the batch, or
            operators of the architecture do not load.
        Sim2CamError: if the loss is not finite.
    """
    check_operators(config.architecture)
    with join_process_group(device) as torch_device:
        _train(
            make_training_setup(datasets, config, auxiliary_data),
            torch_device,
            run_dir,
            resume=resume,
            progress=progress,
            checkpoint_interval_s=checkpoint_interval_s,
            log_interval_steps=log_interval_steps,
        )
    release_memory()
    return load_detector(run_dir / WEIGHTS, device=str(torch_device))


def _train(
    setup: TrainingSetup,
    device: torch.device,
    run_dir: Path,
    *,
    resume: bool,
    progress: Callable[[TrainProgress], None] | None,
    checkpoint_interval_s: float,
    log_interval_steps: int,
) -> None:
    config, identity = setup.config, setup.identity()
    run = (_TorchvisionRun if config.is_torchvision else _NativeRun)(setup, device)
    record = MetricsLog(run_dir, "Lower learning_rate")
    if checkpoint := open_run(run_dir, identity, TrainProgress, resume=resume):
        record.resume(run.restore(checkpoint))
    card = setup.make_card()
    batch_maker, view_maker = (
        build_batch_maker(
            setup.datasets, card.categories, setup.tasks, config, setup.background_images
        ),
        _build_view_maker(setup),
    )

    with open_checkpointer(run_dir / CHECKPOINT, checkpoint_interval_s) as checkpointer:
        timed_batches = TimedIterator(
            prefetch_batches(batch_maker, view_maker, config, run.remaining_steps, device)
        )
        for batch, target_views in timed_batches:
            record.add(all_reduce_mean(run.train_step(batch, target_views)))
            run.evaluate(card)
            line = None
            if run.step % log_interval_steps == 0 or run.is_done:
                losses, step_s = record.take_means(run.step)
                line = TrainProgress(
                    run.step,
                    config.steps,
                    losses,
                    run.learning_rate,
                    step_s,
                    timed_batches.pop_mean_wait_s(),
                )
            if is_main_process():
                if line is not None:
                    record.write(line)
                checkpointer.update(
                    lambda: run.make_checkpoint(identity, record.pending), is_last=run.is_done
                )
                if line is not None and progress is not None:
                    progress(line)
            if run.is_done:
                break
    card = replace(card, steps=run.best_step, evaluations=tuple(run.early_stopping.evaluations))
    weights = run.compute_weights(view_maker)
    if is_main_process():
        save_detector(run_dir / WEIGHTS, weights, card)
    wait_for_all()


def prefetch_batches(
    batch_maker: BatchMaker,
    view_maker: TargetViewMaker | None,
    config: TrainConfig,
    steps: range,
    device: torch.device,
) -> Iterator[tuple[DetectorBatch, TargetViews | None]]:
    """Return an iterator over the batches of ``steps``, prepared ahead of their use."""

    def make(step: int) -> tuple[DetectorBatch, TargetViews | None]:
        uses_target_images = config.adapt is not None and config.adapt.adapts_during_training
        batch = batch_maker.make(step)
        if not config.is_torchvision:
            batch = replace(batch, crops=())  # only torchvision models use them
        return batch, view_maker.make(step) if view_maker and uses_target_images else None

    if device.type == "cpu" or not steps:
        return map(Prefetcher(make, steps.stop), steps)
    processes = torch.get_num_threads()
    batch_maker.preload(processes)
    return prefetch_in_processes(make, steps, processes)


class _TrainingRun(ABC, Generic[Network]):
    """State of a training between two steps."""

    def __init__(self, setup: TrainingSetup, device: torch.device) -> None:
        self._setup, self._config = setup, setup.config
        self._device = device
        config = setup.config
        generator = torch.Generator().manual_seed(derive_seed(config.seed, "weights"))
        self.network = self._build_network(generator)
        if setup.initial_weights is not None:
            copy_weights(self.network, setup.initial_weights.detector.network)
        elif config.pretrained:
            load_pretrained(self._get_pretrainable(), config.pretrained)
        synchronize_batch_norms(self.network)
        self._freeze()
        self.network.to(device)
        self._discriminator = _build_discriminator(config)
        if self._discriminator is not None:
            self._discriminator.to(device)
        self.weight_average = ExponentialMovingAverage(self.network, config.ema_decay)
        self.optimizer = _build_optimizer(self.network, self._discriminator, config)
        self.learning_rate = 0.0
        self.early_stopping = EarlyStopping(config.patience)
        self.step = 0

    @property
    def is_done(self) -> bool:
        """Whether no steps remain."""
        return self.step == self._config.steps or self.early_stopping.should_stop

    @property
    def remaining_steps(self) -> range:
        """Numbers of the remaining steps, without early stopping."""
        return range(self.step, self.step if self.is_done else self._config.steps)

    def train_step(
        self, batch: DetectorBatch, target_views: TargetViews | None
    ) -> dict[str, Tensor]:
        """Run one step and return its losses."""
        self.learning_rate = _compute_learning_rate(self._config, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * group["share"]
        losses, total = self._compute_losses(batch, target_views)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        average_gradients(self.optimizer)
        nn.utils.clip_grad_norm_(self.network.parameters(), self._config.clip_norm)
        self.optimizer.step()
        self.weight_average.update(self.network, self.step)
        self.step += 1
        return {name: value.detach() for name, value in (losses | {"total": total}).items()}

    @abstractmethod
    def _build_network(self, generator: torch.Generator) -> Network:
        """Return the network with random weights."""

    def _get_pretrainable(self) -> nn.Module:
        """Return the module that pretrained weights are loaded into."""
        return self.network

    def _freeze(self) -> None:
        """Freeze the layers that are not trained."""

    @abstractmethod
    def _compute_losses(
        self, batch: DetectorBatch, target_views: TargetViews | None
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Return the losses of a step by name, and their weighted sum."""

    @abstractmethod
    def _make_detector(self, card: DetectorCard) -> AnyDetector:
        """Return the detector with the averaged weights."""

    def evaluate(self, card: DetectorCard) -> None:
        """Evaluate the averaged weights on the validation set if an evaluation is due.

        Raises:
            InputError: if an image cannot be read or has no labels.
        """
        validation_set, steps = self._setup.validation_set, self._config.steps
        if validation_set is None or (
            self.step % compute_evaluation_interval(steps) and self.step < steps
        ):
            return
        detector = self._make_detector(card)
        score = broadcast_from_main(lambda: compute_ap50(detector, validation_set), self._device)
        self.early_stopping.update(self.step, score, self.weight_average.state)

    def compute_weights(self, view_maker: TargetViewMaker | None) -> dict[str, Tensor]:
        """Return the averaged weights: the best evaluated ones, or else the last.

        Args:
            view_maker: source of target images; None without any.
        """
        return self.early_stopping.best_weights or self.weight_average.state

    @property
    def best_step(self) -> int:
        """Step of the returned weights."""
        return self.early_stopping.best_step if self.early_stopping.evaluations else self.step

    def make_checkpoint(
        self, identity: Mapping[str, Any], pending_record: Mapping[str, Tensor]
    ) -> Checkpoint:
        """Return the state that the next step depends on, with the pending log values."""
        groups = {
            "network": self.network.state_dict(),
            "average": self.weight_average.state,
            "optimizer": collect_optimizer_state(self.network, self.optimizer),
            "best": self.early_stopping.best_weights,
            "record": pending_record,
        }
        if self._discriminator is not None:
            groups["discriminator"] = self._discriminator.state_dict()
            groups["discriminator optimizer"] = collect_optimizer_state(
                self._discriminator, self.optimizer
            )
        tensors = {
            f"{group}:{name}": value
            for group, state in groups.items()
            for name, value in state.items()
        }
        extra_state = (
            {"evaluations": self.early_stopping.evaluations}
            if self.early_stopping.evaluations
            else {}
        )
        return Checkpoint(self.step, identity, tensors, extra_state)

    def restore(self, checkpoint: Checkpoint) -> Mapping[str, Tensor]:
        """Restore the state of a checkpoint and return the pending log values."""
        groups: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for key, value in checkpoint.tensors.items():
            group, _, name = key.partition(":")
            groups[group][name] = value
        self.network.load_state_dict(groups["network"])
        self.weight_average.load(groups["average"])
        restore_optimizer(self.network, self.optimizer, groups["optimizer"])
        if self._discriminator is not None:
            self._discriminator.load_state_dict(groups["discriminator"])
            restore_optimizer(
                self._discriminator, self.optimizer, groups["discriminator optimizer"]
            )
        best_weights = {name: value.to(self._device) for name, value in groups["best"].items()}
        self.early_stopping = EarlyStopping(
            self._config.patience, checkpoint.extra_state.get("evaluations", ()), best_weights
        )
        self.step = checkpoint.step
        return groups["record"]

    def _to_tensor(self, rgb: NDArray[np.uint8]) -> Tensor:
        return torch.from_numpy(rgb).to(self._device).permute(0, 3, 1, 2)

    def _copy_network(self, state: Mapping[str, Tensor]) -> Network:
        """Return a copy of the network with the given weights, in evaluation mode."""
        network = copy.deepcopy(self.network).eval()
        network.load_state_dict(dict(state))
        return network


class _NativeRun(_TrainingRun[DetectorNetwork]):
    """Training of one of this project's networks."""

    def __init__(self, setup: TrainingSetup, device: torch.device) -> None:
        super().__init__(setup, device)
        rotations = setup.tasks.symmetry_rotations
        self._symmetry_rotations = (
            None if rotations is None else torch.from_numpy(rotations).float().to(device)
        )

    def compute_weights(self, view_maker: TargetViewMaker | None) -> dict[str, Tensor]:
        """Return the averaged weights; with AdaBN, with batch-norm statistics of the target images."""
        state = super().compute_weights(view_maker)
        if (
            view_maker is None
            or self._config.adapt is None
            or self._config.adapt.adapts_during_training
        ):
            return state
        first_step = self._config.steps
        steps = range(first_step, first_step - (-ADABN_CROPS // self._config.batch))
        return adapt_batch_norm(
            self._copy_network(state), (view_maker.make(step).plain for step in steps)
        )

    def _build_network(self, generator: torch.Generator) -> DetectorNetwork:
        config, tasks = self._config, self._setup.tasks
        network = DetectorNetwork(
            config.architecture,
            len(self._setup.categories),
            generator,
            poses=tasks.symmetry_rotations is not None,
            n_keypoints=max(map(len, tasks.keypoints.values()), default=0),
            masks=tasks.masks,
            residual=self._setup.has_residual,
            roi_classifier=config.roi_classifier,
        )
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def _freeze(self) -> None:
        if self._setup.is_frozen:
            freeze_except_residual(self.network)

    def _make_detector(self, card: DetectorCard) -> NativeDetector:
        return NativeDetector(self._copy_network(self.weight_average.state), card)

    def _compute_losses(
        self, batch: DetectorBatch, target_views: TargetViews | None
    ) -> tuple[dict[str, Tensor], Tensor]:
        rgb = self._to_tensor(batch.rgb)
        n_labelled = len(rgb)
        targets = TargetTensors.from_targets(batch.targets, self._device)
        teacher_maps = self._compute_teacher_maps(target_views)
        if target_views is not None:
            rgb = torch.cat([rgb, self._to_tensor(target_views.augmented)])
        self.network.train(not self._setup.is_frozen)  # freeze batch-norm statistics as well
        with autocast(self._device, on_cpu=self._config.bfloat16):
            features = self.network.extract_features(rgb)
            maps = self.network.apply_heads(features)
        labelled_maps = maps if target_views is None else maps.select(slice(n_labelled))
        losses = detector_losses(labelled_maps, targets)
        if batch.roi_crops is not None:
            losses |= self._compute_roi_losses(batch.roi_crops)
        total = total_loss(losses)
        if self._config.adapt is not None and target_views is not None:
            strength = self._config.adapt.weight * compute_strength(self.step, self._config.steps)
            domain_losses = adaptation_losses(
                features.float(),
                maps,
                n_labelled,
                strength=strength,
                discriminator=self._discriminator,
                teacher_maps=teacher_maps,
            )
            losses |= domain_losses
            total = total + torch.stack(list(domain_losses.values())).sum()
        return losses, total

    def _compute_roi_losses(self, roi_crops: RoiCrops) -> dict[str, Tensor]:
        with autocast(self._device, on_cpu=self._config.bfloat16):
            predictions = self.network.classify_crops(self._to_tensor(roi_crops.rgb))
        categories = torch.from_numpy(roi_crops.categories).to(self._device)
        losses = {}
        if predictions.category_logits is not None:
            losses["roi_category"] = roi_category_loss(predictions.category_logits, categories)
        if predictions.features is not None and self._symmetry_rotations is not None:
            assert roi_crops.object_coordinates is not None
            classes = categories.clamp(min=0)
            surfaces = self.network.predict_surfaces(predictions.features, classes)
            coordinates = torch.from_numpy(roi_crops.object_coordinates).to(self._device)
            losses |= surface_losses(surfaces, coordinates, self._symmetry_rotations[classes])
        return losses

    @torch.no_grad()
    def _compute_teacher_maps(self, target_views: TargetViews | None) -> DetectionMaps | None:
        """Return the averaged weights' outputs for the target images; None without mean teacher."""
        if (
            target_views is None
            or self._config.adapt is None
            or self._config.adapt.method != "mean-teacher"
        ):
            return None
        self.network.eval()
        with autocast(self._device, on_cpu=self._config.bfloat16):
            maps = functional_call(
                self.network, self.weight_average.state, (self._to_tensor(target_views.plain),)
            )
        return cast("DetectionMaps", maps)


class _TorchvisionRun(_TrainingRun[TorchvisionNetwork]):
    """Training of a torchvision model."""

    def _build_network(self, generator: torch.Generator) -> TorchvisionNetwork:
        keypoints = self._setup.tasks.keypoints
        return build_torchvision_network(
            self._config.architecture,
            len(self._setup.categories),
            generator,
            n_keypoints=max(map(len, keypoints.values()), default=0),
            crop_px=self._config.crop_px,
        )

    def _get_pretrainable(self) -> nn.Module:
        return self.network.model

    def _make_detector(self, card: DetectorCard) -> TorchvisionDetector:
        return TorchvisionDetector(self._copy_network(self.weight_average.state), card)

    def _compute_losses(
        self, batch: DetectorBatch, target_views: TargetViews | None
    ) -> tuple[dict[str, Tensor], Tensor]:
        assert target_views is None  # the configuration refuses domain adaptation
        self.network.train()
        proposal_seed = derive_seed(self._config.seed, f"proposals/{self.step}")
        with (
            seed_global_rng(proposal_seed, self._device),
            autocast(self._device, on_cpu=self._config.bfloat16),
        ):
            losses = self.network.losses(self._to_tensor(batch.rgb), batch.crops)
        return losses, torch.stack(list(losses.values())).sum()


def read_metrics(run_dir: Path) -> tuple[TrainProgress, ...]:
    """Return the training log of a run; empty if there is none.

    A last line cut off by a crash is left out.

    Raises:
        InputError: if the log is not of a detector training.
    """
    return read_metrics_log(run_dir, TrainProgress)


def _build_view_maker(setup: TrainingSetup) -> TargetViewMaker | None:
    """Return the source of target images for each step; None without target images."""
    if setup.target_images is None:
        return None
    config = setup.config
    return TargetViewMaker(
        setup.target_images,
        _make_crop_config(config),
        batch=config.batch,
        photometric=config.photometric,
        seed=config.seed,
        cache_bytes=config.cache_bytes,
    )


def build_batch_maker(
    datasets: WeightedDatasets,
    categories: tuple[str, ...],
    tasks: Tasks,
    config: TrainConfig,
    background_images: Dataset | None = None,
) -> BatchMaker:
    """Return the source of a training's batches.

    Args:
        datasets: labelled datasets and their weights.
        categories: names in the order of class indices.
        tasks: what the detector learns besides boxes.
        config: settings of the training.
        background_images: background images for objects; None without any.
    """
    background_augmentation = None
    cache_bytes = int(min(config.cache_bytes, CACHE_MEMORY_SHARE * get_memory_bytes()))
    if background_images is not None or config.dead_leaves:
        share = 0 if background_images is None else cache_bytes // BACKGROUND_CACHE_DIVISOR
        background_augmentation = BackgroundAugmentation(
            background_images, share, amodal=tasks.amodal, dead_leaves=config.dead_leaves
        )
        cache_bytes -= share
    samples = [dataset.samples for dataset, _ in datasets]
    return BatchMaker(
        datasets,
        ImageCache(samples, categories, cache_bytes, tasks),
        _make_crop_config(config),
        dataset_shares=lambda step: compute_dataset_shares(step, datasets, config),
        batch=config.batch,
        photometric=config.photometric,
        seed=config.seed,
        tasks=tasks,
        n_roi_crops=count_roi_crops(
            roi_classifier=config.roi_classifier, poses=tasks.symmetry_rotations is not None
        ),
        background_augmentation=background_augmentation,
    )


def _make_crop_config(config: TrainConfig) -> CropConfig:
    return CropConfig(
        crop_px=config.crop_px,
        scale_range=config.scale_range,
        rotate_90=config.rotate_90,
        rotate_any=config.rotate_any,
        flips=config.flips,
        min_visible=config.min_visible,
        min_category_visible=config.min_category_visible,
        balance=config.balance,
        copy_paste=config.copy_paste,
        instance_colour_jitter=config.instance_colour_jitter,
        amodal=config.amodal,
        cell_px=1 if config.is_torchvision else STRIDE_PX,
    )


def _build_discriminator(config: TrainConfig) -> DomainDiscriminator | None:
    """Return the domain discriminator of domain-adversarial training; None without it."""
    if config.adapt is None or config.adapt.method != "dann":
        return None
    generator = torch.Generator().manual_seed(derive_seed(config.seed, "critic"))
    return DomainDiscriminator(ARCHITECTURES[config.architecture].head_channels, generator)


def _build_optimizer(
    network: nn.Module, discriminator: DomainDiscriminator | None, config: TrainConfig
) -> torch.optim.Optimizer:
    """Return the optimizer; each parameter group has a ``share`` of the learning rate."""
    parameters = [
        (compute_lr_scale(name, config.fine_tuning), parameter)
        for name, parameter in network.named_parameters()
        if parameter.requires_grad
    ]
    if discriminator is not None:
        parameters += [(1.0, parameter) for parameter in discriminator.parameters()]
    groups: dict[tuple[float, bool], list[nn.Parameter]] = defaultdict(list)
    for share, parameter in parameters:
        groups[share, parameter.ndim > 1].append(parameter)
    return torch.optim.AdamW(
        [
            {"params": groups[key], "share": key[0], "weight_decay": config.weight_decay * key[1]}
            for key in sorted(groups, reverse=True)
        ],
        lr=config.learning_rate,
        fused=True,
    )


def _compute_learning_rate(config: TrainConfig, step: int) -> float:
    warmup = min(config.warmup_steps, config.steps // 2)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(config.steps - warmup, 1)
    return config.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))
