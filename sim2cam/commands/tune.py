"""Command ``tune``: calibration of a detector on real images."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sim2cam.commands.options import (
    Argument,
    CategoryMap,
    Device,
    OutputOptions,
    Overwrite,
    Rare,
    SkipInvalid,
    Split,
    Threads,
    check_inputs,
    check_numbers,
    check_output_folder,
    parse_category_map,
)
from sim2cam.commands.results import Result, format_command
from sim2cam.errors import InputError, UsageError

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.models.card import DetectorCard
    from sim2cam.models.inference.detector import AnyDetector


@dataclass(frozen=True)
class TuneResult(Result):
    """Calibrated detector.

    Attributes:
        weights: Weights file.
        input_scale, box_padding: Selected values.
        calibrated: Whether confidences were calibrated.
        images: Number of images.
        trials: Input scales that were tried without labels, with the measures of each; empty with labels.
    """

    weights: Path
    input_scale: float
    box_padding: float
    calibrated: bool
    images: int
    trials: tuple[dict[str, Any], ...] = ()

    @property
    def next_step(self) -> str:
        """Command that scores the detector."""
        return format_command("bench", self.weights, "--captures", "REAL", "--out", "scores.json")


@dataclass(frozen=True)
class Tune:
    """Calibrate a detector on real images.

    Trains nothing: selects the input scale and the box padding and, with at least 19 images, calibrates confidences and
    OOD detection. Without labels, selects the input scale only. Values that cannot be estimated are kept; network weights
    do not change.
    """

    weights: Annotated[Path, Argument("WEIGHTS")]
    """Detector: file or shipped name."""
    captures: Annotated[tuple[Path, ...], Argument("CAPTURES")]
    """Images of the target camera, best labelled ones, neither training nor test images. Several are merged."""
    out: Path
    """Output folder: weights.safetensors and its card."""
    map: CategoryMap = ()
    ignore_unmatched: Rare[bool] = False
    """Ignore objects of categories that the detector does not have."""
    overwrite: Overwrite = False
    device: Device = "cpu"
    workers: Threads = os.cpu_count() or 1
    split: Split = None
    skip_invalid: SkipInvalid = False
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> TuneResult:
        """Calibrate the detector and write the weights."""
        check_numbers(workers=self.workers)
        check_inputs(*self.captures, weights=self.weights)

        from sim2cam.experiments.reliability import find_training_overlap
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector, save_detector
        from sim2cam.models.reliability.measurement import calibrate_detector
        from sim2cam.models.reliability.ood import MIN_CALIBRATION_IMAGES
        from sim2cam.models.shipped_weights import resolve_weights
        from sim2cam.models.training.training import WEIGHTS
        from sim2cam.models.training.tuning import INPUT_SCALE_FACTORS, tune_detector

        category_map = parse_category_map(self.map)
        check_output_folder(self.out, overwrite=self.overwrite)
        use_threads(self.workers)
        detector = load_detector(resolve_weights(self.weights), device=self.device)
        initial_card = detector.card
        datasets = self._read_images()
        if all(sample.objects is None for dataset in datasets for sample in dataset.samples):
            return self._tune_unlabelled(detector, datasets)
        captures = self._match_labels(datasets, initial_card, category_map)
        training_image = find_training_overlap(captures, initial_card)
        if training_image is not None:
            raise InputError(
                captures.root,
                f"{self.weights} was trained on image {training_image}, so results would be biased. "
                "Use images that are not training data.",
            )
        console = self.output.make_console()
        count = len(captures.samples)
        console.info(f"{count} images, each at {len(INPUT_SCALE_FACTORS)} input scales")
        tuned = tune_detector(detector, captures)
        if tuned is detector:
            console.info("too few detections: input scale and box padding are unchanged.")
        if count >= MIN_CALIBRATION_IMAGES:
            tuned = calibrate_detector(tuned, captures, "validation images")
        else:
            console.info(
                f"{count} images are fewer than {MIN_CALIBRATION_IMAGES}: the calibration of confidences "
                "and OOD detection is unchanged."
            )
        card = tuned.card
        if card.score_calibration is None:
            console.info("too few detections to calibrate confidences: they are unchanged.")
        if card.ood_threshold is None:
            console.info("these weights have no OOD detection.")
        tuned_card = replace(
            card,
            metrics={},  # scores of the initial detector
            score_calibration=card.score_calibration or initial_card.score_calibration,
            ood_threshold=card.ood_threshold or initial_card.ood_threshold,
        )
        path = self.out / WEIGHTS
        save_detector(path, tuned.network.state_dict(), tuned_card, tuned.feature_distribution)
        console.info(
            f"{path}: input scale {tuned_card.input_scale:.3g} (before {initial_card.input_scale:.3g}), "
            f"box padding {tuned_card.box_padding:.2%} of the image's longer side (before {initial_card.box_padding:.2%})"
        )
        calibrated = count >= MIN_CALIBRATION_IMAGES and card.score_calibration is not None
        return TuneResult(
            path, tuned_card.input_scale, tuned_card.box_padding, calibrated, images=count
        )

    def _tune_unlabelled(self, detector: AnyDetector, datasets: Sequence[Dataset]) -> TuneResult:
        """Select the input scale without labels and write the weights."""
        from sim2cam.data.set_operations import merge_datasets
        from sim2cam.models.inference.detector import save_detector
        from sim2cam.models.reliability.scale_selection import (
            MAX_IMAGES,
            MIN_OBJECTS,
            select_input_scale,
        )
        from sim2cam.models.training.training import WEIGHTS

        if self.map or self.ignore_unmatched:
            raise UsageError(
                "--map and --ignore-unmatched require labels, but the images have none."
            )
        console, card = self.output.make_console(), detector.card
        images = merge_datasets(datasets)
        console.info(
            "the images have no labels: the input scale is selected by the agreement of detections, and box "
            f"padding and confidences are unchanged. At most {MAX_IMAGES} images are used."
        )
        with console.show_progress("input scales") as stages:
            selection = select_input_scale(detector, images, progress=stages("input scales"))
        if selection.input_scale is None:
            console.info(
                f"fewer than {MIN_OBJECTS:.0f} objects are found at every input scale: it is unchanged. Give more "
                "images, or labelled ones."
            )
        input_scale = round(selection.input_scale or card.input_scale, 3)
        path = self.out / WEIGHTS
        tuned_card = replace(card, metrics={}, input_scale=input_scale)
        save_detector(
            path, detector.network.state_dict(), tuned_card, detector.feature_distribution
        )
        console.info(f"{path}: input scale {input_scale:.3g} (before {card.input_scale:.3g})")
        return TuneResult(
            path,
            input_scale,
            card.box_padding,
            calibrated=False,
            images=len(images.samples),
            trials=tuple(asdict(trial) for trial in selection.trials),
        )

    def _read_images(self) -> list[Dataset]:
        from sim2cam.data.real_images import check_no_pseudo_labels, read_real_images
        from sim2cam.data.splits import DEV

        paths = dict.fromkeys(path.resolve() for path in self.captures)
        datasets = [
            read_real_images(path, skip_invalid=self.skip_invalid, split=self.split, roles=DEV)
            for path in paths
        ]
        for path, dataset in zip(paths, datasets, strict=True):
            check_no_pseudo_labels(dataset, path)
        return datasets

    def _match_labels(
        self, datasets: Sequence[Dataset], card: DetectorCard, category_map: dict[str, str]
    ) -> Dataset:
        """Merge labelled images, with labels mapped to the detector's categories."""
        from sim2cam.data.label_mapping import LabelMapping
        from sim2cam.data.real_images import check_images_readable
        from sim2cam.data.set_operations import merge_datasets
        from sim2cam.metrics.detection import count_objects

        mappings = LabelMapping(
            card.categories, category_map, self.ignore_unmatched, card.is_amodal
        ).restrict_to(datasets)
        matched = [
            matching.apply(dataset) for matching, dataset in zip(mappings, datasets, strict=True)
        ]
        for dataset in matched:
            count_objects(dataset)
            check_images_readable(dataset)
        return merge_datasets(matched)
