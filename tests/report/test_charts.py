"""Axes are round and hold the values; marks stand where their numbers are."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.report.charts import (
    IntervalMark,
    build_axis,
    build_bar_chart,
    build_histogram,
    build_interval_chart,
    build_line_chart,
)
from sim2cam.report.values import Curves, Series

NUMBERS = st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)


@given(NUMBERS, NUMBERS)
def test_an_axis_spans_its_values_in_equal_steps(a, b):
    low, high = min(a, b), max(a, b)
    marks = build_axis(low, high).tick_values
    steps = [y - x for x, y in pairwise(marks)]
    slack = 1e-6 * max(abs(low), abs(high), 1e-9)
    assert 2 <= len(marks) <= 12
    assert marks[0] <= low + slack
    assert marks[-1] >= high - slack
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 1, (0, 0.2, 0.4, 0.6, 0.8, 1)),
        (0.53, 0.88, (0.5, 0.6, 0.7, 0.8, 0.9)),
        (0, 700, (0, 200, 400, 600, 800)),
        (3, 3, (1, 2, 3, 4, 5)),
        (0, 0, (0, 0.2, 0.4, 0.6, 0.8, 1)),
    ],
)
def test_axes_by_hand(low, high, marks):
    assert build_axis(low, high).tick_values == marks


def curves(*series):
    return Curves("t", "loss", series)


def test_a_line_goes_through_its_points():
    chart = build_line_chart(curves(Series("s", (0, 50, 100), (2, 1, 0))))
    points = re.findall(r"([\d.]+) ([\d.]+)", chart.lines[0].path)
    x_of = {t.text: t.position for t in chart.plot_area.x_ticks}
    y_of = {t.text: t.position for t in chart.plot_area.y_ticks}
    assert [float(x) for x, _ in points[::2]] == [x_of["0"], x_of["100"]]
    assert [float(y) for _, y in points] == pytest.approx([y_of["2"], y_of["1"], y_of["0"]])
    assert y_of["2"] < y_of["0"]


def test_points_that_are_not_finite_are_left_out():
    chart = build_line_chart(
        curves(Series("s", (0, 1, 2), (1, math.nan, 3)), Series("e", (0,), (math.inf,)))
    )
    assert [line.label for line in chart.lines] == ["s"]
    assert chart.lines[0].path.count("L") == 1
    assert build_line_chart(curves(Series("e", (0,), (math.nan,)))) is None
    assert build_line_chart(curves()) is None


def test_ranges():
    marks = [IntervalMark("x", 0.5, (0.4, 0.6), runs=(0.45, 0.55)), IntervalMark("y", None)]
    marks += [IntervalMark("z", math.nan), IntervalMark("w", 0.5)]
    chart = build_interval_chart("t", marks)
    x, y, z, w = chart.rows
    assert x.interval_x[0] < x.runs_x[0] < x.x < x.runs_x[1] < x.interval_x[1]
    assert x.text == "0.500 (0.400 to 0.600)"
    assert (y.text, y.x) == ("not run", None)
    assert (z.text, z.x) == ("–", None)
    assert (w.text, w.interval_x, w.x) == ("0.500", None, x.x)
    assert chart.zero_x is None


def test_differences_show_zero_and_signs():
    chart = build_interval_chart("t", [IntervalMark("x", 0.3, (0.2, 0.4))], is_signed=True)
    assert chart.rows[0].text == "+0.300 (+0.200 to +0.400)"
    assert chart.zero_x < chart.rows[0].interval_x[0]


def test_bars_are_as_long_as_their_counts():
    chart = build_bar_chart("t", {"a": 10, "b": 5, "c": 0})
    a, b, c = chart.bars
    assert (b.width, c.width) == (a.width / 2, 0)
    assert [bar.text for bar in chart.bars] == ["10", "5", "0"]
    assert all(bar.width == 0 for bar in build_bar_chart("t", {"a": 0}).bars)


@given(st.lists(st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=50))
def test_a_histogram_counts_every_value(values):
    chart = build_histogram("t", values, up_to=max(values), x_label="x")
    assert sum(int(bar.text) for bar in chart.bars) == len(values)
    assert len(chart.plot_area.x_ticks) <= 10


def test_whole_numbers_have_bins_of_whole_numbers():
    chart = build_histogram("t", [7.0, 7.0, 9.0], up_to=10.0, x_label="x")
    counted = {bar.label: bar.text for bar in chart.bars if bar.text != "0"}
    assert counted == {"7 to 8": "2", "9 to 10": "1"}


def test_a_histogram_of_nothing():
    assert build_histogram("t", [], up_to=1.0, x_label="x") is None
