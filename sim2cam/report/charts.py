"""Layout of charts that ``templates/charts.html`` draws as SVG.

Lengths are in units of the SVG view box, y down. The template escapes all text.
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
COLOUR_COUNT = 8  # series colours in page.css

_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 12.0, 12.0, 38.0
_PLOT_HEIGHT = 180.0
_INTERVAL_ROW_HEIGHT, _BAR_ROW_HEIGHT = 40.0, 24.0
_BAR_LEFT, _BAR_RIGHT = 110.0, 60.0
_DOT_MARGIN = 10.0
_EPSILON = 1e-6  # relative difference of values that count as equal


@dataclass(frozen=True)
class Tick:
    """Tick of an axis."""

    position: float
    text: str


@dataclass(frozen=True)
class PlotArea:
    """Rectangle of the plotted values, with ticks and labels of its axes."""

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
    """Line of a chart: SVG path, and last value as text."""

    label: str
    path: str
    last_value: str
    colour: int


@dataclass(frozen=True)
class LineChart:
    """Line chart."""

    title: str
    plot_area: PlotArea
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class IntervalMark:
    """Value with its interval, before layout.

    Attributes:
        value: Mean, drawn as a large dot; None if it was not run.
        runs: Values of single runs, drawn as rings.
    """

    label: str
    value: float | None
    ci95: tuple[float, float] = (math.nan, math.nan)
    runs: tuple[float, ...] = ()
    colour: int = 0


@dataclass(frozen=True)
class IntervalRow:
    """Layout of a value with its interval: x of mean, interval ends and single runs."""

    label: str
    text: str
    y: float
    colour: int
    x: float | None = None
    interval_x: tuple[float, float] | None = None
    runs_x: tuple[float, ...] = ()


@dataclass(frozen=True)
class IntervalChart:
    """Rows of values with intervals; ``zero_x`` is the x of the zero line, if any."""

    title: str
    plot_area: PlotArea
    rows: tuple[IntervalRow, ...]
    zero_x: float | None


@dataclass(frozen=True)
class CurvePoint:
    """Layout of a point and of the ends of its interval, if any."""

    text: str
    x: float
    y: float
    interval_y: tuple[float, float] | None


@dataclass(frozen=True)
class CurveChart:
    """Curve with intervals over a logarithmic x axis, and horizontal reference lines.

    References off the scale have an empty path.
    """

    title: str
    plot_area: PlotArea
    path: str
    points: tuple[CurvePoint, ...]
    references: tuple[Line, ...]


@dataclass(frozen=True)
class Bar:
    """Bar of a bar chart."""

    label: str
    text: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class BarChart:
    """Horizontal or vertical bar chart.

    Attributes:
        expected_path: SVG path of the expected counts of vertical bars; empty if unknown.
    """

    title: str
    plot_area: PlotArea
    bars: tuple[Bar, ...]
    expected_path: str = ""


@dataclass(frozen=True)
class Axis:
    """Axis with ticks at round numbers."""

    tick_values: tuple[float, ...]

    def place(self, value: float, start: float, end: float) -> float:
        """Map a value to a position between ``start`` (first tick) and ``end`` (last tick)."""
        low, high = self.tick_values[0], self.tick_values[-1]
        return start + (value - low) / (high - low) * (end - start)

    def make_ticks(self, start: float, end: float) -> tuple[Tick, ...]:
        """Return the ticks with their positions."""
        return tuple(Tick(self.place(m, start, end), f"{m:.10g}") for m in self.tick_values)


def build_axis(low: float, high: float, intervals: int = 5) -> Axis:
    """Build an axis with about ``intervals`` steps of 1, 2 or 5 times a power of ten."""
    largest = max(abs(low), abs(high))
    if largest < _EPSILON:
        low, high = 0.0, 1.0
    elif high - low < _EPSILON * largest:
        low, high = low - largest / 2, high + largest / 2
    min_step = (high - low) / intervals
    power = 10.0 ** math.floor(math.log10(min_step))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= min_step * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return Axis(tuple(float(f"{k * step:.10g}") for k in range(first, last + 1)))


def build_line_chart(curves: Curves) -> LineChart | None:
    """Build a line chart; None if there are no finite points."""
    all_series = [(s.label, _keep_finite(s.steps, s.values)) for s in curves.series]
    series = [(label, points) for label, points in all_series if len(points)]
    if not series:
        return None
    all_points = np.concatenate([points for _, points in series])
    x_axis = build_axis(min(0.0, float(all_points[:, 0].min())), float(all_points[:, 0].max()))
    y_axis = build_axis(min(0.0, float(all_points[:, 1].min())), float(all_points[:, 1].max()), 4)
    frame = _build_plot_area(x_axis, y_axis, x_label=curves.x_label, y_label=curves.y_label)
    lines = []
    for colour, (label, points) in enumerate(series):
        positions = (
            f"{x_axis.place(x, frame.left, frame.right):.1f} "
            f"{y_axis.place(y, frame.bottom, frame.top):.1f}"
            for x, y in points
        )
        last = f"{points[-1, 1]:.3g}"
        lines.append(Line(label, f"M{'L'.join(positions)}", last, colour % COLOUR_COUNT))
    return LineChart(curves.title, frame, tuple(lines))


def build_interval_chart(
    title: str, marks: Sequence[IntervalMark], *, is_signed: bool = False
) -> IntervalChart:
    """Build a chart of values with intervals.

    Args:
        is_signed: Include zero in the axis and show signs, for differences.
    """
    values = [v for m in marks if m.value is not None for v in (m.value, *m.ci95, *m.runs)]
    finite = [v for v in values if math.isfinite(v)] + ([0.0] if is_signed else [])
    axis = build_axis(min(finite, default=0.0), max(finite, default=1.0))
    left, right = _DOT_MARGIN, WIDTH - _DOT_MARGIN
    bottom = _TOP + _INTERVAL_ROW_HEIGHT * len(marks)
    frame = PlotArea(
        left, _TOP, right, bottom, bottom + _BOTTOM / 2 + 4, x_ticks=axis.make_ticks(left, right)
    )
    sign = "+" if is_signed else ""
    rows = tuple(
        _build_interval_row(r, _TOP + _INTERVAL_ROW_HEIGHT * (index + 0.72), axis, frame, sign)
        for index, r in enumerate(marks)
    )
    return IntervalChart(title, frame, rows, axis.place(0.0, left, right) if is_signed else None)


def build_curve_chart(
    title: str, points: Mapping[int, Estimate], references: Mapping[str, float], *, x_label: str
) -> CurveChart:
    """Build a curve over a logarithmic x axis.

    Args:
        points: Values by positive count in ascending order; at least one.
        references: Values of reference lines by label; those far off the scale are listed only.
    """
    values = [v for p in points.values() for v in (p.value, *p.ci95) if math.isfinite(v)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    on_scale = {n: v for n, v in references.items() if 2 * low - high <= v <= 2 * high - low}
    y_axis = build_axis(min([low, *on_scale.values()]), max([high, *on_scale.values()]), 4)
    first, last = min(points), max(points)
    x_axis = Axis((math.log(first), math.log(last) if last > first else math.log(first) + 1))
    frame = _build_plot_area(x_axis, y_axis, x_label=x_label, y_label=title)

    def place(value: float) -> float:
        return y_axis.place(value, frame.bottom, frame.top)

    x_positions = {n: x_axis.place(math.log(n), frame.left, frame.right) for n in points}
    marks = tuple(
        CurvePoint(
            f"{n}: {p.value:.3f} ({p.ci95[0]:.3f} to {p.ci95[1]:.3f})",
            x_positions[n],
            place(p.value),
            (place(p.ci95[0]), place(p.ci95[1])) if math.isfinite(sum(p.ci95)) else None,
        )
        for n, p in points.items()
        if math.isfinite(p.value)
    )
    path = "L".join(f"{mark.x:.1f} {mark.y:.1f}" for mark in marks)
    reference_lines = tuple(
        Line(
            label,
            f"M{frame.left:.1f} {place(value):.1f}H{frame.right:.1f}" if label in on_scale else "",
            f"{value:.3f}" if label in on_scale else f"{value:.3f}, off scale",
            1 + index % (COLOUR_COUNT - 1),
        )
        for index, (label, value) in enumerate(references.items())
        if math.isfinite(value)
    )
    ticks = tuple(Tick(x, f"{n}") for n, x in x_positions.items())
    return CurveChart(
        title, replace(frame, x_ticks=ticks), f"M{path}" if path else "", marks, reference_lines
    )


def build_bar_chart(
    title: str, counts: Mapping[str, int], expected: Sequence[float] | None = None
) -> BarChart:
    """Build a horizontal bar for each count, with the expected count in parentheses."""
    expected_texts = [f" ({number:.0f})" for number in expected] if expected else [""] * len(counts)
    largest = max([*counts.values(), 1])
    height = _BAR_ROW_HEIGHT * len(counts)
    frame = PlotArea(_BAR_LEFT, 0.0, WIDTH - _BAR_RIGHT, height, height)
    width = frame.right - frame.left
    rows = zip(counts.items(), expected_texts, strict=True)
    bars = tuple(
        Bar(label, f"{count}{text}", frame.left, _BAR_ROW_HEIGHT * index + 4,
            width * count / largest, _BAR_ROW_HEIGHT - 8)
        for index, ((label, count), text) in enumerate(rows)
    )  # fmt: skip
    return BarChart(title, frame, bars)


def build_binned_chart(
    title: str, edges: Sequence[float], counts: Sequence[int], expected: Sequence[float] | None
) -> BarChart:
    """Build vertical bars over given bins, with a line of the expected counts.

    Args:
        edges: Edges of the bins, one more than bins.
    """
    x_axis = Axis(tuple(edges))
    y_axis = build_axis(0.0, max([*counts, *(expected or ()), 1.0]), 4)
    frame = _build_plot_area(x_axis, y_axis, x_label="", y_label="samples")
    tick_values = [
        m for m in build_axis(edges[0], edges[-1], 6).tick_values if edges[0] <= m <= edges[-1]
    ]
    edge_positions = [x_axis.place(edge, frame.left, frame.right) for edge in edges]
    tops = [y_axis.place(float(count), frame.bottom, frame.top) for count in counts]
    levels = [y_axis.place(count, frame.bottom, frame.top) for count in expected or ()]
    bars = tuple(
        Bar(f"{edges[i]:.4g} to {edges[i + 1]:.4g}", f"{counts[i]}", edge_positions[i], top,
            edge_positions[i + 1] - edge_positions[i], frame.bottom - top)
        for i, top in enumerate(tops)
    )  # fmt: skip
    steps = (
        f"{edge_positions[i]:.1f} {y:.1f}H{edge_positions[i + 1]:.1f}" for i, y in enumerate(levels)
    )
    ticks = tuple(Tick(x_axis.place(m, frame.left, frame.right), f"{m:.10g}") for m in tick_values)
    line = f"M{'L'.join(steps)}" if levels else ""
    return BarChart(title, replace(frame, x_ticks=ticks), bars, line)


def build_histogram(
    title: str, values: Sequence[float], *, up_to: float, x_label: str, y_label: str = "objects"
) -> BarChart | None:
    """Build a histogram of about 24 bins at most; None without values.

    Bins of integers are at least 1 wide.
    """
    if not values:
        return None
    are_integers = all(float(value).is_integer() for value in values)
    x_axis = build_axis(0.0, up_to, min(24, max(1, math.ceil(up_to))) if are_integers else 24)
    counts, _ = np.histogram(values, x_axis.tick_values)
    y_axis = build_axis(0.0, float(counts.max()), 4)
    frame = _build_plot_area(x_axis, y_axis, x_label=x_label, y_label=y_label)
    ticks = frame.x_ticks
    frame = replace(frame, x_ticks=ticks[:: max(1, -(-len(ticks) // 8))])
    bars = []
    for index, count in enumerate(counts):
        left, right = ticks[index].position, ticks[index + 1].position
        top = y_axis.place(float(count), frame.bottom, frame.top)
        label = f"{ticks[index].text} to {ticks[index + 1].text}"
        bars.append(Bar(label, f"{count}", left, top, right - left, frame.bottom - top))
    return BarChart(title, frame, tuple(bars))


def _build_plot_area(x_axis: Axis, y_axis: Axis, *, x_label: str, y_label: str) -> PlotArea:
    right, bottom = WIDTH - _RIGHT, _TOP + _PLOT_HEIGHT
    return PlotArea(
        _LEFT, _TOP, right, bottom, bottom + _BOTTOM, x_axis.make_ticks(_LEFT, right),
        y_axis.make_ticks(bottom, _TOP), x_label, y_label,
    )  # fmt: skip


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
    has_interval = math.isfinite(low + high)
    interval = f" ({low:{sign}.3f} to {high:{sign}.3f})" if has_interval else ""
    return IntervalRow(
        mark.label, f"{mark.value:{sign}.3f}{interval}", y, colour, place(mark.value),
        (place(low), place(high)) if has_interval else None,
        tuple(place(dot) for dot in mark.runs if math.isfinite(dot)),
    )  # fmt: skip


def _keep_finite(steps: Sequence[float], values: Sequence[float]) -> NDArray[np.float64]:
    points = np.array([steps, values], np.float64).T.reshape(-1, 2)
    return points[np.isfinite(points).all(axis=1)]
