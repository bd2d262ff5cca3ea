"""The command that trains detectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import (
    FolderOptions,
    OutputOptions,
    SkipInvalid,
    Split,
    check_numbers,
    parse_category_map,
)
from sim2cam.commands.runs import drop_unset, lock_run_folder, make_step_callback, set_thread_budget
from sim2cam.errors import UsageError
from sim2cam.learn.launch import is_main_process

if TYPE_CHECKING:
    from sim2cam.commands.console import Console
    from sim2cam.data.sample import Dataset
    from sim2cam.models.card import DetectorCard
    from sim2cam.models.reliability.measurement import CalibrationSource


@dataclass(frozen=True)
class Train:
    """Train a detector on one or several data sets."""

    recipe: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RECIPE")]
    """Name of a shipped recipe (dice), or a .toml file; its [train] section configures."""
    data: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="DATA [DATA ...]")]
    """Labelled data sets: rendered, translated, or captures; of data with several parts only train is trained
    on, unless --split names others."""
    out: Path
    """Run folder."""
    map: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[REAL=SIM ...]")] = ()
    """For categories whose names differ from those of --from, or else of the first data set."""
    ignore_unmatched: bool = False
    """Leave out objects of categories that these do not have."""
    mix: tuple[float, ...] = ()
    """Share of each data set in the mix; all alike without it."""
    initial_mix: tuple[float, ...] = ()
    """Share of each at the first step, where it is another; a data set of share 0 in --mix only begins."""
    mix_steps: int | None = None
    """Steps in which --initial-mix turns into --mix, evenly."""
    steps: int | None = None
    """Training steps, instead of the recipe's."""
    seed: int | None = None
    """Instead of the recipe's."""
    limit: int | None = None
    """Read only so many samples of each data set."""
    initial_weights: Annotated[Path | None, tyro.conf.arg(name="from", metavar="WEIGHTS")] = None
    """Begin with these weights, a file or the name of some that ship, as the recipe's [train.fine_tuning]
    says: for few labelled captures, or what pseudo-label writes."""
    captures: Path | None = None
    """Captures whose labels are not read, to which the recipe's [train.adapt] brings the detector."""
    backgrounds: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="IMAGES [IMAGES ...]")] = ()
    """Pictures of anything but what is learned: photos of where it will be used, or renders of other recipes.
    Half of the time objects are cut out and laid before them, and pieces of them before objects."""
    validation: Path | None = None
    """Labelled captures that choose the magnification of images and the margin of boxes, and tell how
    far confidences are to be trusted; with patience in the recipe's [train], also when training ends.
    They are not trained on, and must not be among the data."""
    held_out: float = 0.05
    """Share of the scenes that is not trained on, where fewer than 19 pictures are given as --validation: they
    tell how far confidences are to be trusted and which pictures are unlike. None where that is fewer
    than 19."""
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    tensorboard: bool = False
    """Write the curves for TensorBoard too, into the run folder."""
    workers: int = os.cpu_count() or 1
    """Threads, of all processes on this machine together; beside a GPU, processes that make its batches."""
    folder: FolderOptions = field(default_factory=FolderOptions)
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Train."""
        from sim2cam.learn.tensorboard import TensorBoardLogger
        from sim2cam.learn.weight_file import load_card
        from sim2cam.models.card import card_from_json
        from sim2cam.models.network.torchvision_models import check_operators
        from sim2cam.models.reliability.measurement import measure_reliability
        from sim2cam.models.training.setup import AuxiliaryData
        from sim2cam.models.training.training import WEIGHTS, train_detector
        from sim2cam.models.training.tuning import tune_weights
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.verifiers import resolve_weights

        if self.mix and len(self.mix) != len(self.data):
            raise UsageError(
                f"--mix has {len(self.mix)} numbers for {len(self.data)} data sets; give one each."
            )
        if (
            self.initial_weights is not None
            and self.initial_weights.resolve().parent == self.out.resolve()
        ):
            raise UsageError(
                f"--from {self.initial_weights}: lies in --out, where it would be replaced. Choose another."
            )
        if not 0 <= self.held_out < 1:
            raise UsageError(f"--held-out must be 0 or more and below 1, not {self.held_out}")
        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)
        console = self.output.make_console()
        set_thread_budget(self.workers, console)
        changes = drop_unset(
            steps=self.steps,
            seed=self.seed,
            initial_mix=self.initial_mix or None,
            mix_steps=self.mix_steps,
        )
        config = replace(load_recipe(self.recipe).train, **changes)
        check_operators(config.architecture)
        start = None if self.initial_weights is None else resolve_weights(self.initial_weights)
        shares = self.mix or (1.0,) * len(self.data)
        sets, captures, backdrops, dev = self._read_inputs()
        before = None if start is None else card_from_json(start, load_card(start))
        sets, dev = self._match_categories(sets, dev, before)
        _warn_empty_categories(sets, console)
        learned, pictures, source = self._select_reliability_images(sets, dev)
        parts = tuple(zip(learned, shares, strict=True))
        if before is not None and before.box_expansion and dev is None:
            console.info(
                f"boxes of --from are widened by {before.box_expansion:.1%} of a side on each side, as people drew them. "
                "Those that are learned now are not: name labelled captures with --validation to measure it anew."
            )
        with lock_run_folder(self.out, self.folder):
            board = TensorBoardLogger(self.out) if self.tensorboard else None
            train_detector(
                parts,
                config,
                self.out,
                auxiliary_data=AuxiliaryData(start, captures, backdrops, dev),
                resume=self.folder.resume,
                device=self.device,
                progress=make_step_callback(console, "detector", board),
            )
            if not is_main_process():
                return
            weights = self.out / WEIGHTS
            if dev is not None:
                tune_weights(weights, dev, device=self.device)
            if pictures is not None:
                measure_reliability(weights, parts, config, pictures, source, device=self.device)
        self.output.report(f"weights: {self.out / WEIGHTS}", weights=str(self.out / WEIGHTS))

    def _read_inputs(self) -> tuple[list[Dataset], Dataset | None, Dataset | None, Dataset | None]:
        """Return labelled data, unlabelled captures, background images and development captures."""
        from sim2cam.data.checks.duplicates import check_disjoint
        from sim2cam.data.parts import DEV, STYLE, TRAIN
        from sim2cam.data.real_images import check_no_pseudo_labels, read_real_images
        from sim2cam.data.set_operations import merge_datasets

        read = partial(read_real_images, skip_invalid=self.skip_invalid)
        data = [read(path, split=self.split, roles=TRAIN).take(self.limit) for path in self.data]
        captures = None if self.captures is None else read(self.captures, roles=STYLE)
        backdrops = [read(path, roles=STYLE) for path in self.backgrounds]
        dev = None if self.validation is None else read(self.validation, roles=DEV)
        if dev is not None and self.validation is not None:
            check_no_pseudo_labels(dev, self.validation)
            check_disjoint((sample for one in data for sample in one.samples), dev)
        return data, captures, merge_datasets(backdrops) if backdrops else None, dev

    def _match_categories(
        self,
        datasets: list[Dataset],
        validation_set: Dataset | None,
        initial_card: DetectorCard | None,
    ) -> tuple[list[Dataset], Dataset | None]:
        """Return what is trained on and the development captures with the categories that are learned, those
        of weights before where there are any, so that what cannot be scored is refused before the training.
        """
        from sim2cam.data.matching import LabelMapping
        from sim2cam.metrics.detection import count_objects

        known = datasets[0].categories if initial_card is None else initial_card.categories
        read = datasets if validation_set is None else (*datasets, validation_set)
        matchings = LabelMapping(
            known, parse_category_map(self.map), self.ignore_unmatched
        ).restrict_to(read)
        if self.map or self.ignore_unmatched:
            for matching, one in zip(matchings, datasets, strict=False):
                matching.check_complete(one)
            datasets = [
                matching.apply(one) for matching, one in zip(matchings, datasets, strict=False)
            ]
        if validation_set is not None:
            validation_set = matchings[-1].apply(validation_set)
            count_objects(validation_set)
        return datasets, validation_set

    def _select_reliability_images(
        self, datasets: Sequence[Dataset], validation_set: Dataset | None
    ) -> tuple[Sequence[Dataset], Dataset | None, CalibrationSource]:
        """Return what is trained on, the pictures that tell when to trust what comes of it, and what
        these are.
        """
        from sim2cam.data.set_operations import hold_out
        from sim2cam.models.reliability.ood import MIN_CALIBRATION_IMAGES

        if validation_set is not None and len(validation_set.samples) >= MIN_CALIBRATION_IMAGES:
            return datasets, validation_set, "validation images"
        kept, aside = hold_out(datasets, self.held_out)
        if len(aside.samples) >= MIN_CALIBRATION_IMAGES:
            return kept, aside, "held-out images"
        self.output.make_console().info(
            f"{self.held_out:g} of the scenes are {len(aside.samples)} pictures, fewer than "
            f"{MIN_CALIBRATION_IMAGES}: all are trained on. How far confidences are to be trusted, and which "
            "pictures are unlike those trained on, is not measured."
        )
        return datasets, None, "held-out images"


def _warn_empty_categories(datasets: Sequence[Dataset], console: Console) -> None:
    """Say which categories are learned without an object, as some tools list the names of groups of them."""
    shown = set[str]().union(*(one.collect_label_categories() for one in datasets))
    unshown = [name for name in datasets[0].categories if name not in shown]
    if unshown:
        console.info(
            f"warning: no object is of category {', '.join(unshown)}, which the detector will tell apart "
            "all the same. Take what is none off the data's list of categories."
        )
