"""Page of a demo run: scores, images, training curves and stages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sim2cam.data.sample import Origin
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.detection import DetectionMetrics
from sim2cam.metrics.names import BOX_METRICS
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import IntervalMark, build_interval_chart, build_line_chart
from sim2cam.report.gallery import OUTCOME_COLOURS, build_gallery
from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page
from sim2cam.report.values import ImageRow, Rgb, RunReport, ScoreRow

IMAGE_PX = 640
ORIGIN_TITLES: dict[Origin, str] = {
    "sim": "rendered images",
    "adapted": "adapted images",
    "real": "real images",
    "stand-in": "stand-in images",
    "pseudo-labelled": "pseudo-labelled images",
}


@dataclass(frozen=True)
class PageImage:
    """Image on a page: URI and alternative text."""

    uri: str
    alt: str


def write_run_page(report: RunReport, out: Path) -> Path:
    """Write a self-contained page and return its path."""
    return write_page(
        out,
        "run.html",
        report=report,
        captures_title=ORIGIN_TITLES[report.captures_origin],
        origin_titles=ORIGIN_TITLES,
        metrics=BOX_METRICS,
        overall_chart=_plot_overall(report),
        category_chart=_plot_categories(report),
        image_rows=tuple(
            _build_image_row(row, report.captures_origin) for row in report.image_rows
        ),
        best=build_gallery(report.examples.best, report.examples.threshold),
        worst=build_gallery(report.examples.worst, report.examples.threshold),
        outcome_colours=OUTCOME_COLOURS,
        curves=tuple((curves, build_line_chart(curves)) for curves in report.curves),
        total_s=sum(stage.seconds or 0.0 for stage in report.stages),
    )


def _plot_overall(report: RunReport) -> Chart | None:
    if not report.scores:
        return None
    ranges = [
        _make_interval_mark(row.label, row.score.ap50 if row.score else None, colour)
        for colour, row in enumerate(report.scores)
    ]
    return build_interval_chart("AP50", ranges)


def _plot_categories(report: RunReport) -> Chart | None:
    """Plot AP50 per category and detector; None if nothing was scored."""
    scored: list[tuple[int, ScoreRow, DetectionMetrics]] = [
        (colour, row, row.score) for colour, row in enumerate(report.scores) if row.score
    ]
    names = dict.fromkeys(name for _, _, score in scored for name in score.category_ap50)
    ranges = [
        _make_interval_mark(
            name if len(scored) == 1 else f"{name}, {row.label}", score.category_ap50[name], c
        )
        for name in names
        for c, row, score in scored
        if name in score.category_ap50
    ]
    return build_interval_chart("AP50 per category", ranges) if ranges else None


def _make_interval_mark(label: str, estimate: Estimate | None, colour: int) -> IntervalMark:
    if estimate is None:
        return IntervalMark(label, None, colour=colour)
    return IntervalMark(label, estimate.value, estimate.ci95, colour=colour)


def _build_image_row(row: ImageRow, origin: Origin) -> tuple[PageImage | None, ...]:
    return (
        _build_image(row.sim, "render"),
        _build_image(row.adapted, "adapted render"),
        _build_image(row.capture, f"example of the {ORIGIN_TITLES[origin]}"),
    )


def _build_image(rgb: Rgb | None, alt: str) -> PageImage | None:
    return None if rgb is None else PageImage(encode_data_uri(encode_thumbnail(rgb, IMAGE_PX)), alt)
