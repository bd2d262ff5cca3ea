"""Page of a comparison of two runs: verdict, differences, parts of the objects, and example images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sim2cam.metrics.power import SIGNIFICANCE
from sim2cam.metrics.precision_recall import floor_threshold
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import GREY_COLOUR, IntervalMark, build_interval_chart
from sim2cam.report.gallery import OUTCOME_COLOURS, build_gallery_pairs
from sim2cam.report.page import write_page
from sim2cam.report.values import ComparisonReport, DifferenceRow


def write_comparison_page(report: ComparisonReport, out: Path) -> Path:
    """Write a self-contained page and return its path."""
    examples = report.examples
    return write_page(
        out,
        "comparison.html",
        report=report,
        charts=[
            _plot_rows(f"Differences of {kind}", rows) for kind, rows in report.metrics.items()
        ],
        slice_charts=[
            _plot_rows(f"Differences of AP50 by {attribute}", rows)
            for attribute, rows in report.slices.items()
        ],
        pairs=build_gallery_pairs(examples) if examples else (),
        confidences=[floor_threshold(t) for t in examples.thresholds] if examples else (),
        outcome_colours=OUTCOME_COLOURS,
        significance=SIGNIFICANCE,
    )


def _plot_rows(title: str, rows: Sequence[DifferenceRow]) -> Chart:
    """Plot differences; those whose interval includes zero are grey."""
    return build_interval_chart(
        title,
        [
            IntervalMark(
                row.name,
                row.difference.value,
                row.difference.ci95,
                colour=GREY_COLOUR if _includes_zero(row.difference.ci95) else 0,
            )
            for row in rows
        ],
        is_signed=True,
    )


def _includes_zero(ci95: tuple[float, float]) -> bool:
    return not (ci95[0] > 0 or ci95[1] < 0)
