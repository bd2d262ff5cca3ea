"""Training a detector: a plain loop over batches that a seed and a step number decide."""

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
    kept,
    optimizer_tensors,
    restore_optimizer,
)
from sim2cam.learn.device import autocast, full_memory_told, give_memory_back, memory_bytes
from sim2cam.learn.distributed import (
    as_first_finds,
    average_gradients,
    joined,
    mean_over_all,
    share_norms,
    wait_for_all,
)
from sim2cam.learn.ema import WeightAverage
from sim2cam.learn.launch import is_first
from sim2cam.learn.prefetch import Ahead, made_by_processes
from sim2cam.learn.run_folder import CHECKPOINT, WEIGHTS, Record, open_run, read_record
from sim2cam.models.augment.backgrounds import Backdrops
from sim2cam.models.augment.crops import CropRules
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detector import (
    AnyDetector,
    LoadedDetector,
    load_detector,
    save_detector,
)
from sim2cam.models.inference.torchvision_detector import NamedDetector
from sim2cam.models.losses.detection import (
    TargetTensors,
    detector_losses,
    reading_loss,
    surface_losses,
    total_loss,
)
from sim2cam.models.losses.domain_adaptation import (
    NORM_CROPS,
    Critic,
    adaptation_losses,
    adapted_norms,
    strength_at,
)
from sim2cam.models.network.detector import STRIDE_PX, Detector, Maps
from sim2cam.models.network.pretrained import begin_pretrained
from sim2cam.models.network.roi_crops import close_ups_a_crop
from sim2cam.models.network.torchvision_models import check_operators
from sim2cam.models.network.torchvision_network import NamedNetwork, drawn_from, named_network
from sim2cam.models.training.batches import (
    Awaited,
    Batch,
    BatchMaker,
    CloseUps,
    ViewMaker,
    Views,
)
from sim2cam.models.training.config import ARCHITECTURES, TrainConfig
from sim2cam.models.training.datasets import Parts, shares_at
from sim2cam.models.training.early_stopping import Looks, look_steps
from sim2cam.models.training.fine_tuning import begin_with, freeze, rate_share
from sim2cam.models.training.images import PictureStore, Tasks
from sim2cam.models.training.setup import UNAIDED, Aids, Lesson, lesson_of
from sim2cam.models.training.tuning import ap50_on
from sim2cam.seeds import integer_seed

__all__ = ["WEIGHTS", "TrainProgress", "read_metrics", "train_detector"]

CACHED_SHARE = 0.6
"""Of the machine's memory that decoded images take at most."""

BACKDROPS_PART = 8
"""The part of the memory of decoded images that backdrops take is one in so many."""

Network = TypeVar("Network", bound=nn.Module)


@dataclass(frozen=True)
class TrainProgress:
    """A line of the training's record.

    Attributes:
        step: steps done.
        steps: steps in all.
        losses: means since the last line: ``heat box category total``, with poses
            ``outline surface``, with a reader ``reading``, with keypoints ``keypoints seen``, with masks
            ``shown votes``; with captures what ``adaptation_losses`` returns. Models of torchvision
            have the names that it gives them.
        learning_rate: of the last step.
        step_s: seconds a step since the last line, waiting for data included.
        wait_s: of these, the seconds in which a batch was not there yet.
    """

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    step_s: float
    wait_s: float = 0.0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What goes wrong, in words with what to do about it."""
        # at first a teacher that begins from scratch is sure of nothing either
        if self.losses.get("taught") != 0.0 or 2 * self.step <= self.steps:
            return ()
        return (
            "the mean teacher is sure of nothing in the captures, and teaches nothing. Begin with weights that "
            "find something in them (--from), or take another method.",
        )


@full_memory_told()
def train_detector(
    parts: Parts,
    config: TrainConfig,
    run_dir: Path,
    *,
    aids: Aids = UNAIDED,
    resume: bool = False,
    device: str = "cpu",
    progress: Callable[[TrainProgress], None] | None = None,
    checkpoint_s: float = 30.0,
    line_steps: int = 20,
) -> AnyDetector:
    """Returns the detector whose averaged weights are then in ``run_dir/weights.safetensors``.

    Args:
        parts: labelled data sets with their weights.
        config: everything else that decides the result.
        run_dir: for checkpoint, weights, their card and ``metrics.jsonl``.
        aids: what there is beside labelled data.
        resume: goes on from the checkpoint, where there is one.
        device: ``cpu``, ``cuda`` or ``cuda:i``.
        progress: is told of every line of the record.
        checkpoint_s: seconds between checkpoints.
        line_steps: steps between lines of the record.

    Raises:
        InputError: the data cannot be trained on.
        CheckpointError: the checkpoint is broken or of another training, or the weights to begin with
            are broken or do not fit.
        OutputError: the folder cannot be written, or holds a training and ``resume`` is False.
        UsageError: names of keypoints do not tell left from right, which mirrored crops take; settings
            ask for what is not there, or the other way round.
        UsageError, BackendError: there is no such device, its memory is full, processes cannot share the
            batch, or operators that the architecture needs do not load.
        Sim2CamError: the loss is no longer finite.
    """
    check_operators(config.architecture)
    with joined(device) as place:
        _train(
            lesson_of(parts, config, aids),
            place,
            run_dir,
            resume=resume,
            progress=progress,
            checkpoint_s=checkpoint_s,
            line_steps=line_steps,
        )
    give_memory_back()
    return load_detector(run_dir / WEIGHTS, device=str(place))


def _train(
    lesson: Lesson,
    place: torch.device,
    run_dir: Path,
    *,
    resume: bool,
    progress: Callable[[TrainProgress], None] | None,
    checkpoint_s: float,
    line_steps: int,
) -> None:
    """Trains to the last step and, in the first process, writes what came of it."""
    config, identity = lesson.config, lesson.identity()
    run = (_NamedRun if config.is_named else _OwnRun)(lesson, place)
    record = Record(run_dir, "Lower learning_rate")
    if checkpoint := open_run(run_dir, identity, TrainProgress, resume=resume):
        record.resume(run.restore(checkpoint))
    card = lesson.card()
    batches, views = (
        batch_maker(lesson.parts, card.categories, lesson.tasks, config, lesson.backdrops),
        _views(lesson),
    )

    with kept(run_dir / CHECKPOINT, checkpoint_s) as keeper:
        made = Awaited(made_ahead(batches, views, config, run.steps_left, place))
        for batch, seen in made:
            record.add(mean_over_all(run.train_step(batch, seen)))
            run.look(card)
            line = None
            if run.step % line_steps == 0 or run.is_done:
                losses, step_s = record.take_means(run.step)
                line = TrainProgress(
                    run.step, config.steps, losses, run.learning_rate, step_s, made.take_wait_s()
                )
            if is_first():
                if line is not None:
                    record.write(line)
                keeper.take(lambda: run.checkpoint(identity, record.pending), is_last=run.is_done)
                if line is not None and progress is not None:
                    progress(line)
            if run.is_done:
                break
    card = replace(card, steps=run.best_step, looks=tuple(run.looks.looks))
    weights = run.weights(views)
    if is_first():
        save_detector(run_dir / WEIGHTS, weights, card)
    wait_for_all()


def made_ahead(
    batches: BatchMaker,
    views: ViewMaker | None,
    config: TrainConfig,
    steps: range,
    place: torch.device,
) -> Iterator[tuple[Batch, Views | None]]:
    """Returns what steps learn from, made while a network learns from that of those before."""

    def make(step: int) -> tuple[Batch, Views | None]:
        joins = config.adapt is not None and config.adapt.joins_steps
        batch = batches.make(step)
        if not config.is_named:
            batch = replace(batch, crops=())  # from which they alone learn
        return batch, views.make(step) if views and joins else None

    if place.type == "cpu" or not steps:
        return map(Ahead(make, steps.stop), steps)
    processes = torch.get_num_threads()
    batches.fill(processes)
    return made_by_processes(make, steps, processes)


class _Run(ABC, Generic[Network]):
    """A training between two steps."""

    def __init__(self, lesson: Lesson, device: torch.device) -> None:
        self._lesson, self._config = lesson, lesson.config
        self._device = device
        config = lesson.config
        generator = torch.Generator().manual_seed(integer_seed(config.seed, "weights"))
        self.network = self._new_network(generator)
        if lesson.start is not None:
            begin_with(self.network, lesson.start.detector.network)
        elif config.pretrained:
            begin_pretrained(self._pretrainable(), config.pretrained)
        share_norms(self.network)
        self._freeze()
        self.network.to(device)
        self._critic = _critic(config)
        if self._critic is not None:
            self._critic.to(device)
        self.average = WeightAverage(self.network, config.ema_decay)
        self.optimizer = _optimizer(self.network, self._critic, config)
        self.learning_rate = 0.0
        self.looks = Looks(config.patience)
        self.step = 0

    @property
    def is_done(self) -> bool:
        """Whether no step is left."""
        return self.step == self._config.steps or self.looks.are_over

    @property
    def steps_left(self) -> range:
        """The numbers of the steps that are left, unless looks end them before."""
        return range(self.step, self.step if self.is_done else self._config.steps)

    def train_step(self, batch: Batch, views: Views | None) -> dict[str, Tensor]:
        """Returns the losses of one more step."""
        self.learning_rate = _learning_rate(self._config, self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate * group["share"]
        losses, total = self._losses(batch, views)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()  # type: ignore[no-untyped-call]
        average_gradients(self.optimizer)
        nn.utils.clip_grad_norm_(self.network.parameters(), self._config.clip_norm)
        self.optimizer.step()
        self.average.update(self.network, self.step)
        self.step += 1
        return {name: value.detach() for name, value in (losses | {"total": total}).items()}

    @abstractmethod
    def _new_network(self, generator: torch.Generator) -> Network:
        """Returns what is trained, with weights from scratch."""

    def _pretrainable(self) -> nn.Module:
        """Returns what may begin with published weights."""
        return self.network

    def _freeze(self) -> None:
        """Lets some layers be as they are."""

    @abstractmethod
    def _losses(self, batch: Batch, views: Views | None) -> tuple[dict[str, Tensor], Tensor]:
        """Returns the losses of a step by name, and what is learned of all of them."""

    @abstractmethod
    def _detector(self, card: DetectorCard) -> AnyDetector:
        """Returns what predicts with the averaged weights."""

    def look(self, card: DetectorCard) -> None:
        """Takes in how good the averaged weights are on development captures, where it is time to.

        Raises:
            InputError: a capture cannot be read, or has no labels.
        """
        dev, steps = self._lesson.dev, self._config.steps
        if dev is None or (self.step % look_steps(steps) and self.step < steps):
            return
        detector = self._detector(card)
        score = as_first_finds(lambda: ap50_on(detector, dev), self._device)
        self.looks.take(self.step, score, self.average.state)

    def weights(self, views: ViewMaker | None) -> dict[str, Tensor]:
        """Returns the averaged weights: the best of those looked at, or else the last.

        Args:
            views: of captures that they are brought to; None without any.
        """
        return self.looks.best or self.average.state

    @property
    def best_step(self) -> int:
        """The step after which the weights were those that are returned."""
        return self.looks.best_step if self.looks.looks else self.step

    def checkpoint(self, identity: Mapping[str, Any], pending: Mapping[str, Tensor]) -> Checkpoint:
        """Returns all that the next step depends on, and what is ``pending`` in the record."""
        groups = {
            "network": self.network.state_dict(),
            "average": self.average.state,
            "optimizer": optimizer_tensors(self.network, self.optimizer),
            "best": self.looks.best,
            "record": pending,
        }
        if self._critic is not None:
            groups["critic"] = self._critic.state_dict()
            groups["critic optimizer"] = optimizer_tensors(self._critic, self.optimizer)
        tensors = {
            f"{g}:{name}": value for g, named in groups.items() for name, value in named.items()
        }
        facts = {"looks": self.looks.looks} if self.looks.looks else {}
        return Checkpoint(self.step, identity, tensors, facts)

    def restore(self, checkpoint: Checkpoint) -> Mapping[str, Tensor]:
        """Becomes the training that the checkpoint was taken of, and returns what was pending."""
        groups: dict[str, dict[str, Tensor]] = defaultdict(dict)
        for key, value in checkpoint.tensors.items():
            group, _, name = key.partition(":")
            groups[group][name] = value
        self.network.load_state_dict(groups["network"])
        self.average.load(groups["average"])
        restore_optimizer(self.network, self.optimizer, groups["optimizer"])
        if self._critic is not None:
            self._critic.load_state_dict(groups["critic"])
            restore_optimizer(self._critic, self.optimizer, groups["critic optimizer"])
        best = {name: value.to(self._device) for name, value in groups["best"].items()}
        self.looks = Looks(self._config.patience, checkpoint.facts.get("looks", ()), best)
        self.step = checkpoint.step
        return groups["record"]

    def _pixels(self, rgb: NDArray[np.uint8]) -> Tensor:
        return torch.from_numpy(rgb).to(self._device).permute(0, 3, 1, 2)

    def _averaged(self, state: Mapping[str, Tensor]) -> Network:
        """Returns a network with some weights, in evaluation mode."""
        network = copy.deepcopy(self.network).eval()
        network.load_state_dict(dict(state))
        return network


class _OwnRun(_Run[Detector]):
    """A training of one of our own networks."""

    def __init__(self, lesson: Lesson, device: torch.device) -> None:
        super().__init__(lesson, device)
        turns = lesson.tasks.turns
        self._turns = None if turns is None else torch.from_numpy(turns).float().to(device)

    def weights(self, views: ViewMaker | None) -> dict[str, Tensor]:
        """Returns the averaged weights, with statistics of captures where the recipe asks for these."""
        state = super().weights(views)
        if views is None or self._config.adapt is None or self._config.adapt.joins_steps:
            return state
        first = self._config.steps
        steps = range(first, first - (-NORM_CROPS // self._config.batch))
        return adapted_norms(self._averaged(state), (views.make(step).plain for step in steps))

    def _new_network(self, generator: torch.Generator) -> Detector:
        config, tasks = self._config, self._lesson.tasks
        network = Detector(
            config.architecture,
            len(self._lesson.categories),
            generator,
            poses=tasks.turns is not None,
            keypoints=max(map(len, tasks.keypoints.values()), default=0),
            masks=tasks.masks,
            residual=self._lesson.has_residual,
            reader=config.reader,
        )
        return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def _freeze(self) -> None:
        if self._lesson.is_frozen:
            freeze(self.network)

    def _detector(self, card: DetectorCard) -> LoadedDetector:
        return LoadedDetector(self._averaged(self.average.state), card)

    def _losses(self, batch: Batch, views: Views | None) -> tuple[dict[str, Tensor], Tensor]:
        rgb = self._pixels(batch.rgb)
        labelled = len(rgb)
        targets = TargetTensors.of(batch.targets, self._device)
        taught = self._taught(views)
        if views is not None:
            rgb = torch.cat([rgb, self._pixels(views.varied)])
        self.network.train(not self._lesson.is_frozen)  # its statistics stay as well
        with autocast(self._device, on_cpu=self._config.bfloat16):
            features = self.network.features(rgb)
            maps = self.network.read(features)
        said = maps if views is None else maps.of(slice(labelled))
        losses = detector_losses(said, targets)
        if batch.close_ups is not None:
            losses |= self._reading_losses(batch.close_ups)
        total = total_loss(losses)
        if self._config.adapt is not None and views is not None:
            strength = self._config.adapt.weight * strength_at(self.step, self._config.steps)
            more = adaptation_losses(
                features.float(),
                maps,
                labelled,
                strength=strength,
                critic=self._critic,
                taught=taught,
            )
            losses |= more
            total = total + torch.stack(list(more.values())).sum()
        return losses, total

    def _reading_losses(self, shown: CloseUps) -> dict[str, Tensor]:
        with autocast(self._device, on_cpu=self._config.bfloat16):
            reading = self.network.read_close_ups(self._pixels(shown.rgb))
        categories = torch.from_numpy(shown.categories).to(self._device)
        losses = {}
        if reading.categories is not None:
            losses["reading"] = reading_loss(reading.categories, categories)
        if reading.features is not None and self._turns is not None:
            assert shown.surfaces is not None
            known = categories.clamp(min=0)
            surfaces = self.network.read_surfaces(reading.features, known)
            truth = torch.from_numpy(shown.surfaces).to(self._device)
            losses |= surface_losses(surfaces, truth, self._turns[known])
        return losses

    @torch.no_grad()
    def _taught(self, views: Views | None) -> Maps | None:
        """Returns what the averaged weights say of captures as they are; None where they do not teach."""
        if (
            views is None
            or self._config.adapt is None
            or self._config.adapt.method != "mean-teacher"
        ):
            return None
        self.network.eval()
        with autocast(self._device, on_cpu=self._config.bfloat16):
            maps = functional_call(self.network, self.average.state, (self._pixels(views.plain),))
        return cast("Maps", maps)


class _NamedRun(_Run[NamedNetwork]):
    """A training of a model of torchvision."""

    def _new_network(self, generator: torch.Generator) -> NamedNetwork:
        keypoints = self._lesson.tasks.keypoints
        return named_network(
            self._config.architecture,
            len(self._lesson.categories),
            generator,
            keypoints=max(map(len, keypoints.values()), default=0),
            crop_px=self._config.crop_px,
        )

    def _pretrainable(self) -> nn.Module:
        return self.network.model

    def _detector(self, card: DetectorCard) -> NamedDetector:
        return NamedDetector(self._averaged(self.average.state), card)

    def _losses(self, batch: Batch, views: Views | None) -> tuple[dict[str, Tensor], Tensor]:
        assert views is None  # they do not adapt
        self.network.train()
        chance = integer_seed(self._config.seed, f"proposals/{self.step}")
        with (
            drawn_from(chance, self._device),
            autocast(self._device, on_cpu=self._config.bfloat16),
        ):
            losses = self.network.losses(self._pixels(batch.rgb), batch.crops)
        return losses, torch.stack(list(losses.values())).sum()


def read_metrics(run_dir: Path) -> tuple[TrainProgress, ...]:
    """Returns the training's record; empty when there is none, short of a line cut by a crash.

    Raises:
        InputError: it is not that of a detector's training.
    """
    return read_record(run_dir, TrainProgress)


def _views(lesson: Lesson) -> ViewMaker | None:
    """Returns what makes the captures of every step; None without any."""
    if lesson.captures is None:
        return None
    config = lesson.config
    return ViewMaker(
        lesson.captures,
        _crop_rules(config),
        batch=config.batch,
        photometric=config.photometric,
        seed=config.seed,
        cache_bytes=config.cache_bytes,
    )


def batch_maker(
    parts: Parts,
    categories: tuple[str, ...],
    tasks: Tasks,
    config: TrainConfig,
    backdrops: Dataset | None = None,
) -> BatchMaker:
    """Returns what makes the batches of a training.

    Args:
        parts: labelled data sets with their weights.
        categories: names in the order of class indices.
        tasks: what is learned.
        config: how crops are drawn.
        backdrops: what objects are also seen before; None without any.
    """
    behind, cache_bytes = None, int(min(config.cache_bytes, CACHED_SHARE * memory_bytes()))
    if backdrops is not None or config.collages:
        share = 0 if backdrops is None else cache_bytes // BACKDROPS_PART
        behind = Backdrops(backdrops, share, amodal=tasks.amodal, collages=config.collages)
        cache_bytes -= share
    samples = [dataset.samples for dataset, _ in parts]
    return BatchMaker(
        parts,
        PictureStore(samples, categories, cache_bytes, tasks),
        _crop_rules(config),
        shares=lambda step: shares_at(step, parts, config),
        batch=config.batch,
        photometric=config.photometric,
        seed=config.seed,
        tasks=tasks,
        close_ups=close_ups_a_crop(categories=config.reader, poses=tasks.turns is not None),
        backdrops=behind,
    )


def _crop_rules(config: TrainConfig) -> CropRules:
    return CropRules(
        crop_px=config.crop_px,
        scale_range=config.scale_range,
        quarter_turns=config.quarter_turns,
        free_turns=config.free_turns,
        flips=config.flips,
        min_visible=config.min_visible,
        min_read=config.min_read,
        balance=config.balance,
        copy_paste=config.copy_paste,
        recolour=config.recolour,
        amodal=config.amodal,
        cell_px=1 if config.is_named else STRIDE_PX,
    )


def _critic(config: TrainConfig) -> Critic | None:
    """Returns the critic of domain-adversarial training; None without it."""
    if config.adapt is None or config.adapt.method != "dann":
        return None
    generator = torch.Generator().manual_seed(integer_seed(config.seed, "critic"))
    return Critic(ARCHITECTURES[config.architecture].head_channels, generator)


def _optimizer(
    network: nn.Module, critic: Critic | None, config: TrainConfig
) -> torch.optim.Optimizer:
    """Returns the optimizer; each of its groups has a ``share`` of the learning rate."""
    learned = [
        (rate_share(name, config.fine_tuning), parameter)
        for name, parameter in network.named_parameters()
        if parameter.requires_grad
    ]
    if critic is not None:
        learned += [(1.0, parameter) for parameter in critic.parameters()]
    groups: dict[tuple[float, bool], list[nn.Parameter]] = defaultdict(list)
    for share, parameter in learned:
        groups[share, parameter.ndim > 1].append(parameter)
    return torch.optim.AdamW(
        [
            {"params": groups[key], "share": key[0], "weight_decay": config.weight_decay * key[1]}
            for key in sorted(groups, reverse=True)
        ],
        lr=config.learning_rate,
        fused=True,
    )


def _learning_rate(config: TrainConfig, step: int) -> float:
    warmup = min(config.warmup_steps, config.steps // 2)
    if step < warmup:
        return config.learning_rate * (step + 1) / warmup
    share = (step - warmup) / max(config.steps - warmup, 1)
    return config.learning_rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * share)))
