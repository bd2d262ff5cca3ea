"""The command that fits detectors to a camera whose captures somebody labelled."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import (
    Overwrite,
    SkipInvalid,
    Split,
    Talk,
    category_pairs,
    check_empty,
    check_numbers,
)
from sim2cam.errors import InputError, UsageError

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.models.card import DetectorCard


@dataclass(frozen=True)
class Tune:
    """Fit a detector to labelled captures without training it.

    They choose how large it looks at pictures, measure how much looser than masks people draw boxes, and, from 19
    pictures on, tell how far confidences are to be trusted and which pictures are unlike. What they are too few to tell
    stays as it was, and so does the network.
    """

    weights: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="WEIGHTS")]
    """Detector, by its file or the name of one that ships."""
    captures: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="CAPTURES")]
    """Labelled captures of the camera that it will be used with: not trained on, and no test of it later. Several
    become one."""
    out: Path
    """Folder to write: weights.safetensors and its card."""
    map: Annotated[tuple[str, ...], tyro.conf.arg(metavar="[REAL=SIM ...]")] = ()
    """For categories whose names differ."""
    ignore: bool = False
    """Leave out objects of categories that the detector does not know."""
    overwrite: Overwrite = False
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Threads."""
    split: Split = None
    skip_invalid: SkipInvalid = False
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Tunes, and writes the weights."""
        from sim2cam.experiments.reliability import learned_of
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, save_detector
        from sim2cam.models.reliability.measurement import with_trust
        from sim2cam.models.reliability.ood import LEAST_PICTURES
        from sim2cam.models.training.training import WEIGHTS
        from sim2cam.models.training.tuning import MAGNIFICATIONS, tuned
        from sim2cam.pipeline.verifiers import weights_file

        check_numbers(workers=self.workers)
        renamed = category_pairs(self.map)
        if not self.captures:
            raise UsageError("no captures are named. Name them right after the weights.")
        check_empty(self.out, overwrite=self.overwrite)
        use_threads(self.workers)
        detector = load_detector(weights_file(self.weights), device=self.device)
        before = detector.card
        captures = self._matched(before, renamed)
        learned = learned_of(captures, before)
        if learned is not None:
            raise InputError(
                captures.root,
                f"{self.weights} was trained on image {learned}, which so tells nothing of other pictures. "
                "Name captures that it has not learned from.",
            )
        console = self.talk.console()
        count = len(captures.samples)
        console.say(f"pictures to be looked at, each at {len(MAGNIFICATIONS)} sizes: {count}")
        fitted = tuned(detector, captures)
        if fitted is detector:
            console.say("too few objects are found: magnification and box margin are as they were.")
        if count >= LEAST_PICTURES:
            fitted = with_trust(fitted, captures, "development captures")
        else:
            console.say(
                f"{count} pictures are fewer than {LEAST_PICTURES}: how far confidences are to be trusted, and which "
                "pictures are unlike, is as it was measured before."
            )
        card = fitted.card
        if card.scaling is None:
            console.say("too little is found to calibrate confidences: they are as they were.")
        if card.novelty is None:
            console.say("which pictures are unlike is not known of these weights.")
        kept = replace(
            card,
            metrics={},  # of what it was before
            scaling=card.scaling or before.scaling,
            novelty=card.novelty or before.novelty,
        )
        path = self.out / WEIGHTS
        save_detector(path, fitted.network.state_dict(), kept, fitted.familiar)
        self.talk.tell(
            f"{path}: pictures are enlarged {kept.magnification:.3g} times (before {before.magnification:.3g}), "
            f"boxes widened by {kept.box_margin:.1%} of a side on each side (before {before.box_margin:.1%})",
            weights=str(path),
            magnification=kept.magnification,
            box_margin=kept.box_margin,
            calibrated=count >= LEAST_PICTURES and card.scaling is not None,
            pictures=count,
        )

    def _matched(self, card: DetectorCard, renamed: dict[str, str]) -> Dataset:
        """Returns the captures with the detector's categories, as one data set."""
        from sim2cam.data.matching import Matching
        from sim2cam.data.parts import DEV
        from sim2cam.data.real_images import check_labels_are_true, check_readable, read_captures
        from sim2cam.data.set_operations import merge
        from sim2cam.metrics.detection import count_objects

        paths = dict.fromkeys(path.resolve() for path in self.captures)
        read = [
            read_captures(path, skip_invalid=self.skip_invalid, split=self.split, uses=DEV)
            for path in paths
        ]
        for path, one in zip(paths, read, strict=True):
            check_labels_are_true(one, path)
        how = Matching(card.categories, renamed, self.ignore, card.is_amodal).among(read)
        matched = [matching.of(one) for matching, one in zip(how, read, strict=True)]
        for one in matched:
            count_objects(one)
            check_readable(one)
        return merge(matched)
