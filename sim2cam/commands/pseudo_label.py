"""Command ``pseudo-label``: pseudo-labels of real images."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from sim2cam.commands.options import (
    Argument,
    Device,
    OutputOptions,
    Overwrite,
    Split,
    Threads,
    check_inputs,
    check_numbers,
)
from sim2cam.commands.results import Result
from sim2cam.errors import UsageError


@dataclass(frozen=True)
class PseudoLabelResult(Result):
    """Pseudo-labelled images.

    Attributes:
        labels: COCO file.
        images: Number of images.
        confident, uncertain: Numbers of labels and of crowd regions.
    """

    labels: Path
    images: int
    confident: int
    uncertain: int

    def summary(self) -> str:
        """Return the file and the counts."""
        counts = f"{self.confident} labels, {self.uncertain} uncertain"
        return f"{self.labels}: {self.images} images, {counts}"


@dataclass(frozen=True)
class PseudoLabel:
    """Pseudo-label real images with a detector.

    For self-training or manual correction. Self-training: train --data RENDERS OUT/train.json --from WEIGHTS. Uncertain detections become crowd
    regions, which training ignores. Areas without labels are not used as negatives.
    """

    weights: Annotated[Path, Argument("WEIGHTS")]
    """Detector: file or shipped name."""
    captures: Annotated[Path, Argument("CAPTURES")]
    """Folder of photos, video, or dataset whose labels are ignored."""
    out: Path
    """Output folder: train.json (COCO) and the images."""
    min_score: float = 0.5
    """Minimum score of a pseudo-label, 0.1 to 1."""
    split: Split = None
    limit: int | None = None
    """Label at most this many images."""
    overwrite: Overwrite = False
    device: Device = "cpu"
    workers: Threads = os.cpu_count() or 1
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> PseudoLabelResult:
        """Predict and write the pseudo-labels."""
        check_numbers(workers=self.workers, limit=self.limit)
        check_inputs(self.captures, weights=self.weights)

        from sim2cam.data.formats.export import check_output_folder, export_dataset
        from sim2cam.data.real_images import check_images_readable, read_real_images
        from sim2cam.data.splits import STYLE
        from sim2cam.learn.device import use_threads
        from sim2cam.models.inference.detector import load_detector
        from sim2cam.models.shipped_weights import resolve_weights
        from sim2cam.models.training.pseudo_labels import MIN_IGNORE_SCORE, pseudo_label

        if not MIN_IGNORE_SCORE <= self.min_score <= 1:
            raise UsageError(f"--min-score must be {MIN_IGNORE_SCORE} to 1, not {self.min_score}")
        check_output_folder(self.out, overwrite=self.overwrite)
        use_threads(self.workers)
        detector = load_detector(resolve_weights(self.weights), device=self.device)
        if detector.card.score_calibration is None:
            self.output.make_console().info(
                f"warning: confidences of {self.weights} are not calibrated, so labels may be wrong. Tune it "
                "on at least 19 labelled images, train it with --held-out, or raise --min-score."
            )
        captures = read_real_images(
            self.captures.resolve(), skip_invalid=True, split=self.split, roles=STYLE
        ).take(self.limit)
        check_images_readable(captures)
        with self.output.make_console().show_progress("labelling") as stages:
            labelled = pseudo_label(
                detector, captures, min_score=self.min_score, progress=stages("labelling")
            )
        export_dataset({"train": labelled}, self.out, "coco", None, overwrite=self.overwrite)
        labels = [label for sample in labelled.samples for label in sample.objects or ()]
        uncertain = sum(label.is_crowd for label in labels)
        confident = len(labels) - uncertain
        if not confident:
            self.output.make_console().info(
                f"warning: {self.weights} detects no object with confidence, so these images cannot be "
                "trained on alone. Lower --min-score, or use other weights."
            )
        return PseudoLabelResult(
            self.out / "train.json", len(labelled.samples), confident, uncertain
        )
