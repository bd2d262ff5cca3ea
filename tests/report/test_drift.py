"""The page of a drift test."""

from pathlib import Path

import pytest

from sim2cam.adapt.calibration.camera_features import CAMERA_STATISTICS, DETECTOR_STATISTICS
from sim2cam.adapt.calibration.drift import DriftReport
from sim2cam.adapt.calibration.parameter_changes import LENS_NAME, ParameterShift
from sim2cam.report.drift import REMEDIES, summarize_drift, write_drift_page

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
    return summarize_drift(make_report(*shifts), Path("camera.json"), Path("new photos"))


def test_the_verdict_names_what_changed_and_what_to_do():
    verdict = summarize(LENS, NOISE, BLUR)
    assert verdict.headline == "The camera changed: lens."
    assert verdict.details == (
        "Lens: +3.2 px, mean over the image (95 % interval +2 to +4.5, p = 0.0012).",
        "16 photos; stable measures: 1; undetermined measures: 1.",
    )
    assert verdict.next_steps[0].text.startswith("Lens: The lens or its focus moved.")
    assert verdict.next_steps[-1].command == (
        "sim2cam calibrate 'new photos' --out camera.json --overwrite"
    )


def test_another_camera_is_named_first():
    other = ParameterShift("camera", "camera and size", "drifted", note="A before, B now")
    verdict = summarize(other, LENS)
    assert verdict.headline == "The camera changed: camera and size, lens."
    assert verdict.details[0] == "Camera and size: A before, B now."


def test_without_drift_the_verdict_asks_for_missing_photos():
    verdict = summarize(NOISE, BLUR)
    assert verdict.headline == "No drift detected."
    assert [step.text for step in verdict.next_steps] == ["Blur: Take photos."]


def test_the_page_shows_changes_with_their_thresholds(tmp_path, read_page):
    report = make_report(LENS, NOISE, BLUR, skipped={HOSTILE: HOSTILE})
    page = read_page(
        write_drift_page(report, Path(f"{HOSTILE}.json"), Path(HOSTILE), tmp_path / "p.html")
    )
    text = " ".join(page.text.split())
    assert "noise sensor.full_well_e stable +2 % 95 % interval -1 to +5 11 % 1 30 16" in text
    assert "+3.2 px, mean over the image 95 % interval +2 to +4.5 significance only 0.0012" in text
    assert "2 photos taken by another camera: Phone" in text
    assert not page.all("script")
    assert page.text.count(HOSTILE) == 5


@pytest.mark.parametrize(
    "name",
    [s.name for s in (*CAMERA_STATISTICS, *DETECTOR_STATISTICS)]
    + [LENS_NAME, "camera", "software"],
)
def test_every_measure_has_a_remedy(name):
    assert REMEDIES[name].endswith((".", "sim2cam bench."))
