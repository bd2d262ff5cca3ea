"""Values shown on pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import ObjectLabel, Origin
from sim2cam.metrics.ap_losses import ApLosses
from sim2cam.metrics.bootstrap import Estimate, PairedDifference
from sim2cam.metrics.calibration import ConfidenceCalibration, ScoredDetections
from sim2cam.metrics.detection import Detection, DetectionMetrics
from sim2cam.metrics.error_analysis import CategoryErrors
from sim2cam.metrics.power import SIGNIFICANCE
from sim2cam.metrics.precision_recall import DEFAULT_SCORE_THRESHOLD, PrecisionRecall
from sim2cam.metrics.slices import Slice
from sim2cam.metrics.verdict import Verdict

Rgb = NDArray[np.uint8]
"""RGB image (H, W, 3), 0 to 255."""


@dataclass(frozen=True)
class StageRow:
    """Stage of a run."""

    name: str
    seconds: float | None
    detail: str = ""


@dataclass(frozen=True)
class ImageRow:
    """Render, its translation and a real image; None if missing."""

    sim: Rgb | None
    adapted: Rgb | None
    capture: Rgb | None


@dataclass(frozen=True)
class Series:
    """Line of a chart; points with non-finite values are skipped."""

    label: str
    steps: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """Lines of one chart; without series, the page shows "not run".

    Attributes:
        shows_last: Whether the legend shows the last value of each line.
    """

    title: str
    y_label: str
    series: tuple[Series, ...]
    x_label: str = "step"
    shows_last: bool = True


@dataclass(frozen=True)
class ScoreRow:
    """Scores of a detector.

    Attributes:
        uncalibrated: Calibration without the score calibration of the card; None if it has none.
    """

    label: str
    origin: Origin
    score: DetectionMetrics | None
    calibration: ConfidenceCalibration | None = None
    uncalibrated: ConfidenceCalibration | None = None


@dataclass(frozen=True)
class Example:
    """Scored image."""

    name: str
    rgb: Rgb
    objects: tuple[ObjectLabel, ...]
    detections: tuple[Detection, ...]


@dataclass(frozen=True)
class Examples:
    """Scored images with the fewest and the most errors.

    Attributes:
        worst: Images with the most errors, worst first.
    """

    best: tuple[Example, ...] = ()
    worst: tuple[Example, ...] = ()
    threshold: float = DEFAULT_SCORE_THRESHOLD


@dataclass(frozen=True)
class ExamplePairs:
    """Images with the detections of two detectors.

    Attributes:
        names: Names of the detectors.
        thresholds: Score thresholds of the detectors.
        pairs: The same images with the detections of the first and of the second.
    """

    names: tuple[str, str]
    thresholds: tuple[float, float]
    pairs: tuple[tuple[Example, Example], ...]


@dataclass(frozen=True)
class RunReport:
    """Content of the page of a run.

    Attributes:
        notes: Facts about the run.
        pages: Other pages of the run: paths relative to this page, by title.
    """

    title: str
    verdict: Verdict
    captures_origin: Origin
    run_info: Mapping[str, str]
    stages: tuple[StageRow, ...]
    scores: tuple[ScoreRow, ...]
    image_rows: tuple[ImageRow, ...] = ()
    examples: Examples = field(default_factory=Examples)
    curves: tuple[Curves, ...] = ()
    notes: tuple[str, ...] = ()
    pages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class BenchReport:
    """Content of the page of a benchmark.

    Attributes:
        confusions: Confusion matrix (categories + 1, categories + 2), as of ``count_confusions``.
        sliced_ap50: AP50 by attribute and value.
    """

    title: str
    verdict: Verdict
    score: DetectionMetrics
    calibration: ConfidenceCalibration | None
    extra_metrics: Mapping[str, Estimate]
    ap_losses: ApLosses
    category_errors: tuple[CategoryErrors, ...]
    confusions: NDArray[np.int64]
    precision_recall: PrecisionRecall
    detections: ScoredDetections
    sliced_ap50: Mapping[str, Mapping[str, Estimate]]
    slices: tuple[Slice, ...]
    examples: Examples


@dataclass(frozen=True)
class DifferenceRow:
    """Difference of two runs by one metric or on one part of the objects.

    Attributes:
        difference: First minus second.
        p_holm: Corrected p-value; None without.
    """

    name: str
    first: Estimate
    second: Estimate
    difference: PairedDifference
    p_holm: float | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the corrected p-value shows a difference."""
        return self.p_holm is not None and self.p_holm < SIGNIFICANCE


@dataclass(frozen=True)
class ComparisonReport:
    """Content of the page of a comparison.

    Attributes:
        names: Names of the runs.
        metrics: Differences by metric, by kind of output.
        slices: Differences of AP50 by category, size and visible fraction, by attribute.
        examples: Images on which the runs differ most; None without detections.
    """

    names: tuple[str, str]
    verdict: Verdict
    metrics: Mapping[str, tuple[DifferenceRow, ...]]
    slices: Mapping[str, tuple[DifferenceRow, ...]]
    intervals_over: str
    examples: ExamplePairs | None
