"""The page of a drift test."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim2cam.adapt.calibration.camera_features import CAMERA_STATISTICS, DETECTOR_STATISTICS
from sim2cam.adapt.calibration.drift import DriftReport
from sim2cam.adapt.calibration.parameter_changes import LENS_NAME, ParameterShift
from sim2cam.metrics.verdict import Finding
from sim2cam.report.drift import REMEDIES, summarize_drift, write_drift_page
from tests.support.browser import HOSTILE_NAME, check_layout, requires_chromium

HOSTILE = "<script>alert(1)</script>"
LENS = ParameterShift(
    "lens", "lens", "drifted", 3.21, (2.0, 4.5), "px, mean over the image", 0.0012, (15, 16)
)
NOISE = ParameterShift(
    "sensor.full_well_e", "noise", "stable", 2.0, (-1.0, 5.0), "%", 1.0, (30, 16),
    "also depends on the scene and its light",
)  # fmt: skip
BLUR = ParameterShift(
    "sensor.blur_px", "blur", "undetermined", unit="px", photo_counts=(2, 1), note="Take photos."
)


def make_report(*shifts, skipped=None):
    return DriftReport("Camera 4", 16, shifts, {"Phone": 2}, skipped or {})


def summarize(*shifts):
    report = make_report(*shifts)
    return summarize_drift(report, Path("camera.json"), Path("new photos")).findings


def test_the_verdict_names_what_changed_and_what_to_do():
    headline, change, counts, step = summarize(LENS, NOISE, BLUR)
    assert headline == Finding("The camera changed: lens.", "problem")
    assert change.text.startswith(
        "Lens: +3.2 px, mean over the image (95 % interval +2 to +4.5, p = 0.0012). The lens or its focus moved."
    )
    assert counts.text == "16 photos; stable measures: 1; undetermined measures: 1."
    assert step.action == "sim2cam calibrate 'new photos' --out camera.json --overwrite"


@pytest.mark.parametrize(("p_value", "text"), [(0.0012, "p = 0.0012)"), (1e-9, "p < 0.001)")])
def test_small_p_values_are_rounded_up(p_value, text):
    assert text in summarize(replace(LENS, p_value=p_value))[1].text


def test_another_camera_is_named():
    other = ParameterShift("camera", "camera and size", "drifted", note="A before, B now")
    headline, change, *_ = summarize(other, LENS)
    assert headline.text == "The camera changed: camera and size, lens."
    assert change.text.startswith(
        "Camera and size: A before, B now. These photos show another camera"
    )


def test_without_drift_the_verdict_asks_for_missing_photos():
    headline, _, step = summarize(NOISE, BLUR)
    assert headline == Finding("No drift detected.", "good")
    assert step == Finding("Blur: Take photos.", "next")


def test_the_page_shows_changes_with_their_thresholds(tmp_path, read_page):
    report = make_report(LENS, NOISE, BLUR, skipped={HOSTILE: HOSTILE})
    page = read_page(
        write_drift_page(report, Path(f"{HOSTILE}.json"), Path(HOSTILE), tmp_path / "p.html")
    )
    text = " ".join(page.text.split())
    assert "noise sensor.full_well_e stable +2 % 95 % interval -1 to +5 11 % 1 30 16" in text
    assert "+3.2 px, mean over the image 95 % interval +2 to +4.5 significance only 0.0012" in text
    assert "2 photos taken by another camera: Phone" in text
    assert len(page.all("script")) == 1
    assert page.text.count(HOSTILE) == 5


@pytest.mark.parametrize(
    "name",
    [s.name for s in (*CAMERA_STATISTICS, *DETECTOR_STATISTICS)]
    + [LENS_NAME, "camera", "software"],
)
def test_every_measure_has_a_remedy(name):
    assert REMEDIES[name].endswith((".", "sim2cam bench."))


@requires_chromium
def test_the_page_fits_a_narrow_screen(tmp_path):
    report = make_report(LENS, NOISE, BLUR, skipped={HOSTILE_NAME: HOSTILE_NAME})
    page = write_drift_page(report, Path(HOSTILE_NAME), Path(HOSTILE_NAME), tmp_path / "p.html")
    check_layout(page, 390)
