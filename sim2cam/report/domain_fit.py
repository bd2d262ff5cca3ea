"""Page of a domain fit: ranges, domain gap and images before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.metrics.gaps import HeldOutGap, StageGap
from sim2cam.metrics.two_sample import TwoSampleDistance
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import IntervalMark, build_interval_chart, build_line_chart
from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page
from sim2cam.report.values import Curves, Rgb

IMAGE_PX = 240
DISTANCE_TITLES = {
    "auc": "classifier two-sample test, AUC",
    "mmd": "maximum mean discrepancy",
    "sliced_wasserstein": "sliced Wasserstein distance",
}


@dataclass(frozen=True)
class RangeView:
    """Range of a factor before and after the fit.

    Attributes:
        explained_variance: Share of the factor's variance that image statistics explain.
        estimated_bounds: Bounds estimated from real images; None if they cannot be estimated.
    """

    factor: str
    explained_variance: float
    before: tuple[float, float]
    after: tuple[float, float]
    estimated_bounds: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class FitReport:
    """Content of the page of a domain fit.

    Attributes:
        uncovered: Held-out real images that no render of the fitted domain covers.
    """

    name: str
    ranges: tuple[RangeView, ...]
    before: HeldOutGap
    after: HeldOutGap
    captures: tuple[Rgb, ...]
    uncovered: tuple[Rgb, ...]
    trials: Curves
    gap_stages: tuple[StageGap, ...]


def write_fit_page(report: FitReport, out: Path) -> Path:
    """Write a self-contained page and return its path."""
    sides = {"before": report.before, "after": report.after}
    rows = [("target images", report.captures), *((n, side.images) for n, side in sides.items())]
    return write_page(
        out,
        "domain_fit.html",
        report=report,
        distances=DISTANCE_TITLES,
        is_improved=_is_improved(
            report.before.gap.sliced_wasserstein, report.after.gap.sliced_wasserstein
        ),
        estimated=[(view, _plot_range(view)) for view in report.ranges if view.estimated_bounds],
        unestimated=[view for view in report.ranges if not view.estimated_bounds],
        trials=build_line_chart(report.trials),
        images=[(name, _encode_images(images)) for name, images in rows],
        uncovered=_encode_images(report.uncovered),
        gap_stages=_plot_gap_stages(report.gap_stages),
    )


def _is_improved(before: TwoSampleDistance, after: TwoSampleDistance) -> bool:
    return after.ci95[1] < before.ci95[0]


def _plot_range(range_view: RangeView) -> Chart:
    ends = {
        "before": range_view.before,
        "target images": range_view.estimated_bounds,
        "after": range_view.after,
    }
    rows = [
        IntervalMark(name, (bounds[0] + bounds[1]) / 2, bounds, colour=colour)
        for colour, (name, bounds) in enumerate(ends.items())
        if bounds is not None
    ]
    return build_interval_chart(range_view.factor, rows)


def _plot_gap_stages(stages: Sequence[StageGap]) -> list[Chart]:
    if not stages:
        return []
    charts = {
        DISTANCE_TITLES[name]: {s.stage: getattr(s.gap, name) for s in stages}
        for name in ("auc", "sliced_wasserstein")
    }
    for aspect in stages[0].aspects:
        charts[f"sliced Wasserstein distance of {aspect}"] = {
            s.stage: s.aspects[aspect] for s in stages
        }
    for feature in dict.fromkeys(name for stage in stages for name in stage.isp_gaps):
        charts[f"AUC by {feature} alone"] = {
            s.stage: s.isp_gaps[feature] for s in stages if feature in s.isp_gaps
        }
    return [
        build_interval_chart(
            title, [IntervalMark(name, gap.value, gap.ci95) for name, gap in rows.items()]
        )
        for title, rows in charts.items()
    ]


def _encode_images(images: Sequence[Rgb]) -> list[str]:
    return [encode_data_uri(encode_thumbnail(rgb, IMAGE_PX)) for rgb in images]
