"""The command that trains detectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import Folder, SkipInvalid, Split, Talk, category_pairs, check_numbers
from sim2cam.commands.runs import given, run_folder, steps_told, take_threads
from sim2cam.errors import UsageError
from sim2cam.learn.launch import is_first

if TYPE_CHECKING:
    from sim2cam.commands.console import Console
    from sim2cam.data.sample import Dataset
    from sim2cam.models.card import DetectorCard
    from sim2cam.models.reliability.measurement import Source


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
    ignore: bool = False
    """Leave out objects of categories that these do not have."""
    weights: tuple[float, ...] = ()
    """Share of each data set in the mix; all alike without it."""
    first_weights: tuple[float, ...] = ()
    """Share of each at the first step, where it is another; a data set of weight 0 only begins."""
    mix_steps: int | None = None
    """Steps in which the first weights turn into the weights, evenly."""
    steps: int | None = None
    """Training steps, instead of the recipe's."""
    seed: int | None = None
    """Instead of the recipe's."""
    limit: int | None = None
    """Read only so many samples of each data set."""
    start: Annotated[Path | None, tyro.conf.arg(name="from", metavar="WEIGHTS")] = None
    """Begin with these weights, a file or the name of some that ship, as the recipe's [train.fine_tuning]
    says: for few labelled captures, or what label writes."""
    captures: Path | None = None
    """Captures whose labels are not read, to which the recipe's [train.adapt] brings the detector."""
    backdrops: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="PICTURES [PICTURES ...]")] = ()
    """Pictures of anything but what is learned: photos of where it will be used, or renders of other recipes.
    Half of the time objects are cut out and laid before them, and pieces of them before objects."""
    dev: Path | None = None
    """Labelled captures that choose the magnification of images and the margin of boxes, and tell how
    far confidences are to be trusted; with patience in the recipe's [train], also when training ends.
    They are not trained on, and must not be among the data."""
    held_out: float = 0.05
    """Share of the scenes that is not trained on, where fewer than 19 pictures are given as --dev: they
    tell how far confidences are to be trusted and which pictures are unlike. None where that is fewer
    than 19."""
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    tensorboard: bool = False
    """Write the curves for TensorBoard too, into the run folder."""
    workers: int = os.cpu_count() or 1
    """Threads, of all processes on this machine together; beside a GPU, processes that make its batches."""
    folder: Folder = field(default_factory=Folder)
    split: Split = None
    skip_invalid: SkipInvalid = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Trains."""
        from sim2cam.learn.tensorboard import Board
        from sim2cam.learn.weight_file import load_card
        from sim2cam.models.card import card_from_json
        from sim2cam.models.network.torchvision_models import check_operators
        from sim2cam.models.reliability.measurement import measure_trust
        from sim2cam.models.training.setup import Aids
        from sim2cam.models.training.training import WEIGHTS, train_detector
        from sim2cam.models.training.tuning import tune_weights
        from sim2cam.pipeline.recipe import load_recipe
        from sim2cam.pipeline.verifiers import weights_file

        if self.weights and len(self.weights) != len(self.data):
            raise UsageError(
                f"--weights has {len(self.weights)} numbers for {len(self.data)} data sets; give one each."
            )
        if self.start is not None and self.start.resolve().parent == self.out.resolve():
            raise UsageError(
                f"--from {self.start}: lies in --out, where it would be replaced. Choose another."
            )
        if not 0 <= self.held_out < 1:
            raise UsageError(f"--held-out must be 0 or more and below 1, not {self.held_out}")
        check_numbers(seed=self.seed or 0, workers=self.workers, limit=self.limit)
        console = self.talk.console()
        take_threads(self.workers, console)
        changes = given(
            steps=self.steps,
            seed=self.seed,
            first_weights=self.first_weights or None,
            mix_steps=self.mix_steps,
        )
        config = replace(load_recipe(self.recipe).train, **changes)
        check_operators(config.architecture)
        start = None if self.start is None else weights_file(self.start)
        shares = self.weights or (1.0,) * len(self.data)
        sets, captures, backdrops, dev = self._inputs()
        before = None if start is None else card_from_json(start, load_card(start))
        sets, dev = self._matched(sets, dev, before)
        _tell_unshown(sets, console)
        learned, pictures, source = self._trusted_pictures(sets, dev)
        parts = tuple(zip(learned, shares, strict=True))
        if before is not None and before.box_margin and dev is None:
            console.say(
                f"boxes of --from are widened by {before.box_margin:.1%} of a side on each side, as people drew them. "
                "Those that are learned now are not: name labelled captures with --dev to measure it anew."
            )
        with run_folder(self.out, self.folder):
            board = Board(self.out) if self.tensorboard else None
            train_detector(
                parts,
                config,
                self.out,
                aids=Aids(start, captures, backdrops, dev),
                resume=self.folder.resume,
                device=self.device,
                progress=steps_told(console, "detector", board),
            )
            if not is_first():
                return
            weights = self.out / WEIGHTS
            if dev is not None:
                tune_weights(weights, dev, device=self.device)
            if pictures is not None:
                measure_trust(weights, parts, config, pictures, source, device=self.device)
        self.talk.tell(f"weights: {self.out / WEIGHTS}", weights=str(self.out / WEIGHTS))

    def _inputs(self) -> tuple[list[Dataset], Dataset | None, Dataset | None, Dataset | None]:
        """Return labelled data, unlabelled captures, background images and development captures."""
        from sim2cam.data.checks.duplicates import check_apart
        from sim2cam.data.parts import DEV, LOOK, TRAIN
        from sim2cam.data.real_images import check_labels_are_true, read_captures
        from sim2cam.data.set_operations import merge

        read = partial(read_captures, skip_invalid=self.skip_invalid)
        data = [read(path, split=self.split, uses=TRAIN).take(self.limit) for path in self.data]
        captures = None if self.captures is None else read(self.captures, uses=LOOK)
        backdrops = [read(path, uses=LOOK) for path in self.backdrops]
        dev = None if self.dev is None else read(self.dev, uses=DEV)
        if dev is not None and self.dev is not None:
            check_labels_are_true(dev, self.dev)
            check_apart((sample for one in data for sample in one.samples), dev)
        return data, captures, merge(backdrops) if backdrops else None, dev

    def _matched(
        self, sets: list[Dataset], dev: Dataset | None, before: DetectorCard | None
    ) -> tuple[list[Dataset], Dataset | None]:
        """Returns what is trained on and the development captures with the categories that are learned, those
        of weights before where there are any, so that what cannot be scored is refused before the training.
        """
        from sim2cam.data.matching import Matching
        from sim2cam.metrics.detection import count_objects

        known = sets[0].categories if before is None else before.categories
        read = sets if dev is None else (*sets, dev)
        matchings = Matching(known, category_pairs(self.map), self.ignore).among(read)
        if self.map or self.ignore:
            for matching, one in zip(matchings, sets, strict=False):
                matching.check_complete(one)
            sets = [matching.of(one) for matching, one in zip(matchings, sets, strict=False)]
        if dev is not None:
            dev = matchings[-1].of(dev)
            count_objects(dev)
        return sets, dev

    def _trusted_pictures(
        self, sets: Sequence[Dataset], dev: Dataset | None
    ) -> tuple[Sequence[Dataset], Dataset | None, Source]:
        """Returns what is trained on, the pictures that tell when to trust what comes of it, and what
        these are.
        """
        from sim2cam.data.set_operations import set_aside
        from sim2cam.models.reliability.ood import LEAST_PICTURES

        if dev is not None and len(dev.samples) >= LEAST_PICTURES:
            return sets, dev, "development captures"
        kept, aside = set_aside(sets, self.held_out)
        if len(aside.samples) >= LEAST_PICTURES:
            return kept, aside, "held-out pictures"
        self.talk.console().say(
            f"{self.held_out:g} of the scenes are {len(aside.samples)} pictures, fewer than "
            f"{LEAST_PICTURES}: all are trained on. How far confidences are to be trusted, and which "
            "pictures are unlike those trained on, is not measured."
        )
        return sets, None, "held-out pictures"


def _tell_unshown(sets: Sequence[Dataset], console: Console) -> None:
    """Says which categories are learned without an object, as some tools list the names of groups of them."""
    shown = set[str]().union(*(one.shown_categories() for one in sets))
    unshown = [name for name in sets[0].categories if name not in shown]
    if unshown:
        console.say(
            f"warning: no object is of category {', '.join(unshown)}, which the detector will tell apart "
            "all the same. Take what is none off the data's list of categories."
        )
