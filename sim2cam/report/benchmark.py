"""Page of a benchmark: verdict, errors, scores, confidences and example images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.calibration import ConfidenceCalibration, ScoredDetections
from sim2cam.metrics.error_analysis import ERROR_KINDS, CategoryErrors, OutcomeKind
from sim2cam.metrics.precision_recall import PrecisionRecall, floor_threshold
from sim2cam.report.ablation import METRIC_TITLES
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import (
    MAX_HEAT_MAP_SIDE,
    IntervalMark,
    Mark,
    build_binned_chart,
    build_heat_map,
    build_interval_chart,
    build_line_chart,
)
from sim2cam.report.gallery import MIN_SCORE, OUTCOME_COLOURS, build_gallery
from sim2cam.report.page import write_page
from sim2cam.report.values import BenchReport, Curves, Series

_KIND_DESCRIPTIONS: dict[OutcomeKind, str] = {
    "confusion": "The box fits an object of another category (IoU of 0.5 or more).",
    "localisation": "The box is badly placed on an object of its category (IoU of 0.1 to 0.5).",
    "both": "The box is badly placed on an object of another category.",
    "duplicate": "The box fits an object that another detection has matched.",
    "background": "The box overlaps no object (IoU below 0.1).",
    "missed": "No detection fits the object, and no confusion or badly placed box explains it.",
}
_CURVE_POINTS = 200  # plotted points of a curve at most
_HISTOGRAM_BINS = 20


@dataclass(frozen=True)
class ErrorRow:
    """Errors of one kind: number at the threshold, AP50 lost, and number of images shown."""

    kind: OutcomeKind
    description: str
    count: int
    ap50_loss: float
    image_count: int


def write_bench_page(report: BenchReport, out: Path) -> Path:
    """Write a self-contained page and return its path."""
    score, threshold = report.score, report.examples.threshold
    boxes = {title: getattr(score, metric) for metric, title in METRIC_TITLES.items()}
    gallery = build_gallery((*report.examples.worst, *report.examples.best), threshold)
    shown = [{box.kind for box in image.boxes if box.is_shown} for image in gallery]
    charts = {
        "AP50 per category": score.category_ap50,
        **{f"AP50 by {attribute}": values for attribute, values in report.sliced_ap50.items()},
    }
    return write_page(
        out,
        "benchmark.html",
        report=report,
        scores=boxes | dict(report.extra_metrics),
        ap_charts=[_plot_estimates(title, estimates) for title, estimates in charts.items()],
        error_rows=[
            ErrorRow(
                kind,
                _KIND_DESCRIPTIONS[kind],
                _count_kind(report.category_errors, kind),
                report.ap_losses.losses[kind],
                sum(kind in kinds for kinds in shown),
            )
            for kind in ERROR_KINDS
        ],
        confusion_chart=_plot_confusions(report),
        confidence_charts=[
            chart
            for chart in (
                *_plot_curves(report.precision_recall),
                _plot_reliability(report.calibration) if report.calibration else None,
                _plot_confidences(report.detections),
            )
            if chart is not None
        ],
        gallery=gallery,
        outcome_colours=OUTCOME_COLOURS,
        confidence=floor_threshold(threshold),
    )


def _count_kind(categories: Sequence[CategoryErrors], kind: OutcomeKind) -> int:
    if kind == "confusion":
        return sum(sum(errors.confused_with.values()) for errors in categories)
    fields = {
        "localisation": "localisation_errors",
        "both": "both_errors",
        "duplicate": "duplicates",
        "background": "background_errors",
        "missed": "missed",
    }
    return sum(getattr(errors, fields[kind]) for errors in categories)


def _plot_estimates(title: str, estimates: Mapping[str, Estimate]) -> Chart:
    return build_interval_chart(
        title, [IntervalMark(name, ap.value, ap.ci95) for name, ap in estimates.items()]
    )


def _plot_confusions(report: BenchReport) -> Chart | None:
    """Plot the confusion matrix; None with too many categories."""
    names = [errors.name for errors in report.category_errors]
    if len(names) > MAX_HEAT_MAP_SIDE - 2:
        return None
    return build_heat_map(
        "Confusion matrix", [*names, "background"], [*names, "localisation", "missed"],
        report.confusions, x_label="detected", y_label="labelled",
    )  # fmt: skip


def _plot_curves(curve: PrecisionRecall) -> tuple[Chart | None, Chart | None]:
    """Plot precision over recall and F1 over confidence, with the best threshold marked."""
    best, rows = curve.best_index, _sample_rows(len(curve.thresholds))
    marks: list[Mark | None] = [None, None]
    if best is not None:
        threshold, f1 = curve.thresholds[best], curve.f1[best]
        label = f"best F1 {f1:.2f}, at confidence {floor_threshold(threshold):.2f}"
        marks = [Mark(label, curve.recall[best], curve.precision[best]), Mark(label, threshold, f1)]
    titles = "Precision and recall", "F1 and confidence"
    axes = ("precision", "recall"), ("F1", "confidence")
    values = (curve.recall, curve.precision), (curve.thresholds, curve.f1)
    first, second = (
        build_line_chart(
            Curves(
                title,
                y_label,
                (Series("all categories", tuple(x[rows]), tuple(y[rows])),),
                x_label,
                shows_last=False,
            ),
            mark,
        )
        for title, (y_label, x_label), (x, y), mark in zip(titles, axes, values, marks, strict=True)
    )
    return first, second


def _sample_rows(count: int) -> NDArray[np.int64]:
    """Return evenly spaced row indices, at most ``_CURVE_POINTS``."""
    rows = np.linspace(0, count - 1, min(count, _CURVE_POINTS))
    return np.asarray(np.unique(np.rint(rows)), np.int64)


def _plot_reliability(calibration: ConfidenceCalibration) -> Chart | None:
    """Plot precision over confidence.

    Reliability diagram: Niculescu-Mizil and Caruana 2005, "Predicting good probabilities with supervised
    learning".
    """
    confidences = tuple(bin_.confidence for bin_ in calibration.bins)
    precisions = tuple(bin_.precision for bin_ in calibration.bins)
    return build_line_chart(
        Curves(
            "Reliability diagram",
            "precision",
            (
                Series("detections", confidences, precisions),
                Series("perfect calibration", confidences, confidences),
            ),
            "confidence",
            shows_last=False,
        )
    )


def _plot_confidences(detections: ScoredDetections) -> Chart | None:
    """Plot histograms of the confidences of true and false positives; None without detections."""
    is_confident = detections.scores >= MIN_SCORE
    if not is_confident.any():
        return None
    edges = np.linspace(0, max(1.0, detections.scores.max()), _HISTOGRAM_BINS + 1)
    is_correct = detections.is_true_positive
    counts = {
        name: np.histogram(detections.scores[members & is_confident], edges)[0].tolist()
        for name, members in (("true positives", is_correct), ("false positives", ~is_correct))
    }
    return build_binned_chart(
        f"Confidence of detections from {MIN_SCORE:g}", edges.tolist(), counts,
        x_label="confidence", y_label="detections",
    )  # fmt: skip
