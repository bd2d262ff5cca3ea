"""The page of a benchmark shows what is wrong, loads nothing and escapes everything."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.calibration import ConfidenceCalibration, ReliabilityBin
from sim2cam.metrics.detection import DetectionMetrics
from sim2cam.metrics.error_analysis import CategoryErrors
from sim2cam.metrics.slices import Slice
from sim2cam.report.benchmark import write_bench_page
from sim2cam.report.values import BenchReport, Example, Examples

HOSTILE = "<script>alert(1)</script>"


def report(label, text="t"):
    found = Estimate(0.5, (0.4, 0.6))
    rgb = np.full((30, 40, 3), 128, np.uint8)
    missed = Example(text, rgb, (label(text),), ())
    return BenchReport(
        title=f"weights on {text}",
        score=DetectionMetrics(
            found, Estimate(0.842, (0.8, 0.88)), found, found, {text: found}, {text: found}, 50, 308, "50 images"
        ),
        calibration=ConfidenceCalibration(
            Estimate(0.041, (0.012, 0.067)), 0.03, (ReliabilityBin(0.5, 0.25, 8), ReliabilityBin(0.9, 0.75, 8))
        ),
        extra_metrics={f"AP of {text}": Estimate(0.123, (float("nan"), float("nan")))},
        category_errors=(CategoryErrors(text, 9, 4, {"b": 2, text: 1}, 1, 2, 5, 3),),
        slices=(Slice("size", text, 9, found, 0.333, 0.111, 0.222),),
        examples=Examples((), (missed,), 0.413),
        notes=(text,),
    )  # fmt: skip


def test_the_page_shows_all_results(tmp_path, label, read_page):
    path = write_bench_page(report(label), tmp_path / "new" / "found.html")
    assert path == tmp_path / "new" / "found.html"
    page = read_page(path)
    for text in (
        "weights on t", "50 images, 308 objects.", "AP50 0.842 0.800–0.880", "AP of t 0.123 –",
        "over 50 images", "error 0.041 ( 0.012–0.067 ). With perfect calibration, noise alone gives up to 0.030",
        "Reliability diagram", "precision",
        "t 9 4 3 b (2), t (1) 1 2 5 3", "size t 9 0.500 0.400–0.600 0.333 0.111 0.222", "t: missed (1)",
        "score of 0.413 or more, the threshold of the best F1",
    ):  # fmt: skip
        assert re.sub(r"\s", "", text) in re.sub(r"\s", "", page.text)
    assert [address.split(",")[0] for address in page.addresses()] == ["data:image/jpeg;base64"]
    assert "Fewest errors" not in page.text


def test_what_was_not_measured_is_left_out(tmp_path, label, read_page):
    bare = replace(report(label), calibration=None, slices=(), extra_metrics={}, notes=())
    text = read_page(write_bench_page(bare, tmp_path / "found.html")).text
    assert not re.search("Reliability|Recall by object attribute|AP of|None", text)


@pytest.mark.parametrize("bins", [(), (ReliabilityBin(0.5, float("nan"), 0),)])
def test_confidences_without_a_point_are_not_drawn(tmp_path, label, read_page, bins):
    calibration = replace(report(label).calibration, bins=bins)
    page = write_bench_page(replace(report(label), calibration=calibration), tmp_path / "f.html")
    assert "weights on t" in read_page(page).text


def test_everything_is_escaped(tmp_path, label, read_page):
    page = read_page(write_bench_page(report(label, HOSTILE), tmp_path / "found.html"))
    assert not page.all("script")
    assert f"weights on {HOSTILE}" in page.text
