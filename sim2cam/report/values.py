"""What pages are made from: plain values that the command line fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import ObjectLabel, Origin
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.calibration import ConfidenceCalibration
from sim2cam.metrics.detection import Detection, DetectionMetrics
from sim2cam.metrics.error_analysis import DEFAULT_SCORE_THRESHOLD, CategoryErrors
from sim2cam.metrics.slices import Slice

Rgb = NDArray[np.uint8]
"""(height, width, 3), 0 to 255."""


@dataclass(frozen=True)
class StageRow:
    """One stage of a run.

    Attributes:
        name: as a reader knows it.
        seconds: how long it took; None when it did not run.
        detail: what it made, in a few words.
    """

    name: str
    seconds: float | None
    detail: str = ""


@dataclass(frozen=True)
class ImageRow:
    """A render, its translation, and a capture to compare with; None where there is none."""

    sim: Rgb | None
    adapted: Rgb | None
    capture: Rgb | None


@dataclass(frozen=True)
class Series:
    """A line of a chart; points with a value that is not finite are left out."""

    label: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """Lines over the steps of one training, or another number; without any, the page says that it did not run."""

    title: str
    y_label: str
    series: tuple[Series, ...]
    x_label: str = "step"


@dataclass(frozen=True)
class ScoreRow:
    """How one detector did.

    Attributes:
        label: which detector, as ``trained in this run``.
        origin: how the scored images were made.
        score: None when it was not run.
        calibration: of its confidences; None when it was not run, or where they are not 0 to 1.
        uncalibrated: as it would be without the scaling of its card; None without one.
    """

    label: str
    origin: Origin
    score: DetectionMetrics | None
    calibration: ConfidenceCalibration | None = None
    uncalibrated: ConfidenceCalibration | None = None


@dataclass(frozen=True)
class Example:
    """A scored image with what is there and what was found.

    Attributes:
        name: of the image.
        rgb: the image.
        objects: what is there.
        detections: what was found, unsure ones too.
    """

    name: str
    rgb: Rgb
    objects: tuple[ObjectLabel, ...]
    detections: tuple[Detection, ...]


@dataclass(frozen=True)
class Examples:
    """Scored images: those with the fewest errors and those with the most, worst first.

    Detections count from a score of ``threshold`` on.
    """

    best: tuple[Example, ...] = ()
    worst: tuple[Example, ...] = ()
    threshold: float = DEFAULT_SCORE_THRESHOLD


@dataclass(frozen=True)
class RunReport:
    """Everything that the page of a run shows.

    Attributes:
        title: of the page.
        captures_origin: how the captures were made; the page calls them by this word.
        run_info: what ran, in order: command, renderer, seeds, versions.
        stages: in order.
        scores: a row a detector.
        image_rows: side by side.
        examples: of the first detector.
        curves: a chart a training.
        notes: what a reader has to know before believing the scores.
    """

    title: str
    captures_origin: Origin
    run_info: Mapping[str, str]
    stages: tuple[StageRow, ...]
    scores: tuple[ScoreRow, ...]
    image_rows: tuple[ImageRow, ...] = ()
    examples: Examples = field(default_factory=Examples)
    curves: tuple[Curves, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchReport:
    """Everything that the page of a benchmark shows.

    Attributes:
        title: what was scored.
        score: of its boxes.
        calibration: of its confidences; None where they are not 0 to 1.
        extra_metrics: what else was scored, by its name.
        category_errors: what became of the objects of each.
        slices: how objects fare that have something in common.
        examples: scored images.
        notes: what a reader has to know before believing the scores.
    """

    title: str
    score: DetectionMetrics
    calibration: ConfidenceCalibration | None
    extra_metrics: Mapping[str, Estimate]
    category_errors: tuple[CategoryErrors, ...]
    slices: tuple[Slice, ...]
    examples: Examples
    notes: tuple[str, ...] = ()
