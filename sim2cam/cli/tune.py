"""The command that fits detectors to a camera whose captures somebody labelled."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from sim2cam.cli.options import Talk, category_pairs, check_empty, check_numbers
from sim2cam.errors import InputError


@dataclass(frozen=True)
class Tune:
    """Fit a detector to labelled captures without training it.

    They choose how large it looks at pictures, measure how much looser than masks people draw boxes, and tell how far
    confidences are to be trusted and which pictures are unlike. Its network stays as it is.
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
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Threads."""
    talk: Talk = field(default_factory=Talk)

    def execute(self) -> None:
        """Tunes, and writes the weights."""
        from sim2cam.dataset.algebra import merge
        from sim2cam.dataset.captures import check_labels_are_true, check_readable, read_captures
        from sim2cam.models.novelty import LEAST_PICTURES
        from sim2cam.models.prediction import load_detector, save_detector
        from sim2cam.models.training import WEIGHTS
        from sim2cam.models.trust import with_trust
        from sim2cam.models.tuning import tuned
        from sim2cam.pipeline.bench import match_captures
        from sim2cam.pipeline.judges import weights_file
        from sim2cam.pipeline.trust import learned_of
        from sim2cam.training.device import use_threads

        check_numbers(workers=self.workers)
        check_empty(self.out)
        use_threads(self.workers)
        detector = load_detector(weights_file(self.weights), device=self.device)
        read = {path: read_captures(path) for path in self.captures}
        for path, one in read.items():
            check_labels_are_true(one, path)
        _, captures = match_captures(
            detector,
            merge(list(read.values())),
            renamed=category_pairs(self.map),
            ignore_unmatched=self.ignore,
        )
        check_readable(captures)
        learned = learned_of(captures, detector.card)
        if learned is not None:
            raise InputError(
                captures.root,
                f"{self.weights} was trained on image {learned}, which so tells nothing of other pictures. "
                "Name captures that it has not learned from.",
            )
        console = self.talk.console()
        console.say(f"looking at {len(captures.samples)} pictures at three sizes")
        fitted = tuned(detector, captures)
        if len(captures.samples) >= LEAST_PICTURES:
            fitted = with_trust(fitted, captures, "development captures")
        else:
            console.say(
                f"{len(captures.samples)} pictures are fewer than {LEAST_PICTURES}: how far confidences are to be trusted, "
                "and which pictures are unlike, is as it was."
            )
        card = replace(fitted.card, metrics={})  # of what it was before
        path = self.out / WEIGHTS
        save_detector(path, fitted.network.state_dict(), card, fitted.familiar)
        before = detector.card
        self.talk.tell(
            f"{path}: pictures are enlarged {card.magnification:.3g} times (before {before.magnification:.3g}), "
            f"boxes widened by {card.box_margin:.1%} of a side on each side (before {before.box_margin:.1%})",
            weights=str(path),
            magnification=card.magnification,
            box_margin=card.box_margin,
            pictures=len(captures.samples),
        )
