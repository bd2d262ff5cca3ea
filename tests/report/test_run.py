"""The page of a run says what ran and what did not, loads nothing, and escapes everything."""

import base64
import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import OutputError
from sim2cam.metrics.bootstrap import Estimate
from sim2cam.metrics.calibration import ConfidenceCalibration
from sim2cam.metrics.detection import Detection, DetectionMetrics
from sim2cam.metrics.verdict import Finding, Verdict
from sim2cam.report.run import write_run_page
from sim2cam.report.values import (
    Curves,
    Example,
    Examples,
    ImageRow,
    RunReport,
    ScoreRow,
    Series,
    StageRow,
)
from tests.support.browser import HOSTILE_NAME, check_layout, requires_chromium

HOSTILE = "<script>alert(1)</script>"
GREY = np.full((30, 40, 3), 128, np.uint8)


def score(categories=("a", "b")):
    mean = Estimate(0.5, (0.4, 0.6))
    return DetectionMetrics(
        mean, Estimate(0.842, (0.80, 0.88)), Estimate(0.61, (float("nan"), float("nan"))),
        Estimate(0.975, (0.95, 0.99)), dict.fromkeys(categories, mean),
        dict.fromkeys(categories, Estimate(0.7, (0.6, 0.8))), 50, 50, "50 images",
    )  # fmt: skip


def full(origin, label, text="t"):
    example = Example(text, GREY, (label(text),), (Detection(text, (1.0, 1.0, 9.0, 9.0), 0.9),))
    return RunReport(
        title=f"demo {text}",
        verdict=Verdict((Finding(f"{text} finding", "note", f"run {text}"),)),
        captures_origin=origin,
        run_info={"command": f"sim2cam demo {text}", "renderer": "egl"},
        stages=(StageRow("generate", 65.0, text), StageRow("translate", None)),
        scores=(
            ScoreRow(
                "trained in this run", origin, score(categories=("a", text)),
                ConfidenceCalibration(Estimate(0.041, (0.012, 0.067)), 0.03, ()),
                ConfidenceCalibration(Estimate(0.153, (0.140, 0.171)), 0.03, ()),
            ),
            ScoreRow("weights that ship", origin, None),
        ),
        image_rows=(ImageRow(GREY, GREY, GREY),),
        examples=Examples((example,), (example,)),
        curves=(
            Curves(text, text, (Series(text, (0, 10), (1, 0.5)),)),
            Curves("translator", "loss", ()),
        ),
        notes=(text,),
    )  # fmt: skip


def test_the_page_says_what_ran(tmp_path, label, read_page):
    path = write_run_page(full("real", label), tmp_path / "new" / "report.html")
    text = read_page(path).text
    assert path == tmp_path / "new" / "report.html"
    for text_part in (
        "50 real images", "0.842", "0.800–0.880", "0.975", "0.610 –", "1 min 05 s",
        "0.041 0.012–0.067", "uncalibrated 0.153 0.140–0.171",
        "t finding", "run t", "sim2cam demo t", "egl", "trained in this run", "weights that ship", "sim adapted real",
    ):  # fmt: skip
        assert text_part in text
    assert re.search(r"translate\s+not run", text)
    assert re.search(r"weights that ship\s+real images\s+not run", text)
    assert re.search(r"translator\s+not run", text)


def test_a_stand_in_is_never_called_real(tmp_path, label, read_page):
    path = write_run_page(full("stand-in", label), tmp_path / "report.html")
    source = path.read_text()
    without_pictures = re.sub(r"data:image/jpeg;base64,[^\"]*", "", source)
    assert not re.search(r"\breal\b", without_pictures, re.IGNORECASE)
    assert "50 stand-in images" in read_page(path).text


def test_confidences_that_were_not_measured(tmp_path, read_page):
    row = ScoreRow("weights that ship", "real", score())
    report = RunReport("demo", Verdict(()), "real", {}, (), (row,))
    text = read_page(write_run_page(report, tmp_path / "report.html")).text
    assert re.search(r"0\.975\s+0\.950–0\.990\s+not measured", text)


def test_a_run_of_which_nothing_ran(tmp_path, read_page):
    nothing = RunReport("demo", Verdict(()), "stand-in", {}, (StageRow("generate", None),), ())
    text = read_page(write_run_page(nothing, tmp_path / "report.html")).text
    for heading in ("Scores", "Side by side", "Detections", "Training", "generate"):
        assert re.search(rf"{heading}\s+not run", text)


def test_a_missing_translation_is_said_in_its_column(tmp_path, label, read_page):
    report = RunReport(
        "demo", Verdict(()), "real", {}, (), (), image_rows=(ImageRow(GREY, None, None),)
    )
    page = read_page(write_run_page(report, tmp_path / "report.html"))
    assert re.search(r"real\s+not run\s+no image", page.text)
    assert len(page.all("img")) == 1


def test_the_page_is_whole(tmp_path, label, read_page):
    page = read_page(write_run_page(full("real", label), tmp_path / "report.html"))
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    addresses = page.addresses()
    assert len(addresses) == 5
    for address in addresses:
        head, data = address.split(",")
        assert head == "data:image/jpeg;base64"
        assert base64.b64decode(data)[:2] == b"\xff\xd8"
    assert all(img["alt"] for img in page.all("img"))
    assert len(page.all("script")) == 1  # the script of the page itself
    assert not page.all("link")
    assert "url(" not in page.source.split("</style>")[0]


def test_everything_is_escaped(tmp_path, label, read_page):
    page = read_page(write_run_page(full("real", label, HOSTILE), tmp_path / "report.html"))
    assert len(page.all("script")) == 1  # the script of the page itself
    assert HOSTILE not in page.source
    assert page.text.count(HOSTILE) >= 8


def test_other_pages_are_linked(tmp_path, label, read_page):
    report = replace(full("real", label), pages={"certificate": "adapted/certificate.html"})
    page = read_page(write_run_page(report, tmp_path / "report.html"))
    assert [link["href"] for link in page.all("a")] == ["adapted/certificate.html"]


def test_equal_values_make_equal_pages(tmp_path, label):
    a = write_run_page(full("real", label), tmp_path / "a.html")
    b = write_run_page(full("real", label), tmp_path / "b.html")
    assert a.read_bytes() == b.read_bytes()


def test_a_page_that_cannot_be_written(tmp_path, label):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"report\.html: cannot be written"):
        write_run_page(full("real", label), tmp_path / "file" / "report.html")


@requires_chromium
def test_the_page_fits_a_narrow_screen(tmp_path, label):
    report = replace(full("real", label, HOSTILE_NAME), pages={HOSTILE_NAME: "a.html"})
    check_layout(write_run_page(report, tmp_path / "report.html"), 390)
