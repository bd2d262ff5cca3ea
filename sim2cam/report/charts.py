"""Charts of pages, drawn by matplotlib as inline SVG."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate
from sim2cam.report.canvas import (
    COLOUR_COUNT,
    COLOURS,
    MUTED,
    RIGHT,
    STYLE,
    WIDTH_PX,
    Canvas,
    Chart,
    LegendEntry,
)
from sim2cam.report.page import format_number
from sim2cam.report.values import Curves

MAX_HEAT_MAP_SIDE = 24
"""Maximum number of rows and columns of a heat map."""

GREY_COLOUR = 7
"""Index of the colour of differences that are not significant."""

_PLOT_HEIGHT = 180.0
_INTERVAL_ROW_HEIGHT, _BAR_ROW_HEIGHT = 40.0, 24.0
_BAR_LEFT, _BAR_RIGHT, _BAR_LABEL_WIDTH = 110.0, 78.0, 15
_INTERVAL_LABEL_WIDTH, _STACKED_LABEL_WIDTH = 24, 44
_LINE_HEIGHT, _MARK_OFFSET = 16.0, 11.0  # of text, and of a mark above the end of its row
_MIN_CELL_PX, _HEAT_MAP_LABEL_WIDTH = 24.0, 12
_MAX_CELL_OPACITY = 0.55  # so that text is legible
_CHARACTER_PX = 7.0
_EPSILON = 1e-6  # relative difference of values that count as equal


@dataclass(frozen=True)
class IntervalMark:
    """Value with its interval.

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
class Mark:
    """Labelled point of a line chart."""

    label: str
    x: float
    y: float


def build_line_chart(curves: Curves, mark: Mark | None = None) -> Chart | None:
    """Build a line chart, with one point marked; None if there are no finite points."""
    all_series = [(s.label, _keep_finite(s.steps, s.values)) for s in curves.series]
    series = [(label, points) for label, points in all_series if len(points)]
    return _plot_lines(curves, series, mark) if series else None


@matplotlib.rc_context(STYLE)
def _plot_lines(
    curves: Curves, series: Sequence[tuple[str, NDArray[np.float64]]], mark: Mark | None
) -> Chart:
    canvas = Canvas(_PLOT_HEIGHT)
    canvas.set_labels(curves.x_label, curves.y_label)
    points = np.concatenate([points for _, points in series])
    _set_limits(canvas.axes, "x", min(0.0, points[:, 0].min()), points[:, 0].max())
    _set_limits(canvas.axes, "y", min(0.0, points[:, 1].min()), points[:, 1].max())
    legend = []
    for index, (label, (*_, last)) in enumerate(series):
        colour = index % COLOUR_COUNT
        canvas.axes.plot(*series[index][1].T, color=COLOURS[colour], clip_on=False)
        legend.append(LegendEntry(colour, label, f"{last[1]:.3g}" if curves.shows_last else ""))
    if mark is not None:
        canvas.axes.plot(mark.x, mark.y, "o", color=COLOURS[1], clip_on=False)
        legend.append(LegendEntry(1, mark.label))
    labels = ", ".join(f"{entry.label} {entry.value}" for entry in legend)
    return canvas.save(curves.title, f"{curves.y_label} over {curves.x_label}: {labels}", legend)


@matplotlib.rc_context(STYLE)
def build_interval_chart(
    title: str, marks: Sequence[IntervalMark], *, is_signed: bool = False
) -> Chart:
    """Build a chart of values with intervals, one below the other.

    Values stand beside the labels, or below them if a label is long.

    Args:
        is_signed: Include zero in the axis and show signs, for differences.
    """
    is_stacked = any(_measure_width(m.label) > _INTERVAL_LABEL_WIDTH for m in marks)
    row_height = _INTERVAL_ROW_HEIGHT + (_LINE_HEIGHT if is_stacked else 0)
    canvas = Canvas(row_height * len(marks), left=16, right=16, bottom=22)
    axes = canvas.axes
    values = [v for m in marks if m.value is not None for v in (m.value, *m.ci95, *m.runs)]
    finite = [v for v in values if math.isfinite(v)] + ([0.0] if is_signed else [])
    _set_limits(axes, "x", min(finite, default=0.0), max(finite, default=1.0))
    axes.set(ylim=(row_height * len(marks), 0), yticks=[])
    if is_signed:
        axes.axvline(0, color=MUTED, linewidth=1)
    texts = [_format_mark(mark, "+" if is_signed else "") for mark in marks]
    for row, (mark, text) in enumerate(zip(marks, texts, strict=True)):
        top, colour = row_height * row, COLOURS[mark.colour % COLOUR_COUNT]
        y = top + row_height - _MARK_OFFSET
        label = canvas.add(_shorten(mark.label, _STACKED_LABEL_WIDTH))
        axes.text(0, top + 17, label, transform=axes.get_yaxis_transform())
        axes.text(
            1, y - 12, canvas.add(text), ha="right", color=MUTED,
            transform=axes.get_yaxis_transform(),
        )  # fmt: skip
        if mark.value is not None and math.isfinite(mark.value):
            axes.plot(mark.ci95, (y, y), color=colour, linewidth=2.5, solid_capstyle="round")
            runs = [value for value in mark.runs if math.isfinite(value)]
            axes.plot(runs, [y] * len(runs), "o", markersize=6, mfc="none", color=colour)
            axes.plot(mark.value, y, "o", color=colour, clip_on=False)
    rows = zip(marks, texts, strict=True)
    return canvas.save(title, "; ".join(f"{mark.label}: {text}" for mark, text in rows))


@matplotlib.rc_context(STYLE)
def build_curve_chart(
    title: str,
    points: Mapping[int, Estimate],
    references: Mapping[str, float],
    *,
    x_label: str,
    trend: NDArray[np.float64] | None = None,
) -> Chart:
    """Build a curve with intervals over a logarithmic x axis, and horizontal reference lines.

    Args:
        points: Values by positive count in ascending order; at least one.
        references: Values of reference lines by label; those far off the scale are listed only.
        trend: Fitted curve (n, 2), ascending, that takes the place of lines between the points.
    """
    canvas = Canvas(_PLOT_HEIGHT)
    axes = canvas.axes
    canvas.set_labels(x_label, title)
    values = [v for p in points.values() for v in (p.value, *p.ci95) if math.isfinite(v)]
    if trend is not None:
        values += trend[:, 1].tolist()
    low, high = min(values, default=0.0), max(values, default=1.0)
    on_scale = {n: v for n, v in references.items() if 2 * low - high <= v <= 2 * high - low}
    _set_limits(axes, "y", min([low, *on_scale.values()]), max([high, *on_scale.values()]))
    last = max(points) if trend is None else trend[-1, 0]
    axes.set(xscale="log", xlim=(min(points) / 1.1, last * 1.1))
    axes.set_xticks(list(points), [f"{count}" for count in points])
    axes.set_xticks([], minor=True)
    counts = [count for count, p in points.items() if math.isfinite(p.value)]
    estimates = [points[count] for count in counts]
    line = "o-" if trend is None else "o"
    axes.plot(counts, [p.value for p in estimates], line, color=COLOURS[0], clip_on=False)
    if trend is not None:
        axes.plot(*trend.T, color=COLOURS[0])
    axes.vlines(counts, *np.array([p.ci95 for p in estimates]).reshape(-1, 2).T, color=COLOURS[0])
    legend = []
    for index, (label, value) in enumerate(references.items()):
        if math.isfinite(value):
            colour = 1 + index % (COLOUR_COUNT - 1)
            suffix = "" if label in on_scale else ", off scale"
            legend.append(LegendEntry(colour, label, f"{value:.3f}{suffix}"))
            if label in on_scale:
                axes.axhline(value, color=COLOURS[colour], linestyle=(0, (3, 2)))
    texts = (
        f"{count}: {p.value:.3f} ({p.ci95[0]:.3f} to {p.ci95[1]:.3f})"
        for count, p in zip(counts, estimates, strict=True)
    )
    return canvas.save(title, "; ".join(texts), legend)


@matplotlib.rc_context(STYLE)
def build_bar_chart(
    title: str, counts: Mapping[str, float], expected: Sequence[float] | None = None
) -> Chart | None:
    """Build a horizontal bar for each value, with the expected count in parentheses; None without values."""
    if not counts:
        return None
    suffixes = [f" ({number:.0f})" for number in expected] if expected else [""] * len(counts)
    texts = [f"{value:.3g}{s}" if isinstance(value, float) else f"{value}{s}"
             for value, s in zip(counts.values(), suffixes, strict=True)]  # fmt: skip
    canvas = Canvas(_BAR_ROW_HEIGHT * len(counts), left=_BAR_LEFT, right=_BAR_RIGHT, bottom=0)
    axes, rows = canvas.axes, range(len(counts))
    axes.set(xlim=(0, max([*counts.values(), _EPSILON])), ylim=(len(counts) - 0.5, -0.5), xticks=[])
    axes.set_yticks(rows, [canvas.add(_shorten(name, _BAR_LABEL_WIDTH)) for name in counts])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.barh(rows, list(counts.values()), height=0.66, color=COLOURS[0])
    for row, (value, text) in enumerate(zip(counts.values(), texts, strict=True)):
        axes.annotate(text, (value, row), (5, 0), textcoords="offset points", va="center_baseline")
    pairs = zip(counts, texts, strict=True)
    return canvas.save(title, "; ".join(f"{name}: {text}" for name, text in pairs))


@matplotlib.rc_context(STYLE)
def build_binned_chart(
    title: str,
    edges: Sequence[float],
    counts: Sequence[int] | Mapping[str, Sequence[int]],
    expected: Sequence[float] | None = None,
    *,
    x_label: str = "",
    y_label: str = "samples",
) -> Chart:
    """Build vertical bars over given bins, with a line of the expected counts.

    Args:
        edges: Edges of the bins, one more than bins.
        counts: Counts, or counts of several series by label, which are stacked.
    """
    stacks = counts if isinstance(counts, Mapping) else {"": counts}
    canvas = Canvas(_PLOT_HEIGHT)
    axes = canvas.axes
    canvas.set_labels(x_label, y_label)
    base = np.zeros(len(edges) - 1)
    for colour, values in zip(COLOURS, stacks.values(), strict=False):
        axes.stairs(base + values, edges, baseline=base, fill=True, color=colour)
        base += values
    if expected:
        axes.stairs(expected, edges, color=COLOURS[1], linewidth=1.8)
    axes.set_xlim(edges[0], edges[-1])
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
    _set_limits(axes, "y", 0.0, max([*base, *(expected or ()), 1.0]))
    texts = (
        f"{name} {edges[i]:.4g} to {edges[i + 1]:.4g}: {count}".strip()
        for name, values in stacks.items()
        for i, count in enumerate(values)
    )
    legend = [
        LegendEntry(i, name, f"{sum(v)}") for i, (name, v) in enumerate(stacks.items()) if name
    ]
    return canvas.save(title, "; ".join(texts), legend)


def build_histogram(
    title: str, values: Sequence[float], *, up_to: float, x_label: str, y_label: str = "objects"
) -> Chart | None:
    """Build a histogram of about 24 bins at most; None without values.

    Bins of integers are at least 1 wide.
    """
    if not values:
        return None
    are_integers = all(float(value).is_integer() for value in values)
    bins = min(24, max(1, math.ceil(up_to))) if are_integers else 24
    edges = locate_ticks(0.0, up_to, bins)
    counts, _ = np.histogram(values, edges)
    return build_binned_chart(
        title, edges.tolist(), counts.tolist(), x_label=x_label, y_label=y_label
    )


@matplotlib.rc_context(STYLE)
def build_heat_map(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    counts: NDArray[np.int64],
    *,
    x_label: str,
    y_label: str,
) -> Chart:
    """Build a heat map of counts, coloured by the share of each count in its row.

    Args:
        rows, columns: Labels, at most ``MAX_HEAT_MAP_SIDE``.
        counts: Counts (rows, columns).
    """
    row_texts, column_texts = (
        [_shorten(name, _HEAT_MAP_LABEL_WIDTH) for name in names] for names in (rows, columns)
    )
    left, bottom = (
        28 + _CHARACTER_PX * max(map(_measure_width, texts)) for texts in (row_texts, column_texts)
    )
    cell = max(_MIN_CELL_PX, (WIDTH_PX - left - RIGHT) / len(columns))
    canvas = Canvas(
        _MIN_CELL_PX * len(rows), width=left + cell * len(columns) + RIGHT, left=left, bottom=bottom
    )  # fmt: skip
    axes, shares = canvas.axes, counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    canvas.set_labels(x_label, y_label)
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks(
        np.arange(len(columns)) + 0.5, [canvas.add(text) for text in column_texts],
        rotation=90, ha="right", va="center", rotation_mode="anchor",
    )  # fmt: skip
    axes.set_yticks(np.arange(len(rows)) + 0.5, [canvas.add(text) for text in row_texts])
    axes.grid(visible=False)
    for (row, column), count in np.ndenumerate(counts):
        if count:
            opacity = _MAX_CELL_OPACITY * float(shares[row, column])
            axes.bar(column, 1, 1, row, align="edge", color=COLOURS[0], alpha=opacity)
            axes.text(column + 0.5, row + 0.5, f"{count}", ha="center", va="center_baseline")
    lines = (
        f"{name}: " + ", ".join(f"{n} {columns[i]}" for i, n in enumerate(values) if n)
        for name, values in zip(rows, counts.tolist(), strict=True)
    )
    return canvas.save(title, "; ".join(lines))


def _set_limits(axes: Axes, axis: str, low: float, high: float) -> None:
    """Set the limits and ticks of an axis to round numbers around a range."""
    ticks = locate_ticks(low, high, 5)
    axes.set(**{f"{axis}lim": (ticks[0], ticks[-1]), f"{axis}ticks": ticks})


def locate_ticks(low: float, high: float, intervals: int) -> NDArray[np.float64]:
    """Return round numbers that span a range in at most about ``intervals`` steps."""
    largest = max(abs(low), abs(high))
    if largest < _EPSILON:
        low, high = 0.0, 1.0
    elif high - low < _EPSILON * largest:
        low, high = low - largest / 2, high + largest / 2
    return np.asarray(
        MaxNLocator(intervals, steps=(1, 2, 5, 10)).tick_values(low, high), np.float64
    )


def _format_mark(mark: IntervalMark, sign: str) -> str:
    if mark.value is None:
        return "not run"
    if not math.isfinite(mark.value):
        return format_number(mark.value)
    low, high = mark.ci95
    interval = f" ({low:{sign}.3f} to {high:{sign}.3f})" if math.isfinite(low + high) else ""
    return f"{mark.value:{sign}.3f}{interval}"


def _measure_width(text: str) -> int:
    """Return the width of a text in characters, where East Asian ones count twice."""
    return sum(1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _shorten(text: str, width: int) -> str:
    """Shorten a text in its middle to a width in characters."""
    if _measure_width(text) <= width:
        return text
    start, end = text[:width], text[-width:]
    while _measure_width(start) > width // 2:
        start = start[:-1]
    while _measure_width(end) > (width - 1) // 2:
        end = end[1:]
    return f"{start}…{end}"


def _keep_finite(steps: Sequence[float], values: Sequence[float]) -> NDArray[np.float64]:
    points = np.array([steps, values], np.float64).T.reshape(-1, 2)
    return points[np.isfinite(points).all(axis=1)]
