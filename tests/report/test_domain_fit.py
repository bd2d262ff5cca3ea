"""The page of a fitted domain."""

from dataclasses import replace

import numpy as np

from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.coverage import Coverage
from sim2cam.metrics.two_sample import DomainGap, TwoSampleDistance
from sim2cam.report.domain_fit import DomainView, FitReport, GapStageView, RangeView, write_fit_page
from sim2cam.report.values import Curves, Series

RGB = np.full((8, 8, 3), 90, np.uint8)


def side(value):
    one = TwoSampleDistance(value, (value - 0.1, value + 0.1), 0.01, 0.2)
    covered = Coverage(
        np.array([True]), np.array([0]), Estimate(0.8, (0.7, 0.9)), 0.97, Estimate(1.0, (0.9, 1.1))
    )
    return DomainView(DomainGap(one, one, one), covered, (RGB, RGB))


APART = TwoSampleDistance(0.7, (0.6, 0.8), 0.01, 0.5)
REPORT = FitReport(
    "<b>x",
    (
        RangeView("light/warmth", 0.6, (-1.0, 1.0), (-0.2, 0.5), (-0.1, 0.4)),
        RangeView("view/<i>", -0.3, (0.0, 0.8), (0.0, 0.8), None),
    ),
    side(1.5),
    side(0.9),
    (RGB,),
    (RGB, RGB, RGB),
    Curves("trials", "cost", (Series("cost", (0.0, 1.0), (1.0, 0.8)),)),
    tuple(
        GapStageView(n, DomainGap(APART, APART, APART), {"color": APART}, {"noise": APART})
        for n in ("raw render", "lens")
    ),
)


def test_it_shows_both_sides_ranges_pictures_and_the_ladder(tmp_path, read_page):
    page = read_page(write_fit_page(REPORT, tmp_path / "fit.html"))
    text = " ".join(page.text.split())
    assert "The fitted ranges draw renders nearer to the captures." in text
    assert "told apart by a classifier, AUC 1.500 1.400–1.600 0.900 0.800–1.000 0.200" in text
    assert "captures that have a near render 0.800 0.700–0.900" in text
    assert "light/warmth" in text
    assert "view/<i> 0 to 0.8; looks foretell 0 % of its variance" in text
    assert "sliced distance of color" in text
    assert "AUC by noise alone" in text
    assert len(page.all("img")) == 1 + 2 + 2 + 3
    assert len(page.all("svg")) == 1 + 1 + 4  # a range, trials, the ladder
    assert not page.all("i")
    assert all(address.startswith("data:") for address in page.addresses())


def test_a_difference_within_the_intervals_is_not_shown_as_one(tmp_path, read_page):
    page = read_page(write_fit_page(replace(REPORT, before=side(1.0)), tmp_path / "fit.html"))
    assert "No difference shown" in page.text


def test_where_captures_tell_nothing_it_says_so(tmp_path, read_page):
    nothing = replace(
        REPORT, ranges=REPORT.ranges[1:], uncovered=(), gap_stages=(), trials=Curves("t", "c", ())
    )
    page = read_page(write_fit_page(nothing, tmp_path / "fit.html"))
    assert "The captures tell none of the factors; all ranges stay." in page.text
    assert "no render comes near" not in page.text
    assert not page.all("svg")
