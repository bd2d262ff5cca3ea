"""Page of a benchmark: scores, error types and example images."""

from __future__ import annotations

from pathlib import Path

from sim2cam.metrics.calibration import ConfidenceCalibration
from sim2cam.report.ablation import METRIC_TITLES
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import IntervalMark, build_interval_chart, build_line_chart
from sim2cam.report.examples import render_examples
from sim2cam.report.overlay import OUTCOME_COLOURS
from sim2cam.report.page import write_page
from sim2cam.report.values import BenchReport, Curves, Series


def write_bench_page(report: BenchReport, out: Path) -> Path:
    """Write a self-contained page and return its path."""
    score = report.score
    boxes = {title: getattr(score, metric) for metric, title in METRIC_TITLES.items()}
    ranges = [IntervalMark(name, ap.value, ap.ci95) for name, ap in score.category_ap50.items()]
    return write_page(
        out,
        "benchmark.html",
        report=report,
        scores=boxes | dict(report.extra_metrics),
        category_chart=build_interval_chart("AP50 per category", ranges),
        reliability=_plot_reliability(report.calibration) if report.calibration else None,
        best=render_examples(report.examples.best, report.examples.threshold),
        worst=render_examples(report.examples.worst, report.examples.threshold),
        outcome_colours=OUTCOME_COLOURS,
    )


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
        )
    )
