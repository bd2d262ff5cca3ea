"""The page of a fitted domain."""

from dataclasses import replace

import numpy as np

from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.coverage import Coverage
from sim2cam.metrics.gaps import HeldOutGap, StageGap
from sim2cam.metrics.two_sample import DomainGap, TwoSampleDistance
from sim2cam.report.domain_fit import FitReport, RangeView, write_fit_page
from sim2cam.report.values import Curves, Series

RGB = np.full((8, 8, 3), 90, np.uint8)


def side(value):
    one = TwoSampleDistance(value, (value - 0.1, value + 0.1), 0.01, 0.2)
    covered = Coverage(
        np.array([True]), np.array([0]), Estimate(0.8, (0.7, 0.9)), 0.97, Estimate(1.0, (0.9, 1.1))
    )
    return HeldOutGap(DomainGap(one, one, one), covered, (RGB, RGB))


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
        StageGap(n, DomainGap(APART, APART, APART), {"color": APART}, {"noise": APART})
        for n in ("raw render", "lens")
    ),
)


def test_the_page_shows_distances_ranges_images_and_gap_stages(tmp_path, read_page):
    page = read_page(write_fit_page(REPORT, tmp_path / "fit.html"))
    text = " ".join(page.text.split())
    assert "The fitted ranges reduce the distance between renders and target images." in text
    assert "classifier two-sample test, AUC 1.500 1.400–1.600 0.900 0.800–1.000 0.200" in text
    assert "target images covered by renders 0.800 0.700–0.900" in text
    assert "light/warmth" in text
    assert "view/<i> 0 to 0.8; image statistics explain 0 % of the variance" in text
    assert "sliced Wasserstein distance of color" in text
    assert "AUC by noise alone" in text
    assert len(page.all("img")) == 1 + 2 + 2 + 3
    assert len(page.all("svg")) == 1 + 1 + 4  # a range, trials, gap stages
    assert not page.all("i")
    assert all(address.startswith("data:") for address in page.addresses())


def test_a_difference_within_the_intervals_is_not_significant(tmp_path, read_page):
    page = read_page(write_fit_page(replace(REPORT, before=side(1.0)), tmp_path / "fit.html"))
    assert "do not significantly reduce" in page.text


def test_a_fit_without_estimates(tmp_path, read_page):
    nothing = replace(
        REPORT, ranges=REPORT.ranges[1:], uncovered=(), gap_stages=(), trials=Curves("t", "c", ())
    )
    page = read_page(write_fit_page(nothing, tmp_path / "fit.html"))
    assert "The target images determine none of the factors. All ranges are unchanged." in page.text
    assert "not covered by renders" not in page.text
    assert not page.all("svg")
