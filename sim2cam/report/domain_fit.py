"""The page of a fitted domain: ranges, distances and pictures before and after, and the gap that is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim2cam.metrics.coverage import Coverage
from sim2cam.metrics.two_sample import Apartness, Gap
from sim2cam.report.charts import Range, RangeChart, line_chart, range_chart
from sim2cam.report.page import data_uri, shrunk_jpeg, write_page
from sim2cam.report.values import Curves, Rgb

PICTURE_PX = 240
MEASURES = {
    "auc": "told apart by a classifier, AUC",
    "kernel": "kernel distance",
    "sliced": "sliced Wasserstein distance",
}


@dataclass(frozen=True)
class ShownRange:
    """A range before and after.

    Attributes:
        factor: its path.
        share: of its variance that looks foretell.
        before, after: lower and upper end.
        shown: between which captures lie; None where they do not tell.
    """

    factor: str
    share: float
    before: tuple[float, float]
    after: tuple[float, float]
    shown: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class ShownSide:
    """Renders of one domain beside captures: how far apart, how well they cover them, how they look."""

    gap: Gap
    coverage: Coverage
    pictures: tuple[Rgb, ...]


@dataclass(frozen=True)
class ShownStep:
    """How far renders are from captures after one more step of the camera, also by single aspects and by
    what each step leaves in a picture.
    """

    name: str
    gap: Gap
    aspects: Mapping[str, Apartness]
    imprints: Mapping[str, Apartness]


@dataclass(frozen=True, eq=False)
class FitReport:
    """Everything that the page of a fit shows.

    Attributes:
        name: of the recipe.
        ranges: in the order of the domain.
        before, after: of captures that nothing was fitted to.
        captures: some of them.
        uncovered: those that no render of the fitted domain comes near.
        trials: over their numbers.
        ladder: of the fitted domain.
    """

    name: str
    ranges: tuple[ShownRange, ...]
    before: ShownSide
    after: ShownSide
    captures: tuple[Rgb, ...]
    uncovered: tuple[Rgb, ...]
    trials: Curves
    ladder: tuple[ShownStep, ...]


def write_fit_page(report: FitReport, out: Path) -> Path:
    """Writes a page and returns its path.

    Raises:
        OutputError: the file cannot be written.
    """
    sides = {"before": report.before, "after": report.after}
    rows = [("captures", report.captures), *((n, one.pictures) for n, one in sides.items())]
    return write_page(
        out,
        "fit.html",
        report=report,
        measures=MEASURES,
        better=_is_shown(report.before.gap.sliced, report.after.gap.sliced),
        told=[(one, _range_chart(one)) for one in report.ranges if one.shown],
        untold=[one for one in report.ranges if not one.shown],
        trials=line_chart(report.trials),
        pictures=[(name, _addresses(pictures)) for name, pictures in rows],
        uncovered=_addresses(report.uncovered),
        ladder=_ladder_charts(report.ladder),
    )


def _is_shown(before: Apartness, after: Apartness) -> bool:
    return after.ci95[1] < before.ci95[0]


def _range_chart(of: ShownRange) -> RangeChart:
    ends = {"before": of.before, "captures show": of.shown, "after": of.after}
    rows = [
        Range(name, (one[0] + one[1]) / 2, one, colour=colour)
        for colour, (name, one) in enumerate(ends.items())
        if one is not None
    ]
    return range_chart(of.factor, rows)


def _ladder_charts(steps: Sequence[ShownStep]) -> list[RangeChart]:
    if not steps:
        return []
    charts = {
        MEASURES[name]: {s.name: getattr(s.gap, name) for s in steps} for name in ("auc", "sliced")
    }
    for aspect in steps[0].aspects:
        charts[f"sliced distance of {aspect}"] = {s.name: s.aspects[aspect] for s in steps}
    for left in dict.fromkeys(name for step in steps for name in step.imprints):
        charts[f"AUC by {left} alone"] = {
            s.name: s.imprints[left] for s in steps if left in s.imprints
        }
    return [
        range_chart(title, [Range(name, one.value, one.ci95) for name, one in rows.items()])
        for title, rows in charts.items()
    ]


def _addresses(pictures: Sequence[Rgb]) -> list[str]:
    return [data_uri(shrunk_jpeg(rgb, PICTURE_PX)) for rgb in pictures]
