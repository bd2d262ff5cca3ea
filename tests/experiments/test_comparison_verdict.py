"""Findings on two runs."""

from sim2cam.experiments.comparison import Comparison, Comparisons, SliceComparison
from sim2cam.experiments.comparison_verdict import build_comparison_verdict
from sim2cam.metrics.bootstrap import Estimate, PairedDifference

NAMES = "a.json", "b.json"


def estimate(value):
    return Estimate(value, (value - 0.05, value + 0.05))


def difference(value, error=0.01):
    return PairedDifference(value, (value - 2 * error, value + 2 * error), 0.01, error)


def compare(value, p):
    return Comparison(estimate(0.5 + value), estimate(0.5), difference(value), p)


def judge(boxes, slices=None, **facts):
    comparisons = Comparisons({"boxes": boxes}, "20 images")
    options = {"is_identical": False} | facts
    return build_comparison_verdict(comparisons, slices or {}, NAMES, (), **options).findings


def test_a_better_run_is_named_with_its_difference():
    boxes = {"ap": compare(-0.2, 0.01), "ap50": compare(-0.1, 0.02), "ap75": compare(0.0, 1.0)}
    (finding,) = judge(boxes)
    assert finding.severity == "good"
    assert finding.text == (
        "b.json has the better AP50: 0.400 and 0.500, a difference of -0.100 "
        "(95 % interval -0.120 to -0.080). Other metrics with a difference: AP (-0.200)."
    )


def test_no_difference_shown_names_the_detectable_one():
    (finding,) = judge({"ap50": compare(0.01, 0.6)})
    assert finding.severity == "note"
    assert finding.text.startswith("No difference in AP50 is shown: 0.510 and 0.500, +0.010")
    assert "These images show differences from 0.028." in finding.text


def test_the_largest_difference_of_an_attribute_must_exclude_zero():
    slices = {
        "category": {
            "1": SliceComparison(estimate(0.5), estimate(0.4), difference(0.1)),
            "2": SliceComparison(estimate(0.5), estimate(0.2), difference(0.3, error=0.2)),
        },
        "size, px": {"below 16": SliceComparison(estimate(0.5), estimate(0.5), difference(0.0))},
    }
    _, *others = judge({"ap50": compare(0.01, 0.6)}, slices)
    (text,) = (finding.text for finding in others)
    assert text.startswith("By category, AP50 differs most for 1: a.json is better by +0.100")


def test_identical_runs_are_not_compared():
    (finding,) = judge({"ap50": compare(0.0, 1.0)}, is_identical=True)
    assert finding.text == "Both runs have the same results."
