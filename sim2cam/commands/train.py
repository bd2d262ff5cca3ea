"""Command ``train``: training of detectors."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.backgrounds import (
    AUTO,
    Backgrounds,
    find_backgrounds,
    list_background_paths,
    read_backgrounds,
)
from sim2cam.commands.options import (
    Argument,
    Device,
    FolderOptions,
    Option,
    OutputOptions,
    Rare,
    SkipInvalid,
    Split,
    check_inputs,
    check_numbers,
    parse_category_map,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.commands.runs import drop_unset, lock_run_folder, make_callbacks, set_thread_budget
from sim2cam.errors import UsageError
from sim2cam.learn.launch import get_world_size, is_main_process
from sim2cam.metrics.verdict import Verdict

if TYPE_CHECKING:
    from sim2cam.commands.console import Console
    from sim2cam.data.sample import Dataset
    from sim2cam.models.card import DetectorCard
    from sim2cam.models.reliability.domain_shift import DomainShift
    from sim2cam.models.reliability.measurement import CalibrationSource
    from sim2cam.models.training.config import TrainConfig
    from sim2cam.models.training.setup import TrainingSetup
    from sim2cam.pipeline.recipe import Recipe


_TRAIN_STAGE, _TUNE_STAGE, _CALIBRATE_STAGE = "training", "tuning", "calibrating"


@dataclass(frozen=True)
class TrainResult(Result):
    """Trained detector.

    Attributes:
        weights: Weights file.
        domain_shift: Comparison of ``--captures``, or else ``--validation``, with the training data.
    """

    weights: Path
    domain_shift: DomainShift

    def to_json(self) -> dict[str, Any]:
        """Return the path of the weights, the comparison with the real images, and what to do."""
        return {
            "weights": str(self.weights),
            "domain_shift": self.domain_shift.to_json(),
            "verdict": Verdict(self.domain_shift.findings).to_json(),
        }

    def summary(self) -> str:
        """Return the path of the weights."""
        return f"weights: {self.weights}"

    @property
    def next_step(self) -> str:
        """Command that scores the detector."""
        return format_command("bench", self.weights, "--captures", "REAL", "--out", "scores.json")


@dataclass(frozen=True)
class Train:
    """Train a detector on one or several datasets."""

    recipe: Annotated[str, Argument("RECIPE")]
    """Name of a shipped recipe (dice) or .toml file, whose [train] section configures the training."""
    data: Annotated[tuple[Path, ...], Option("DATA")]
    """Labelled datasets: rendered, translated or real. Of data with splits, only train is used unless --split names others."""
    out: Path
    """Run folder."""
    map: Rare[Annotated[tuple[str, ...], Option("REAL=SIM")]] = ()
    """Category names of the data and their names in --from, or else in the first dataset."""
    ignore_unmatched: Rare[bool] = False
    """Ignore objects of categories that are not in --from, or else in the first dataset."""
    mix: Rare[tuple[float, ...]] = ()
    """Share of each dataset in training batches; default: equal shares."""
    initial_mix: Rare[tuple[float, ...]] = ()
    """Share of each dataset at the first step, if it differs from --mix."""
    mix_steps: Rare[int | None] = None
    """Number of steps of the linear change from --initial-mix to --mix."""
    steps: int | None = None
    """Training steps; default: from the recipe."""
    minutes: float | None = None
    """Time budget of the steps instead of --steps; the number of steps follows from the measured time of a step, and the learning-rate schedule from the number of steps. A resumed training keeps its number of steps."""
    seed: int | None = None
    """Random seed; default: from the recipe."""
    limit: Rare[int | None] = None
    """Read at most this many samples of each dataset."""
    initial_weights: Annotated[Path | None, Option("WEIGHTS", name="from")] = None
    """Initial weights (file or shipped name), fine-tuned as set in [train.fine_tuning]: for few labelled images or pseudo-labels."""
    captures: Rare[Path | None] = None
    """Unlabelled real images: compared with the training data; also used for feature adaptation ([train.adapt]) and as backgrounds (target_backgrounds)."""
    backgrounds: Rare[Annotated[tuple[Path, ...], Option("IMAGES")]] = (AUTO,)
    """Background images without the trained categories: photos of the target environment, or renders of other recipes. Used behind and before the objects in half of the samples each. auto: the photographs of sim2cam fetch. none: without. Default: auto."""
    background_mix: Rare[tuple[float, ...]] = ()
    """Share of each folder of --backgrounds; default: by the number of images. Not with auto, which takes equal shares, or none."""
    validation: Path | None = None
    """Labelled real images that select input scale and box padding, calibrate confidences and, with patience in [train], stop the training early. They must not be among the data."""
    held_out: Rare[float] = 0.05
    """Share of scenes held out for confidence calibration and OOD detection if --validation has fewer than 19 images; none if the share is fewer than 19 images."""
    device: Device = "cpu"
    tensorboard: Rare[bool] = False
    """Also write TensorBoard logs to the run folder."""
    workers: Rare[int] = os.cpu_count() or 1
    """CPU threads, in total over all processes of this machine; with a GPU, data loader processes; default: one per core."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(
        self, recipe: Recipe | None = None, datasets: Sequence[Dataset] | None = None
    ) -> TrainResult:
        """Train the detector, with a recipe and datasets in memory instead of files if given."""
        self._check_options()
        check_inputs(
            *(() if datasets else self.data),
            *(self.captures, *list_background_paths(self.backgrounds), self.validation),
            recipe=None if recipe else self.recipe,
            weights=self.initial_weights,
        )

        from sim2cam.learn.tensorboard import TensorBoardLogger
        from sim2cam.learn.weight_file import load_card
        from sim2cam.models.card import card_from_json
        from sim2cam.models.reliability.domain_shift import DomainShift
        from sim2cam.models.reliability.measurement import measure_reliability
        from sim2cam.models.shipped_weights import resolve_weights
        from sim2cam.models.training.setup import AuxiliaryData, make_training_setup
        from sim2cam.models.training.training import WEIGHTS, train_from_setup
        from sim2cam.models.training.tuning import tune_weights
        from sim2cam.pipeline.recipe import load_recipe

        console = self.output.make_console()
        set_thread_budget(self.workers, console)
        config = self._make_config(recipe or load_recipe(self.recipe), console)
        initial_weights = (
            None if self.initial_weights is None else resolve_weights(self.initial_weights)
        )
        shares = self.mix or (1.0,) * len(self.data)
        datasets = datasets or list(map(self.read_data, self.data))
        datasets = [dataset.take(self.limit) for dataset in datasets]
        captures, validation_set = self._read_auxiliary_data(datasets)
        initial_card = (
            None
            if initial_weights is None
            else card_from_json(initial_weights, load_card(initial_weights))
        )
        datasets, validation_set = self._match_categories(datasets, validation_set, initial_card)
        _warn_empty_categories(datasets, console)
        backgrounds = self._read_backgrounds(datasets, console)
        training_sets, calibration_set, source = self._select_reliability_images(
            datasets, validation_set
        )
        parts = tuple(zip(training_sets, shares, strict=True))
        if initial_card is not None and initial_card.box_padding and validation_set is None:
            console.info(
                f"--from uses a box padding of {initial_card.box_padding:.2%} of the image's longer side. It is not kept: "
                "give labelled real images with --validation to measure it again."
            )
        auxiliary_data = AuxiliaryData(
            initial_weights,
            captures if config.adapt or config.target_backgrounds else None,
            backgrounds.images,
            validation_set,
            backgrounds.shares,
        )
        target_images = validation_set if captures is None else captures
        with lock_run_folder(self.out, self.folder):
            setup = make_training_setup(parts, config, auxiliary_data)
            setup = self._plan_steps(setup, console)
            image_shift = _compare_images(setup, target_images, console)
            tensorboard = TensorBoardLogger(self.out) if self.tensorboard else None
            with console.show_progress(*_list_stages(validation_set, calibration_set)) as stages:
                train_from_setup(
                    setup,
                    self.out,
                    resume=self.folder.resume,
                    device=self.device,
                    callbacks=make_callbacks(
                        console, "detector", tensorboard, stages(_TRAIN_STAGE)
                    ),
                )
                weights = self.out / WEIGHTS
                if is_main_process() and validation_set is not None:
                    stages(_TUNE_STAGE)
                    tune_weights(weights, validation_set, device=self.device)
                if is_main_process() and calibration_set is not None:
                    stages(_CALIBRATE_STAGE)
                    measure_reliability(
                        weights, parts, setup.config, calibration_set, source, device=self.device
                    )
            object_shift = self._compare_objects(weights, captures, validation_set, console)
        return TrainResult(
            weights, DomainShift((*image_shift.quantities, *object_shift.quantities))
        )

    def _make_config(self, recipe: Recipe, console: Console) -> TrainConfig:
        """Return the settings of the recipe with those of the options, and print the pretrained weights."""
        from sim2cam.models.network.architectures import AUTO_PRETRAINED
        from sim2cam.models.network.torchvision_models import check_operators

        changes = drop_unset(
            steps=self.steps,
            seed=self.seed,
            initial_mix=self.initial_mix or None,
            mix_steps=self.mix_steps,
        )
        config = replace(recipe.train, **changes)
        check_operators(config.architecture)
        if config.pretrained == AUTO_PRETRAINED and self.initial_weights is None:
            console.info(_describe_pretrained(config.architecture))
        return config

    def _plan_steps(self, setup: TrainingSetup, console: Console) -> TrainingSetup:
        """Print what the training costs, and return it with the number of steps for ``--minutes``."""
        from sim2cam.learn.checkpoint import load_identity
        from sim2cam.learn.run_folder import CHECKPOINT
        from sim2cam.models.training.step_time import (
            MIN_TIMED_STEPS,
            count_steps,
            measure_step_time,
            set_steps,
        )

        config, checkpoint = setup.config, self.out / CHECKPOINT
        if checkpoint.exists():  # the number of steps was chosen at the start
            if self.minutes is None:
                return setup
            return replace(
                setup, config=set_steps(config, load_identity(checkpoint)["config"]["steps"])
            )
        on_cpu = self.device == "cpu"
        if self.minutes is None and (
            get_world_size() > 1 or not on_cpu or config.steps < MIN_TIMED_STEPS
        ):
            return setup
        start_s = time.monotonic()
        step_time = measure_step_time(setup, self.device, with_options=on_cpu)
        if self.minutes is not None:
            budget_s = 60 * self.minutes - (time.monotonic() - start_s)
            config = set_steps(config, count_steps(budget_s, step_time.step_s))
        console.info(step_time.describe(config.steps, is_budget=self.minutes is not None))
        return setup if config is setup.config else replace(setup, config=config)

    def _compare_objects(
        self,
        weights: Path,
        captures: Dataset | None,
        validation_set: Dataset | None,
        console: Console,
    ) -> DomainShift:
        """Compare detected objects of the captures, or labelled ones of the validation set, with the training."""
        from sim2cam.data.set_operations import select_boxes
        from sim2cam.models.inference.detector import detect_dataset, load_detector
        from sim2cam.models.reliability.domain_shift import (
            DomainShift,
            collect_detected_objects,
            collect_labelled_objects,
            compare_with_training,
            select_evenly,
        )

        if not is_main_process() or (captures is None and validation_set is None):
            return DomainShift()
        detector = load_detector(weights, device=self.device)
        card = detector.card
        if captures is not None:
            images = replace(captures, samples=select_evenly(captures.samples))
            detections = detect_dataset(detector, images)
            objects = collect_detected_objects(detections.values(), card.input_scale)
        else:
            assert validation_set is not None
            images = select_boxes(validation_set, amodal=card.is_amodal)
            objects = collect_labelled_objects(images, card.input_scale)
        shift = compare_with_training(objects, card.training_domain, card.box_size_range_px)
        for finding in shift.findings:
            console.info(str(finding))
        return shift

    def _check_options(self) -> None:
        if self.mix and len(self.mix) != len(self.data):
            raise UsageError(
                f"--mix has {len(self.mix)} values for {len(self.data)} datasets. Give one per dataset."
            )
        if (
            self.initial_weights is not None
            and self.initial_weights.resolve().parent == self.out.resolve()
        ):
            raise UsageError(
                f"--from {self.initial_weights} is in --out and would be replaced. Choose another --out."
            )
        if not 0 <= self.held_out < 1:
            raise UsageError(f"--held-out must be at least 0 and less than 1, not {self.held_out}")
        if self.background_mix and not list_background_paths(self.backgrounds):
            raise UsageError("--background-mix needs folders in --backgrounds, not auto or none.")
        if self.background_mix and len(self.background_mix) != len(self.backgrounds):
            raise UsageError(
                f"--background-mix has {len(self.background_mix)} values for {len(self.backgrounds)} "
                "--backgrounds. Give one per source."
            )
        if self.minutes is not None and self.steps is not None:
            raise UsageError("--minutes chooses the number of steps. Remove it, or --steps.")
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"--minutes must be above 0, not {self.minutes:g}")
        if self.minutes is not None and get_world_size() > 1:
            raise UsageError(
                "--minutes is measured in one process. Give --steps to train with torchrun."
            )
        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)

    def read_data(self, path: Path) -> Dataset:
        """Read a labelled dataset."""
        from sim2cam.data.real_images import read_real_images
        from sim2cam.data.splits import TRAIN

        return read_real_images(path, skip_invalid=self.skip_invalid, split=self.split, roles=TRAIN)

    def _read_auxiliary_data(
        self, data: Sequence[Dataset]
    ) -> tuple[Dataset | None, Dataset | None]:
        """Read unlabelled real images and the validation set."""
        from sim2cam.data.checks.duplicates import check_disjoint
        from sim2cam.data.real_images import check_no_pseudo_labels, read_real_images
        from sim2cam.data.splits import DEV, STYLE

        read = partial(read_real_images, skip_invalid=self.skip_invalid)
        captures = None if self.captures is None else read(self.captures, roles=STYLE)
        validation_set = None if self.validation is None else read(self.validation, roles=DEV)
        if validation_set is not None and self.validation is not None:
            check_no_pseudo_labels(validation_set, self.validation)
            check_disjoint(
                (sample for dataset in data for sample in dataset.samples), validation_set
            )
        return captures, validation_set

    def _read_backgrounds(self, data: Sequence[Dataset], console: Console) -> Backgrounds:
        if tuple(self.backgrounds) == (AUTO,):
            return find_backgrounds(data, console)
        return read_backgrounds(
            list_background_paths(self.backgrounds),
            self.background_mix,
            skip_invalid=self.skip_invalid,
        )

    def _match_categories(
        self,
        datasets: Sequence[Dataset],
        validation_set: Dataset | None,
        initial_card: DetectorCard | None,
    ) -> tuple[Sequence[Dataset], Dataset | None]:
        """Map categories to those of the initial weights, or else of the first dataset.

        Raises before the training if the validation set cannot be scored.
        """
        from sim2cam.data.label_mapping import LabelMapping
        from sim2cam.metrics.detection import count_objects

        categories = datasets[0].categories if initial_card is None else initial_card.categories
        all_datasets = datasets if validation_set is None else (*datasets, validation_set)
        matchings = LabelMapping(
            categories, parse_category_map(self.map), self.ignore_unmatched
        ).restrict_to(all_datasets)
        if self.map or self.ignore_unmatched:
            for matching, dataset in zip(matchings, datasets, strict=False):
                matching.check_complete(dataset)
            datasets = [
                matching.apply(dataset)
                for matching, dataset in zip(matchings, datasets, strict=False)
            ]
        if validation_set is not None:
            validation_set = matchings[-1].apply(validation_set)
            count_objects(validation_set)
        return datasets, validation_set

    def _select_reliability_images(
        self, datasets: Sequence[Dataset], validation_set: Dataset | None
    ) -> tuple[Sequence[Dataset], Dataset | None, CalibrationSource]:
        """Return training sets, images for calibration and OOD detection, and their source."""
        from sim2cam.data.set_operations import hold_out
        from sim2cam.models.reliability.ood import MIN_CALIBRATION_IMAGES

        if validation_set is not None and len(validation_set.samples) >= MIN_CALIBRATION_IMAGES:
            return datasets, validation_set, "validation images"
        training_sets, held_out = hold_out(datasets, self.held_out)
        if len(held_out.samples) >= MIN_CALIBRATION_IMAGES:
            return training_sets, held_out, "held-out images"
        self.output.make_console().info(
            "Confidences are not calibrated and out-of-distribution images are not detected: this requires "
            f"{MIN_CALIBRATION_IMAGES} held-out images, but --held-out {self.held_out:g} gives "
            f"{len(held_out.samples)}. All images are used for training."
        )
        return datasets, None, "held-out images"


def _describe_pretrained(architecture: str) -> str:
    """Return which pretrained weights a training starts from, or how to get some."""
    from sim2cam.models.network.architectures import AUTO_PRETRAINED
    from sim2cam.models.network.pretrained import resolve_pretrained, suggest_pretrained

    name, remedy = (
        resolve_pretrained(AUTO_PRETRAINED, architecture),
        suggest_pretrained(architecture),
    )
    if name:
        return f"pretrained weights: {name}"
    none = f"warning: no pretrained weights for {architecture} on this computer; training starts from random weights."
    return f"{none} Better: {remedy}" if remedy else none


def _compare_images(
    setup: TrainingSetup, target_images: Dataset | None, console: Console
) -> DomainShift:
    """Compare luminance and sharpness of real images with the training crops."""
    from sim2cam.models.reliability.domain_shift import (
        DomainShift,
        compare_with_training,
        measure_image_parts,
    )

    if target_images is None or not is_main_process():
        return DomainShift()
    paths = [sample.rgb for sample in target_images.samples]
    parts = measure_image_parts(paths, setup.make_card().input_scale, setup.config.crop_px)
    shift = compare_with_training(parts, setup.training_domain, None)
    for finding in shift.findings:
        console.info(str(finding))
    return shift


def _list_stages(validation_set: Dataset | None, calibration_set: Dataset | None) -> list[str]:
    stages = [_TRAIN_STAGE]
    stages += [] if validation_set is None else [_TUNE_STAGE]
    return stages if calibration_set is None else [*stages, _CALIBRATE_STAGE]


def _warn_empty_categories(datasets: Sequence[Dataset], console: Console) -> None:
    """Warn about categories without objects, which some tools write for supercategories."""
    labelled = set[str]().union(*(dataset.collect_label_categories() for dataset in datasets))
    empty = [name for name in datasets[0].categories if name not in labelled]
    if empty:
        console.info(
            f"warning: no objects of category {', '.join(empty)}, which the detector will still "
            "predict. Remove unused names from the categories of the data."
        )
