"""The page of a run: what ran, what came of it, and how sure that is."""

from __future__ import annotations

from pathlib import Path

from sim2cam.data.sample import Origin
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.detection import DetectionScore
from sim2cam.metrics.names import BOX_METRICS
from sim2cam.report.charts import Range, RangeChart, line_chart, range_chart
from sim2cam.report.examples import Shown, show_examples
from sim2cam.report.overlay import KIND_COLOURS
from sim2cam.report.page import data_uri, shrunk_jpeg, write_page
from sim2cam.report.values import PictureRow, Rgb, RunReport, ScoreRow

PICTURE_PX = 640
CAPTURE_WORDS: dict[Origin, str] = {
    "sim": "rendered images",
    "adapted": "adapted images",
    "real": "real captures",
    "stand-in": "stand-in captures",
    "self-labelled": "captures that a detector labelled",
}


def write_report(report: RunReport, out: Path) -> Path:
    """Writes one page that holds everything it shows, and returns its path.

    Args:
        report: what it shows.
        out: the HTML file.

    Raises:
        OutputError: the file cannot be written.
    """
    return write_page(
        out,
        "report.html",
        report=report,
        captures=CAPTURE_WORDS[report.captures_origin],
        capture_words=CAPTURE_WORDS,
        metrics=BOX_METRICS,
        overall=_overall(report),
        by_category=_by_category(report),
        rows=tuple(_picture_row(row, report.captures_origin) for row in report.pictures),
        best=show_examples(report.examples.best, report.examples.threshold),
        worst=show_examples(report.examples.worst, report.examples.threshold),
        kinds=KIND_COLOURS,
        curves=tuple((curves, line_chart(curves)) for curves in report.curves),
        total_s=sum(stage.seconds or 0.0 for stage in report.stages),
    )


def _overall(report: RunReport) -> RangeChart | None:
    if not report.scores:
        return None
    ranges = [
        _range(row.label, row.score.ap50 if row.score else None, colour)
        for colour, row in enumerate(report.scores)
    ]
    return range_chart("AP50", ranges)


def _by_category(report: RunReport) -> RangeChart | None:
    """Returns AP50 of every category and detector; None when nothing was scored."""
    scored: list[tuple[int, ScoreRow, DetectionScore]] = [
        (colour, row, row.score) for colour, row in enumerate(report.scores) if row.score
    ]
    names = dict.fromkeys(name for _, _, score in scored for name in score.category_ap50)
    ranges = [
        _range(name if len(scored) == 1 else f"{name}, {row.label}", score.category_ap50[name], c)
        for name in names
        for c, row, score in scored
        if name in score.category_ap50
    ]
    return range_chart("AP50 of each category", ranges) if ranges else None


def _range(label: str, found: Estimate | None, colour: int) -> Range:
    if found is None:
        return Range(label, None, colour=colour)
    return Range(label, found.value, found.ci95, colour=colour)


def _picture_row(row: PictureRow, origin: Origin) -> tuple[Shown | None, ...]:
    return (
        _picture(row.sim, "a render"),
        _picture(row.adapted, "the same render, adapted"),
        _picture(row.capture, f"one of the {CAPTURE_WORDS[origin]}"),
    )


def _picture(rgb: Rgb | None, alt: str) -> Shown | None:
    return None if rgb is None else Shown(data_uri(shrunk_jpeg(rgb, PICTURE_PX)), alt)
