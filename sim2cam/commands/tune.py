"""Command ``tune``: calibration of a detector on labelled real images."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from sim2cam.commands.results import Result
from sim2cam.errors import InputError

if TYPE_CHECKING:
    from sim2cam.data.sample import Dataset
    from sim2cam.models.card import DetectorCard


@dataclass(frozen=True)
class TuneResult(Result):
    """Calibrated detector.

    Attributes:
        weights: Weights file.
        input_scale, box_expansion: Selected values.
        calibrated: Whether confidences were calibrated.
        images: Number of images.
    """

    weights: Path
    input_scale: float
    box_expansion: float
    calibrated: bool
    images: int


@dataclass(frozen=True)
class Tune:
    """Calibrate a detector on labelled real images.

    Trains nothing: selects the input scale and the box expansion and, with at least 19 images, calibrates confidences and
    OOD detection. Values that cannot be estimated are kept; network weights do not change.
    """

    weights: Annotated[Path, Argument("WEIGHTS")]
    """Detector: file or shipped name."""
    captures: Annotated[tuple[Path, ...], Argument("CAPTURES")]
    """Labelled images of the target camera, neither training nor test images. Several are merged."""
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
        captures = self._load_real_images(initial_card, category_map)
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
            console.info("too few detections: input scale and box expansion are unchanged.")
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
            f"box expansion {tuned_card.box_expansion:.1%} of the side (before {initial_card.box_expansion:.1%})"
        )
        calibrated = count >= MIN_CALIBRATION_IMAGES and card.score_calibration is not None
        return TuneResult(
            path, tuned_card.input_scale, tuned_card.box_expansion, calibrated, images=count
        )

    def _load_real_images(self, card: DetectorCard, category_map: dict[str, str]) -> Dataset:
        """Read and merge the images, with labels mapped to the detector's categories."""
        from sim2cam.data.label_mapping import LabelMapping
        from sim2cam.data.real_images import (
            check_images_readable,
            check_no_pseudo_labels,
            read_real_images,
        )
        from sim2cam.data.set_operations import merge_datasets
        from sim2cam.data.splits import DEV
        from sim2cam.metrics.detection import count_objects

        paths = dict.fromkeys(path.resolve() for path in self.captures)
        datasets = [
            read_real_images(path, skip_invalid=self.skip_invalid, split=self.split, roles=DEV)
            for path in paths
        ]
        for path, dataset in zip(paths, datasets, strict=True):
            check_no_pseudo_labels(dataset, path)
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
