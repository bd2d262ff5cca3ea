"""Training of a detector as a task of the trainer."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from sim2cam.learn.device import autocast
from sim2cam.learn.distributed import broadcast_from_main, distribute, synchronize_batch_norms
from sim2cam.learn.early_stopping import EarlyStopping, compute_evaluation_interval
from sim2cam.learn.ema import ExponentialMovingAverage
from sim2cam.learn.prefetch import prefetch_in_processes
from sim2cam.learn.trainer import Task, Trainable
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import AnyDetector, NativeDetector, save_detector
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
from sim2cam.models.network.architectures import ARCHITECTURES
from sim2cam.models.network.detector import DetectionMaps, DetectorNetwork
from sim2cam.models.network.pretrained import load_pretrained
from sim2cam.models.network.torchvision_network import (
    TorchvisionNetwork,
    build_torchvision_network,
    seed_global_rng,
)
from sim2cam.models.training.batches import (
    DetectorBatch,
    RoiCrops,
    TargetViews,
    build_batch_maker,
    build_view_maker,
)
from sim2cam.models.training.config import TrainConfig
from sim2cam.models.training.fine_tuning import copy_weights, freeze_except_residual
from sim2cam.models.training.pretrained_layers import LrScale, PretrainedLayers
from sim2cam.models.training.setup import TrainingSetup
from sim2cam.models.training.tuning import compute_ap50
from sim2cam.seeds import derive_seed

Network = TypeVar("Network", bound=nn.Module)
Batch = tuple[DetectorBatch, TargetViews | None]


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


class DetectorTask(Task[Batch, TrainProgress], Generic[Network]):
    """Training of a detector network; the result is the average of its weights."""

    remedy = "Lower learning_rate"

    def __init__(self, setup: TrainingSetup, card: DetectorCard, device: torch.device) -> None:
        self._setup, self._config, self._card = setup, setup.config, card
        self._device = device
        config = setup.config
        self.steps = config.steps
        generator = torch.Generator().manual_seed(derive_seed(config.seed, "weights"))
        self.network = self._build_network(generator)
        pretrained_names: frozenset[str] = frozenset()
        if setup.initial_weights is not None:
            copy_weights(self.network, setup.initial_weights.detector.network)
        elif setup.pretrained is not None:
            pretrained_names = load_pretrained(self._get_pretrainable(), setup.pretrained)
        self._pretrained_layers = PretrainedLayers(self.network, pretrained_names, config)
        synchronize_batch_norms(self.network)
        self._freeze()
        self.network.to(device)
        self._discriminator = _build_discriminator(config)
        modules: dict[str, nn.Module] = {"network": self.network}
        if self._discriminator is not None:
            modules["discriminator"] = self._discriminator.to(device)
        self._average = ExponentialMovingAverage(self.network, config.ema_decay)
        self._optimizer = self._build_optimizer()
        self.networks = {
            name: Trainable(module, self._optimizer) for name, module in modules.items()
        }
        self.networks["network"] = replace(self.networks["network"], average=self._average)
        self._distributed_losses = distribute(self._compute_losses, *modules.values())
        self._early_stopping = EarlyStopping(config.patience)
        self._batch_maker = build_batch_maker(
            setup.datasets,
            card.categories,
            setup.tasks,
            config,
            setup.background_images,
            setup.background_shares,
            setup.target_images,
        )
        self._view_maker = (
            None if setup.target_images is None else build_view_maker(setup.target_images, config)
        )

    @property
    def _adapts_during_training(self) -> bool:
        return self._config.adapt is not None and self._config.adapt.adapts_during_training

    def make_batch(self, step: int) -> Batch:
        """Return the labelled batch and, if used in training, the target images of a step."""
        view_maker = self._view_maker if self._adapts_during_training else None
        return self._batch_maker.make(step), None if view_maker is None else view_maker.make(step)

    def iterate_batches(self, steps: range) -> Iterator[Batch]:
        """Return the batches of steps, made in a thread or, for a GPU, in processes."""
        if self._device.type == "cpu" or not steps:
            return super().iterate_batches(steps)
        processes = torch.get_num_threads()
        self._batch_maker.preload(processes)
        return prefetch_in_processes(self.make_batch, steps, processes)

    def train_step(self, step: int, batch: Batch) -> dict[str, Tensor]:
        """Update network, discriminator and average; return the losses."""
        learning_rate = _compute_learning_rate(self._config, step)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate * group["lr_scale"].compute(step)
        losses = self._distributed_losses(step, *batch)
        self._optimizer.zero_grad(set_to_none=True)
        losses["total"].backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), self._config.clip_norm)
        self._optimizer.step()
        self._average.update(self.network, step)
        return {name: value.detach() for name, value in losses.items()}

    @abstractmethod
    def _build_network(self, generator: torch.Generator) -> Network:
        """Return the network with random weights."""

    def _get_pretrainable(self) -> nn.Module:
        """Return the module that pretrained weights are loaded into."""
        return self.network

    def _freeze(self) -> None:
        """Freeze the layers that are never trained."""

    def _build_optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer; each parameter group has a ``lr_scale`` of its own."""
        parameters = [
            (self._pretrained_layers.get_lr_scale(name), parameter)
            for name, parameter in self.network.named_parameters()
            if parameter.requires_grad
        ]
        if self._discriminator is not None:
            parameters += [(LrScale(1.0), value) for value in self._discriminator.parameters()]
        groups: dict[tuple[LrScale, bool], list[nn.Parameter]] = defaultdict(list)
        for lr_scale, parameter in parameters:
            groups[lr_scale, parameter.ndim > 1].append(parameter)
        weight_decay = self._config.weight_decay
        return torch.optim.AdamW(
            [
                {"params": group, "lr_scale": lr_scale, "weight_decay": weight_decay * has_decay}
                for (lr_scale, has_decay), group in groups.items()
            ],
            lr=self._config.learning_rate,
            fused=True,
        )

    @abstractmethod
    def _compute_losses(
        self, step: int, batch: DetectorBatch, target_views: TargetViews | None
    ) -> dict[str, Tensor]:
        """Return the losses of a step by name, and their weighted sum ``total``."""

    @abstractmethod
    def _make_detector(self) -> AnyDetector:
        """Return the detector with the averaged weights."""

    def evaluate(self, step: int) -> dict[str, float]:
        """Evaluate the averaged weights on the validation set if an evaluation is due."""
        validation_set = self._setup.validation_set
        if validation_set is None or (
            step % compute_evaluation_interval(self.steps) and step < self.steps
        ):
            return {}
        detector = self._make_detector()
        score = broadcast_from_main(lambda: compute_ap50(detector, validation_set), self._device)
        if self._early_stopping.add(step, score):
            self.best_weights = {n: value.clone() for n, value in self._average.state.items()}
        return {}

    def dump_evaluations(self) -> list[Any]:
        """Return steps and scores."""
        return self._early_stopping.evaluations

    def load_evaluations(self, values: list[Any]) -> None:
        """Restore steps and scores."""
        self._early_stopping.load(values)

    @property
    def should_stop(self) -> bool:
        """Whether the patience of early stopping is used up."""
        return self._early_stopping.should_stop

    def make_line(
        self, step: int, means: dict[str, float], step_s: float, wait_s: float
    ) -> TrainProgress:
        """Return a line of the metrics log."""
        learning_rate = _compute_learning_rate(self._config, step - 1)
        return TrainProgress(step, self.steps, means, learning_rate, step_s, wait_s)

    def compute_weights(self) -> Mapping[str, Tensor]:
        """Return the averaged weights: the best evaluated ones, or else the last."""
        return self.best_weights or self._average.state

    def save(self, path: Path, weights: Mapping[str, Tensor], step: int) -> None:
        """Write weights and card."""
        evaluations = tuple(self._early_stopping.evaluations)
        best_step = self._early_stopping.best_step if evaluations else step
        save_detector(path, weights, replace(self._card, steps=best_step, evaluations=evaluations))

    def _to_tensor(self, rgb: NDArray[np.uint8]) -> Tensor:
        return torch.from_numpy(rgb).to(self._device).permute(0, 3, 1, 2)

    def _copy_network(self, state: Mapping[str, Tensor]) -> Network:
        """Return a copy of the network with the given weights, in evaluation mode."""
        network = copy.deepcopy(self.network).eval()
        network.load_state_dict(dict(state))
        return network


class NativeTask(DetectorTask[DetectorNetwork]):
    """Training of one of this project's networks."""

    def __init__(self, setup: TrainingSetup, card: DetectorCard, device: torch.device) -> None:
        super().__init__(setup, card, device)
        rotations = setup.tasks.symmetry_rotations
        self._symmetry_rotations = (
            None if rotations is None else torch.from_numpy(rotations).float().to(device)
        )

    def make_batch(self, step: int) -> Batch:
        """Return the batch of a step without the labels that only torchvision models use."""
        batch, target_views = super().make_batch(step)
        return replace(batch, crops=()), target_views

    def compute_weights(self) -> Mapping[str, Tensor]:
        """Return the averaged weights; with AdaBN, with batch-norm statistics of the target images."""
        state, view_maker = super().compute_weights(), self._view_maker
        if view_maker is None or self._config.adapt is None or self._adapts_during_training:
            return state
        steps = range(self.steps, self.steps - (-ADABN_CROPS // self._config.batch))
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

    def _make_detector(self) -> NativeDetector:
        return NativeDetector(self._copy_network(self._average.state), self._card)

    def _compute_losses(
        self, step: int, batch: DetectorBatch, target_views: TargetViews | None
    ) -> dict[str, Tensor]:
        rgb = self._to_tensor(batch.rgb)
        n_labelled = len(rgb)
        targets = TargetTensors.from_targets(batch.targets, self._device)
        teacher_maps = self._compute_teacher_maps(target_views)
        if target_views is not None:
            rgb = torch.cat([rgb, self._to_tensor(target_views.augmented)])
        self.network.train(not self._setup.is_frozen)  # freeze batch-norm statistics as well
        self._pretrained_layers.freeze(step)
        with autocast(self._device, on_cpu=self._config.bfloat16):
            features = self.network.extract_features(rgb)
            maps = self.network.apply_heads(features)
        labelled_maps = maps if target_views is None else maps.select(slice(n_labelled))
        losses = detector_losses(labelled_maps, targets)
        if batch.roi_crops is not None:
            losses |= self._compute_roi_losses(batch.roi_crops)
        total = total_loss(losses)
        if self._config.adapt is not None and target_views is not None:
            strength = self._config.adapt.weight * compute_strength(step, self.steps)
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
        return losses | {"total": total}

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
                self.network, self._average.state, (self._to_tensor(target_views.plain),)
            )
        return cast("DetectionMaps", maps)


class TorchvisionTask(DetectorTask[TorchvisionNetwork]):
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

    def _make_detector(self) -> TorchvisionDetector:
        return TorchvisionDetector(self._copy_network(self._average.state), self._card)

    def _compute_losses(
        self, step: int, batch: DetectorBatch, target_views: TargetViews | None
    ) -> dict[str, Tensor]:
        assert target_views is None  # the configuration refuses domain adaptation
        self.network.train()
        proposal_seed = derive_seed(self._config.seed, f"proposals/{step}")
        with (
            seed_global_rng(proposal_seed, self._device),
            autocast(self._device, on_cpu=self._config.bfloat16),
        ):
            losses = self.network.losses(self._to_tensor(batch.rgb), batch.crops)
        return losses | {"total": torch.stack(list(losses.values())).sum()}


def _build_discriminator(config: TrainConfig) -> DomainDiscriminator | None:
    """Return the domain discriminator of domain-adversarial training; None without it."""
    if config.adapt is None or config.adapt.method != "dann":
        return None
    generator = torch.Generator().manual_seed(derive_seed(config.seed, "critic"))
    return DomainDiscriminator(ARCHITECTURES[config.architecture].head_channels, generator)


def _compute_learning_rate(config: TrainConfig, step: int) -> float:
    warmup = config.limited_warmup_steps
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    progress = (step - warmup) / max(config.steps - warmup, 1)
    return config.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * progress)))
