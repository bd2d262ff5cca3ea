"""Charts hold their values as text, follow the page's colours and escape every label."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2cam.metrics.bootstrap import Estimate
from sim2cam.report.canvas import FONT_PX, WIDTH_PX
from sim2cam.report.charts import (
    IntervalMark,
    Mark,
    build_bar_chart,
    build_binned_chart,
    build_curve_chart,
    build_heat_map,
    build_histogram,
    build_interval_chart,
    build_line_chart,
    locate_ticks,
)
from sim2cam.report.values import Curves, Series

NUMBERS = st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)
HOSTILE = (
    "<script>alert(1)</script>",
    'a" onload="x',
    "$x^2",
    "${y}",
    "日本語 😀",
    "\x00\udcff",
    "@0@",
    "x" * 200,
    "日" * 99,
)


def parse(chart):
    return ElementTree.fromstring(f'<r xmlns:xlink="x">{chart.svg}</r>')[0]


def describe(chart):
    return parse(chart).find("desc").text


def texts(chart):
    return ["".join(element.itertext()) for element in parse(chart).iter("text")]


def curves(*series):
    return Curves("t", "loss", series)


def draw_all(name):
    estimate = Estimate(0.5, (0.4, 0.6))
    return [
        build_line_chart(Curves(name, name, (Series(name, (0, 1), (0, 1)),), name), Mark(name, 1, 1)),
        build_interval_chart(name, [IntervalMark(name, 0.5, (0.4, 0.6), (0.5,))]),
        build_curve_chart(name, {1: estimate, 9: estimate}, {name: 0.5}, x_label=name),
        build_bar_chart(name, {name: 3}, [2.0]),
        build_binned_chart(name, (0, 1, 2), {name: (1, 2)}, x_label=name, y_label=name),
        build_heat_map(name, [name], [name], np.array([[2]]), x_label=name, y_label=name),
    ]  # fmt: skip


@given(NUMBERS, NUMBERS)
def test_ticks_span_their_values_in_equal_steps(a, b):
    low, high = min(a, b), max(a, b)
    ticks = locate_ticks(low, high, 5).tolist()
    steps = [y - x for x, y in pairwise(ticks)]
    slack = 1e-6 * max(abs(low), abs(high), 1e-9)
    assert 2 <= len(ticks) <= 12
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert max(steps) == pytest.approx(min(steps), rel=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, (0, 0.2, 0.4, 0.6, 0.8, 1)),
        (0.53, 0.88, (0.5, 0.6, 0.7, 0.8, 0.9)),
        (0, 700, (0, 200, 400, 600, 800)),
        (3, 3, (1, 2, 3, 4, 5)),
        (0, 0, (0, 0.2, 0.4, 0.6, 0.8, 1)),
    ],
)
def test_ticks_by_hand(low, high, ticks):
    assert locate_ticks(low, high, 5) == pytest.approx(ticks)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_labels_are_escaped(name):
    for chart in draw_all(name):
        svg = chart.svg.encode(errors="backslashreplace").decode().replace("\x00", "")
        root = ElementTree.fromstring(f'<r xmlns:xlink="x">{svg}</r>')[0]
        assert {element.tag for element in root.iter()} <= {
            "svg",
            "title",
            "desc",
            "defs",
            "g",
            "path",
            "text",
            "use",
            "clipPath",
            "rect",
        }
        assert not any(key.startswith("on") for element in root.iter() for key in element.attrib)
        if len(name) < 10:
            shown = name.encode(errors="backslashreplace").decode().replace("\x00", "")
            assert shown in root.find("title").text
            assert [t for t in root.itertext() if shown in t]


def test_charts_follow_the_page_and_have_unique_ids():
    charts = draw_all("a") + draw_all("b")
    page = "".join(chart.svg for chart in charts)
    assert not re.search(": #[0-9a-f]{6}|font-family|<style|mathdefault", page)
    assert set(re.findall(r"var\(--(\w+)\)", page)) <= {
        "text",
        "muted",
        "grid",
        *(f"c{i}" for i in range(8)),
    }
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(#|href="#)([^")]*)', page)) <= set(ids)
    sizes = {
        float(size)
        for size in re.findall(r"font-size: ([\d.]+)px|font: ([\d.]+)px", page)
        for size in size
        if size
    }
    assert sizes == {FONT_PX}
    assert page == "".join(chart.svg for chart in draw_all("a") + draw_all("b"))


def test_a_line_goes_through_its_points():
    chart = build_line_chart(curves(Series("s", (0, 50, 100), (2, 1, 0))), Mark("best", 50, 1))
    (path,) = re.findall(r'd="M ([^"]*)" style="fill: none; stroke: var\(--c0\)', chart.svg)
    points = [[float(v) for v in point.split()] for point in path.split("L")]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert (x1, y1) == pytest.approx(((x0 + x2) / 2, (y0 + y2) / 2))
    assert x0 < x2
    assert y0 < y2  # down
    assert [(entry.label, entry.value) for entry in chart.legend] == [("s", "0"), ("best", "")]
    assert {"0", "20", "100", "0.5", "2", "step", "loss"} <= set(texts(chart))


def test_points_that_are_not_finite_are_left_out():
    chart = build_line_chart(
        curves(Series("s", (0, 1, 2), (1, math.nan, 3)), Series("e", (0,), (math.inf,)))
    )
    assert [entry.label for entry in chart.legend] == ["s"]
    assert build_line_chart(curves(Series("e", (0,), (math.nan,)))) is None
    assert build_line_chart(curves()) is None


def test_intervals():
    marks = [IntervalMark("x", 0.5, (0.4, 0.6), runs=(0.45, 0.55)), IntervalMark("y", None)]
    marks += [IntervalMark("z", math.nan), IntervalMark("w", 0.5)]
    chart = build_interval_chart("t", marks)
    assert describe(chart) == "x: 0.500 (0.400 to 0.600); y: not run; z: –; w: 0.500"
    assert {"x", "0.500 (0.400 to 0.600)", "not run", "–"} <= set(texts(chart))
    difference = build_interval_chart("t", [IntervalMark("x", 0.3, (0.2, 0.4))], is_signed=True)
    assert describe(difference) == "x: +0.300 (+0.200 to +0.400)"
    assert "0" in texts(difference)


def test_a_curve_lists_references_off_the_scale():
    points = {10: Estimate(0.5, (0.4, 0.6)), 100: Estimate(0.7, (math.nan, math.nan))}
    chart = build_curve_chart("AP", points, {"near": 0.6, "far": 9.0}, x_label="images")
    assert [(e.label, e.value) for e in chart.legend] == [
        ("near", "0.600"),
        ("far", "9.000, off scale"),
    ]
    assert {"10", "100", "images", "AP"} <= set(texts(chart))


def test_without_values_there_are_no_bars():
    assert build_bar_chart("t", {}) is None


def test_a_fitted_curve_takes_the_place_of_the_line_and_extends_the_axis():
    points = {10: Estimate(0.5, (0.4, 0.6)), 100: Estimate(0.7, (0.6, 0.8))}
    trend = np.array([[10, 0.5], [100, 0.7], [1000, 0.95]])
    joined, fitted = (
        build_curve_chart("AP", points, {"limit": 0.98}, x_label="images", trend=line)
        for line in (None, trend)
    )
    number = r"([\d.]+) ([\d.]+)"
    (line,) = re.findall(rf'd="M {number} L {number} L {number} "', fitted.svg)
    x, y = np.array(line, float).reshape(3, 2).T
    assert np.diff(x) == pytest.approx([np.diff(x)[0]] * 2, rel=1e-3)  # decades
    assert x[-1] < WIDTH_PX
    assert (np.diff(y) < 0).all()  # upwards
    joint = rf'd="M {number} L {number} " style="fill: none; stroke: var\(--c0\)'
    assert len(re.findall(joint, joined.svg)) == 1
    assert not re.findall(joint, fitted.svg)
    assert describe(joined) == describe(fitted)


def test_bars_are_as_long_as_their_counts():
    chart = build_bar_chart("t", {"a": 10, "b": 5, "c": 0})
    bars = re.findall(
        r'd="M ([\d.]+) [\d.]+ L ([\d.]+) [^"]*"[^>]*style="fill: var\(--c0\)', chart.svg
    )
    a, b, c = (float(right) - float(left) for left, right in bars)
    assert (b, c) == pytest.approx((a / 2, 0))
    assert describe(chart) == "a: 10; b: 5; c: 0"
    assert (
        describe(build_bar_chart("t", {"a": 0, "b": 0.25}, [1.0, 2.0])) == "a: 0 (1); b: 0.25 (2)"
    )


@settings(max_examples=15)
@given(st.lists(st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=50))
def test_a_histogram_counts_every_value(values):
    chart = build_histogram("t", values, up_to=max(values), x_label="x")
    assert sum(int(n) for n in re.findall(r": (\d+)", describe(chart))) == len(values)


def test_whole_numbers_have_bins_of_whole_numbers():
    chart = build_histogram("t", [7.0, 7.0, 9.0], up_to=10.0, x_label="x")
    counted = [text for text in describe(chart).split("; ") if not text.endswith(": 0")]
    assert counted == ["7 to 8: 2", "9 to 10: 1"]
    assert build_histogram("t", [], up_to=1.0, x_label="x") is None


def test_a_heat_map_shows_its_counts():
    counts = np.array([[9, 1], [0, 0]])
    chart = build_heat_map("t", ["a", "b"], ["a", "b"], counts, x_label="p", y_label="l")
    assert describe(chart) == "a: 9 a, 1 b; b: "
    assert {"9", "1"} <= set(texts(chart))
    opacities = [float(v) for v in re.findall(r"opacity: ([\d.]+)", chart.svg)]
    assert opacities == pytest.approx([0.9 * 0.55, 0.1 * 0.55])
