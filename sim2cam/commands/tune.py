"""The command that fits detectors to a camera whose captures somebody labelled."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from sim2cam.commands.options import (
    OutputOptions,
    Overwrite,
    SkipInvalid,
    Split,
    check_numbers,
    check_output_folder,
    parse_category_map,
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
    ignore_unmatched: bool = False
    """Leave out objects of categories that the detector does not know."""
    overwrite: Overwrite = False
    device: str = "cpu"
    """cpu, cuda or cuda:0."""
    workers: int = os.cpu_count() or 1
    """Threads."""
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def execute(self) -> None:
        """Tune, and writes the weights."""
        from sim2cam.experiments.reliability import find_training_overlap
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, save_detector
        from sim2cam.models.reliability.measurement import calibrate_detector
        from sim2cam.models.reliability.ood import MIN_CALIBRATION_IMAGES
        from sim2cam.models.training.training import WEIGHTS
        from sim2cam.models.training.tuning import INPUT_SCALE_FACTORS, tune_detector
        from sim2cam.pipeline.verifiers import resolve_weights

        check_numbers(workers=self.workers)
        renamed = parse_category_map(self.map)
        if not self.captures:
            raise UsageError("no captures are named. Name them right after the weights.")
        check_output_folder(self.out, overwrite=self.overwrite)
        use_threads(self.workers)
        detector = load_detector(resolve_weights(self.weights), device=self.device)
        before = detector.card
        captures = self._load_real_images(before, renamed)
        learned = find_training_overlap(captures, before)
        if learned is not None:
            raise InputError(
                captures.root,
                f"{self.weights} was trained on image {learned}, which so tells nothing of other pictures. "
                "Name captures that it has not learned from.",
            )
        console = self.output.make_console()
        count = len(captures.samples)
        console.info(f"pictures to be looked at, each at {len(INPUT_SCALE_FACTORS)} sizes: {count}")
        fitted = tune_detector(detector, captures)
        if fitted is detector:
            console.info(
                "too few objects are found: magnification and box margin are as they were."
            )
        if count >= MIN_CALIBRATION_IMAGES:
            fitted = calibrate_detector(fitted, captures, "validation images")
        else:
            console.info(
                f"{count} pictures are fewer than {MIN_CALIBRATION_IMAGES}: how far confidences are to be trusted, and which "
                "pictures are unlike, is as it was measured before."
            )
        card = fitted.card
        if card.score_calibration is None:
            console.info("too little is found to calibrate confidences: they are as they were.")
        if card.ood_threshold is None:
            console.info("which pictures are unlike is not known of these weights.")
        kept = replace(
            card,
            metrics={},  # of what it was before
            score_calibration=card.score_calibration or before.score_calibration,
            ood_threshold=card.ood_threshold or before.ood_threshold,
        )
        path = self.out / WEIGHTS
        save_detector(path, fitted.network.state_dict(), kept, fitted.feature_distribution)
        self.output.report(
            f"{path}: pictures are enlarged {kept.input_scale:.3g} times (before {before.input_scale:.3g}), "
            f"boxes widened by {kept.box_expansion:.1%} of a side on each side (before {before.box_expansion:.1%})",
            weights=str(path),
            input_scale=kept.input_scale,
            box_expansion=kept.box_expansion,
            calibrated=count >= MIN_CALIBRATION_IMAGES and card.score_calibration is not None,
            images=count,
        )

    def _load_real_images(self, card: DetectorCard, category_map: dict[str, str]) -> Dataset:
        """Return the captures with the detector's categories, as one data set."""
        from sim2cam.data.matching import LabelMapping
        from sim2cam.data.parts import DEV
        from sim2cam.data.real_images import (
            check_images_readable,
            check_no_pseudo_labels,
            read_real_images,
        )
        from sim2cam.data.set_operations import merge_datasets
        from sim2cam.metrics.detection import count_objects

        paths = dict.fromkeys(path.resolve() for path in self.captures)
        read = [
            read_real_images(path, skip_invalid=self.skip_invalid, split=self.split, roles=DEV)
            for path in paths
        ]
        for path, one in zip(paths, read, strict=True):
            check_no_pseudo_labels(one, path)
        how = LabelMapping(
            card.categories, category_map, self.ignore_unmatched, card.is_amodal
        ).restrict_to(read)
        matched = [matching.apply(one) for matching, one in zip(how, read, strict=True)]
        for one in matched:
            count_objects(one)
            check_images_readable(one)
        return merge_datasets(matched)
