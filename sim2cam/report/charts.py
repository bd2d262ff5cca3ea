"""Charts: values laid out in a frame, which ``templates/charts.html`` draws as SVG.

Lengths are units of the SVG's view box, y down. Text comes along as it is; the template escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate
from sim2cam.report.page import format_number
from sim2cam.report.values import Curves

WIDTH = 440.0
COLOUR_COUNT = 8  # of series, in page.css; then they repeat

_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 12.0, 12.0, 38.0
_PLOT_HEIGHT = 180.0
_INTERVAL_ROW_HEIGHT, _BAR_ROW_HEIGHT = 40.0, 24.0
_BAR_LEFT, _BAR_RIGHT = 110.0, 60.0
_DOT_MARGIN = 10.0
_EPSILON = 1e-6  # below it, values are taken as equal


@dataclass(frozen=True)
class Tick:
    """A mark on an axis."""

    position: float
    text: str


@dataclass(frozen=True)
class PlotArea:
    """The rectangle that values are drawn in, and the marks on its axes."""

    left: float
    top: float
    right: float
    bottom: float
    height: float
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    x_label: str = ""
    y_label: str = ""
    width: float = WIDTH


@dataclass(frozen=True)
class Line:
    """A line of a line chart: an SVG path and its last value as text."""

    label: str
    path: str
    last_value: str
    colour: int


@dataclass(frozen=True)
class LineChart:
    """Lines over the steps of a training."""

    title: str
    plot_area: PlotArea
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class IntervalMark:
    """A value to be drawn with its interval.

    Attributes:
        label: what it is of.
        value: the large dot; None when it was not run.
        ci95: ends of the line.
        runs: single runs that the value is the mean of.
        colour: number of its series.
    """

    label: str
    value: float | None
    ci95: tuple[float, float] = (math.nan, math.nan)
    runs: tuple[float, ...] = ()
    colour: int = 0


@dataclass(frozen=True)
class IntervalRow:
    """A range in its place: x of the large dot, of the line's ends, and of the small dots."""

    label: str
    text: str
    y: float
    colour: int
    x: float | None = None
    interval_x: tuple[float, float] | None = None
    runs_x: tuple[float, ...] = ()


@dataclass(frozen=True)
class IntervalChart:
    """Values with intervals, one under another, and where zero is, if it is inside."""

    title: str
    plot_area: PlotArea
    rows: tuple[IntervalRow, ...]
    zero_x: float | None


@dataclass(frozen=True)
class CurvePoint:
    """A point in its place, and the y of its interval's ends; None without."""

    text: str
    x: float
    y: float
    interval_y: tuple[float, float] | None


@dataclass(frozen=True)
class CurveChart:
    """Points with intervals over a number's logarithm, the line through them, and levels that it is held against.

    Levels that are not drawn have no path.
    """

    title: str
    plot_area: PlotArea
    path: str
    points: tuple[CurvePoint, ...]
    references: tuple[Line, ...]


@dataclass(frozen=True)
class Bar:
    """A bar of a bar chart."""

    label: str
    text: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class BarChart:
    """Bars: lying beside their labels, or standing on an axis.

    Attributes:
        expected_path: SVG path of what standing bars are held against; empty without.
    """

    title: str
    plot_area: PlotArea
    bars: tuple[Bar, ...]
    expected_path: str = ""


@dataclass(frozen=True)
class Axis:
    """Round numbers that span values."""

    tick_values: tuple[float, ...]

    def place(self, value: float, start: float, end: float) -> float:
        """Return where a value lies between ``start``, of the first mark, and ``end``."""
        low, high = self.tick_values[0], self.tick_values[-1]
        return start + (value - low) / (high - low) * (end - start)

    def make_ticks(self, start: float, end: float) -> tuple[Tick, ...]:
        """Return the marks in their places."""
        return tuple(Tick(self.place(m, start, end), f"{m:.10g}") for m in self.tick_values)


def build_axis(low: float, high: float, intervals: int = 5) -> Axis:
    """Return an axis of multiples of 1, 2 or 5 times a power of ten, about ``intervals`` apart."""
    largest = max(abs(low), abs(high))
    if largest < _EPSILON:
        low, high = 0.0, 1.0
    elif high - low < _EPSILON * largest:
        low, high = low - largest / 2, high + largest / 2
    rough = (high - low) / intervals
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(tuple(float(f"{k * step:.10g}") for k in range(first, last + 1)))


def build_line_chart(curves: Curves) -> LineChart | None:
    """Return lines, as those of a training; None when there is no point to draw."""
    found = [(s.label, _keep_finite(s.steps, s.values)) for s in curves.series]
    lines = [(label, points) for label, points in found if len(points)]
    if not lines:
        return None
    every = np.concatenate([points for _, points in lines])
    x_axis = build_axis(min(0.0, float(every[:, 0].min())), float(every[:, 0].max()))
    y_axis = build_axis(min(0.0, float(every[:, 1].min())), float(every[:, 1].max()), 4)
    frame = _build_plot_area(x_axis, y_axis, x_label=curves.x_label, y_label=curves.y_label)
    drawn = []
    for colour, (label, points) in enumerate(lines):
        places = (
            f"{x_axis.place(x, frame.left, frame.right):.1f} "
            f"{y_axis.place(y, frame.bottom, frame.top):.1f}"
            for x, y in points
        )
        last = f"{points[-1, 1]:.3g}"
        drawn.append(Line(label, f"M{'L'.join(places)}", last, colour % COLOUR_COUNT))
    return LineChart(curves.title, frame, tuple(drawn))


def build_interval_chart(
    title: str, marks: Sequence[IntervalMark], *, is_signed: bool = False
) -> IntervalChart:
    """Return values with intervals.

    Args:
        title: of the chart.
        marks: from top to bottom.
        is_signed: for differences: the axis holds zero, and texts show a sign.
    """
    shown = [v for r in marks if r.value is not None for v in (r.value, *r.ci95, *r.runs)]
    finite = [v for v in shown if math.isfinite(v)] + ([0.0] if is_signed else [])
    axis = build_axis(min(finite, default=0.0), max(finite, default=1.0))
    left, right = _DOT_MARGIN, WIDTH - _DOT_MARGIN
    bottom = _TOP + _INTERVAL_ROW_HEIGHT * len(marks)
    frame = PlotArea(
        left, _TOP, right, bottom, bottom + _BOTTOM / 2 + 4, x_ticks=axis.make_ticks(left, right)
    )
    rows = tuple(
        _build_interval_row(
            r, _TOP + _INTERVAL_ROW_HEIGHT * (index + 0.72), axis, frame, "+" if is_signed else ""
        )
        for index, r in enumerate(marks)
    )
    return IntervalChart(title, frame, rows, axis.place(0.0, left, right) if is_signed else None)


def build_curve_chart(
    title: str, points: Mapping[int, Estimate], references: Mapping[str, float], *, x_label: str
) -> CurveChart:
    """Return values over the logarithm of a number.

    Args:
        title: of the chart.
        points: by the number, above 0, rising; at least one.
        references: to be held against, by what they are of; those far from all points are named alone.
        x_label: what is counted.
    """
    values = [v for p in points.values() for v in (p.value, *p.ci95) if math.isfinite(v)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    near = {n: v for n, v in references.items() if 2 * low - high <= v <= 2 * high - low}
    y_axis = build_axis(min([low, *near.values()]), max([high, *near.values()]), 4)
    first, last = min(points), max(points)
    x_axis = Axis((math.log(first), math.log(last) if last > first else math.log(first) + 1))
    frame = _build_plot_area(x_axis, y_axis, x_label=x_label, y_label=title)

    def place(value: float) -> float:
        return y_axis.place(value, frame.bottom, frame.top)

    across = {n: x_axis.place(math.log(n), frame.left, frame.right) for n in points}
    marks = tuple(
        CurvePoint(
            f"{n}: {p.value:.3f} ({p.ci95[0]:.3f} to {p.ci95[1]:.3f})",
            across[n],
            place(p.value),
            (place(p.ci95[0]), place(p.ci95[1])) if math.isfinite(sum(p.ci95)) else None,
        )
        for n, p in points.items()
        if math.isfinite(p.value)
    )
    path = "L".join(f"{mark.x:.1f} {mark.y:.1f}" for mark in marks)
    drawn = tuple(
        Line(
            label,
            f"M{frame.left:.1f} {place(value):.1f}H{frame.right:.1f}" if label in near else "",
            f"{value:.3f}" if label in near else f"{value:.3f}, off scale",
            1 + index % (COLOUR_COUNT - 1),
        )
        for index, (label, value) in enumerate(references.items())
        if math.isfinite(value)
    )
    ticks = tuple(Tick(x, f"{n}") for n, x in across.items())
    return CurveChart(
        title, replace(frame, x_ticks=ticks), f"M{path}" if path else "", marks, drawn
    )


def build_bar_chart(
    title: str, counts: Mapping[str, int], expected: Sequence[float] | None = None
) -> BarChart:
    """Return a lying bar for each count, with what it should be where that is asked."""
    expected_texts = [f" ({number:.0f})" for number in expected] if expected else [""] * len(counts)
    most = max([*counts.values(), 1])
    frame = PlotArea(
        _BAR_LEFT,
        0.0,
        WIDTH - _BAR_RIGHT,
        _BAR_ROW_HEIGHT * len(counts),
        _BAR_ROW_HEIGHT * len(counts),
    )
    bars = tuple(
        Bar(
            label,
            f"{count}{text}",
            frame.left,
            _BAR_ROW_HEIGHT * index + 4,
            (frame.right - frame.left) * count / most,
            _BAR_ROW_HEIGHT - 8,
        )
        for index, ((label, count), text) in enumerate(
            zip(counts.items(), expected_texts, strict=True)
        )
    )
    return BarChart(title, frame, bars)


def build_binned_chart(
    title: str, edges: Sequence[float], counts: Sequence[int], expected: Sequence[float] | None
) -> BarChart:
    """Return standing bars over given bins, and a line of what is asked where that is known.

    Args:
        title: of the chart.
        edges: of the bins, one more than there are.
        counts: in each bin.
        expected: number that is expected in each bin.
    """
    x_axis = Axis(tuple(edges))
    y_axis = build_axis(0.0, max([*counts, *(expected or ()), 1.0]), 4)
    frame = _build_plot_area(x_axis, y_axis, x_label="", y_label="samples")
    marks = [
        m for m in build_axis(edges[0], edges[-1], 6).tick_values if edges[0] <= m <= edges[-1]
    ]
    places = [x_axis.place(edge, frame.left, frame.right) for edge in edges]
    tops = [y_axis.place(float(count), frame.bottom, frame.top) for count in counts]
    levels = [y_axis.place(count, frame.bottom, frame.top) for count in expected or ()]
    bars = tuple(
        Bar(f"{edges[i]:.4g} to {edges[i + 1]:.4g}", f"{counts[i]}", places[i], top,
            places[i + 1] - places[i], frame.bottom - top)
        for i, top in enumerate(tops)
    )  # fmt: skip
    steps = (f"{places[i]:.1f} {y:.1f}H{places[i + 1]:.1f}" for i, y in enumerate(levels))
    ticks = tuple(Tick(x_axis.place(m, frame.left, frame.right), f"{m:.10g}") for m in marks)
    line = f"M{'L'.join(steps)}" if levels else ""
    return BarChart(title, replace(frame, x_ticks=ticks), bars, line)


def build_histogram(
    title: str, values: Sequence[float], *, up_to: float, x_label: str, y_label: str = "objects"
) -> BarChart | None:
    """Return standing bars over at most about 24 equal bins; None without values.

    Whole numbers are not parted: their bins are 1 wide or more.

    Args:
        title: of the chart.
        values: from 0.
        up_to: where the bins end, at least.
        x_label: what the values are.
        y_label: what is counted.
    """
    if not values:
        return None
    are_whole = all(float(value).is_integer() for value in values)
    x_axis = build_axis(0.0, up_to, min(24, max(1, math.ceil(up_to))) if are_whole else 24)
    counts, _ = np.histogram(values, x_axis.tick_values)
    y_axis = build_axis(0.0, float(counts.max()), 4)
    frame = _build_plot_area(x_axis, y_axis, x_label=x_label, y_label=y_label)
    every = frame.x_ticks
    frame = replace(frame, x_ticks=every[:: max(1, -(-len(every) // 8))])
    bars = []
    for index, count in enumerate(counts):
        left, right = every[index].position, every[index + 1].position
        top = y_axis.place(float(count), frame.bottom, frame.top)
        label = f"{every[index].text} to {every[index + 1].text}"
        bars.append(Bar(label, f"{count}", left, top, right - left, frame.bottom - top))
    return BarChart(title, frame, tuple(bars))


def _build_plot_area(x_axis: Axis, y_axis: Axis, *, x_label: str, y_label: str) -> PlotArea:
    right, bottom = WIDTH - _RIGHT, _TOP + _PLOT_HEIGHT
    return PlotArea(
        left=_LEFT,
        top=_TOP,
        right=right,
        bottom=bottom,
        height=bottom + _BOTTOM,
        x_ticks=x_axis.make_ticks(_LEFT, right),
        y_ticks=y_axis.make_ticks(bottom, _TOP),
        x_label=x_label,
        y_label=y_label,
    )


def _build_interval_row(
    mark: IntervalMark, y: float, axis: Axis, plot_area: PlotArea, sign: str
) -> IntervalRow:
    colour = mark.colour % COLOUR_COUNT
    if mark.value is None:
        return IntervalRow(mark.label, "not run", y, colour)
    if not math.isfinite(mark.value):
        return IntervalRow(mark.label, format_number(mark.value), y, colour)

    def place(value: float) -> float:
        return axis.place(value, plot_area.left, plot_area.right)

    low, high = mark.ci95
    known = math.isfinite(low + high)
    span = f" ({low:{sign}.3f} to {high:{sign}.3f})" if known else ""
    return IntervalRow(
        mark.label,
        f"{mark.value:{sign}.3f}{span}",
        y,
        colour,
        place(mark.value),
        (place(low), place(high)) if known else None,
        tuple(place(dot) for dot in mark.runs if math.isfinite(dot)),
    )


def _keep_finite(steps: Sequence[float], values: Sequence[float]) -> NDArray[np.float64]:
    points = np.array([steps, values], np.float64).T.reshape(-1, 2)
    return points[np.isfinite(points).all(axis=1)]
