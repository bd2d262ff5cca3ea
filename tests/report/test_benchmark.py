"""The page of a benchmark shows what is wrong, loads nothing and escapes everything."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.metrics.calibration import ReliabilityBin
from sim2cam.metrics.precision_recall import PrecisionRecall
from sim2cam.report.benchmark import write_bench_page

HOSTILE = "<script>alert(1)</script>"


def test_the_page_shows_all_results(tmp_path, make_bench_report, read_page):
    path = write_bench_page(make_bench_report(), tmp_path / "new" / "found.html")
    assert path == tmp_path / "new" / "found.html"
    page = read_page(path)
    for text in (
        "weights on t", "50 images, 308 objects.", "AP50 0.842 0.800–0.880", "AP of t 0.123 –",
        "problem Finds t. Run: sim2cam tune t", "over 50 images",
        "error 0.041 ( 0.012–0.067 ). With perfect calibration, noise alone gives up to 0.030",
        "Reliability diagram", "0.900 0.750 8", "precision", "confusion 3 0.000 The box fits",
        "missed 7 0.055 show 1", "t 9 4 3 1 2 5 3 7 b (2), t (1)", "size t 9 0.500 0.400–0.600 0.333 0.111 0.222",
        "t: background (1), missed (1)", "confidence of 0.41 or more, the threshold of the best F1",
        "Confusion matrix", "best F1 0.90, at confidence 0.90", "AP50 by size, px", "minimum confidence 0.41",
    ):  # fmt: skip
        assert re.sub(r"\s", "", text) in re.sub(r"\s", "", page.text), text
    sources = [a["src"].split(",")[0] for a in page.all("img")]
    assert sources == ["data:image/jpeg;base64"]
    assert not [a for a in page.addresses() if not a.startswith("data:")]


def test_boxes_carry_what_filters_need(tmp_path, make_bench_report, read_page):
    page = read_page(write_bench_page(make_bench_report(), tmp_path / "found.html"))
    missed, detected = [g for g in page.all("g") if "data-kind" in g]
    assert (missed["data-kind"], missed["data-covered-score"]) == ("missed", "")
    assert (detected["data-kind"], detected["data-score"]) == ("background", "0.9")
    assert detected["data-category"] == "t"
    (policy,) = [a["content"] for a in page.all("meta") if "http-equiv" in a]
    assert "script-src 'sha256-" in policy


def test_what_was_not_measured_is_left_out(tmp_path, make_bench_report, read_page):
    empty = np.zeros(0)
    bare = replace(
        make_bench_report(),
        calibration=None,
        slices=(),
        sliced_ap50={},
        extra_metrics={},
        precision_recall=PrecisionRecall(empty, empty, empty, empty),
        detections=replace(make_bench_report().detections, scores=empty),
    )
    text = read_page(write_bench_page(bare, tmp_path / "found.html")).text
    assert not re.search("Reliability|Recall by object attribute|AP of|AP50 by|None", text)


@pytest.mark.parametrize("bins", [(), (ReliabilityBin(0.5, float("nan"), 0),)])
def test_confidences_without_a_point_are_not_drawn(tmp_path, make_bench_report, read_page, bins):
    report = make_bench_report()
    calibration = replace(report.calibration, bins=bins)
    page = write_bench_page(replace(report, calibration=calibration), tmp_path / "f.html")
    assert ("Reliability diagram" in read_page(page).text) == bool(bins)


def test_everything_is_escaped(tmp_path, make_bench_report, read_page):
    page = read_page(write_bench_page(make_bench_report(HOSTILE), tmp_path / "found.html"))
    assert len(page.all("script")) == 1  # the script of the page itself
    assert f"weights on {HOSTILE}" in page.text
