"""The page of a camera calibration."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim2cam.adapt.calibration.camera_fit import (
    CATEGORICAL_VALUES,
    NUMERIC_LIMITS,
    CameraFit,
    ParameterEstimate,
    read_camera,
    write_camera,
)
from sim2cam.adapt.calibration.corner_residuals import pack_residuals
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.metrics.verdict import Finding
from sim2cam.report.calibration import summarize_calibration, write_calibration_page
from sim2cam.report.camera_parameters import PARAMETER_GROUPS
from tests.support.browser import HOSTILE_NAME, check_layout, requires_chromium

HOSTILE = "<script>alert(1)</script>"
LENS = FittedLens(
    "brown_conrady",
    ("fx_px", "fy_px", "cx_px", "cy_px", "k1"),
    (120.0, 121.0, 63.0, 47.0, -0.1),
    tuple(tuple(0.25 if i == j else 0.0 for j in range(5)) for i in range(5)),
    rms_px=0.31,
    held_out_rms_px={"pinhole": 2.5, "brown_conrady": 0.35},
    outliers={HOSTILE: 9.87},
    corner_coverage=0.8,
)
LENS_ESTIMATES = tuple(
    ParameterEstimate(f"lens.{name}", value, (value - 1.2, value + 1.2))
    for name, value in zip(LENS.parameter_names, LENS.parameter_values, strict=True)
)
SENSOR_ESTIMATES = (
    ParameterEstimate("sensor.vignetting", 0.3, (0.2, 0.4)),
    ParameterEstimate("sensor.jpeg_quality", 92.0, (92.0, 92.0)),
    ParameterEstimate("sensor.denoise", None, note="Take photos of a wall."),
    ParameterEstimate("sensor.tone_contrast", None, note="not estimated: assumed."),
)
SENSOR_SAMPLES = {
    "sensor.full_well_e": (2000.0, 4000.0),
    "sensor.read_noise_e": (1.0, 2.0),
    "sensor.blur_px": (0.5, 0.9),
    "sensor.sharpening": (0.0, 0.6),
}
NO_LENS = ParameterEstimate("lens.fx_px", None, note="too few boards. Print one.")


def make_fit(*, has_lens=True, **facts):
    return CameraFit(
        "Camera 4", 128, 96, 16, 12 if has_lens else 0,
        (*(LENS_ESTIMATES if has_lens else (NO_LENS,)), *SENSOR_ESTIMATES),
        lens=LENS if has_lens else None, **facts,
    )  # fmt: skip


def test_the_verdict_says_how_sure_the_lens_is_and_what_is_missing(tmp_path):
    file = tmp_path / 'my "camera".json'
    findings = summarize_calibration(make_fit(sensor_samples=SENSOR_SAMPLES), file).findings
    texts = [finding.text for finding in findings]
    assert texts[0] == (
        "The lens is known to 0.35 px (RMS reprojection error on held-out photos; fit: 0.31 px)."
    )
    assert "focal length 120.0 px ± 1.0 % (95 % interval)" in texts[1]
    assert texts[2] == ("7 of 9 parameters are estimated from 16 photos, 12 of them with a board.")
    assert f'camera = "{tmp_path}/my \\"camera\\".json"' in texts[4]
    assert "To estimate denoising: Take photos of a wall." in texts
    assert not any("contrast" in text for text in texts)  # no photo determines it
    assert findings[-1].action.startswith(f"sim2cam drift '{tmp_path}/my \"camera\".json'")


def test_without_boards_the_verdict_says_why():
    findings = summarize_calibration(make_fit(has_lens=False), Path("camera.json")).findings
    assert findings[0] == Finding("The lens is not estimated: too few boards.", "problem")
    assert Finding("Noise and sharpness are not estimated.", "problem") in findings
    assert Finding("To estimate the lens: too few boards. Print one.", "next") in findings


def test_the_page_shows_parameters_and_excluded_photos(tmp_path, read_page):
    fit = make_fit(skipped={"broken.jpg": "not an image"}, other_cameras={HOSTILE: 3})
    page = read_page(write_calibration_page(fit, tmp_path / "c.json", tmp_path / "c.html"))
    text = " ".join(page.text.split())
    assert "horizontal focal length lens.fx_px 120.0 px 118.8 to 121.2" in text
    assert "JPEG quality 1 to 100 sensor.jpeg_quality 92 " in text
    assert "92 to 92" not in text
    assert "denoising 0 to 1 sensor.denoise not estimated Take photos of a wall." in text
    assert f"3 photos taken by another camera: {HOSTILE}" in text
    assert "broken.jpg not an image" in text
    assert "reprojection error 9.87 px" in text
    assert len(page.all("script")) == 1


def test_residuals_are_drawn_over_the_image_and_by_radius(tmp_path, read_page):
    corners = np.random.default_rng(0).uniform((0, 0), (127, 95), (40, 2))
    lens = replace(LENS, corner_residuals=pack_residuals([corners], [corners / 200]))
    fit = replace(make_fit(), lens=lens)
    page = read_page(write_calibration_page(fit, tmp_path / "c.json", tmp_path / "c.html"))
    assert "40 corners of boards; the median residual is 0." in page.text
    assert "8 groups of 5 corners" in page.text
    write_camera(tmp_path / "camera.json", fit)
    assert read_camera(tmp_path / "camera.json") == fit


@pytest.mark.parametrize(
    ("facts", "titles"),
    [
        ({}, ["Distortion", "Projection", "Vignetting"]),
        ({"has_lens": False}, ["Vignetting"]),
        (
            {"has_lens": False, "sensor_samples": SENSOR_SAMPLES},
            ["Vignetting", "Noise of the sensor, before denoising", "Edge between dark and light"],
        ),
    ],
)
def test_charts_show_what_is_estimated(tmp_path, read_page, facts, titles):
    page = read_page(
        write_calibration_page(make_fit(**facts), tmp_path / "c.json", tmp_path / "c.html")
    )
    assert len(page.all("svg")) == len(titles) + (facts.get("has_lens", True))
    for title in titles:
        assert title in page.text


def test_every_parameter_has_a_title():
    named = {name for texts in PARAMETER_GROUPS.values() for name in texts}
    assert named == {*NUMERIC_LIMITS, *CATEGORICAL_VALUES}


@requires_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_the_screen(tmp_path, width):
    fit = make_fit(
        sensor_samples=SENSOR_SAMPLES,
        skipped={HOSTILE_NAME: HOSTILE_NAME},
        other_cameras={HOSTILE_NAME: 3},
    )
    file = tmp_path / "x<b>.json"
    check_layout(write_calibration_page(fit, file, tmp_path / "c.html"), width)
