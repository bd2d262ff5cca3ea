"""Resumption and scoring of the calibration benchmark."""

import json
from dataclasses import replace

import calibrate
import numpy as np
import pytest
from calibrate import (
    FAILED,
    FIRST,
    Arguments,
    Hidden,
    Truth,
    _with_exposure,
    compare,
    format_recipe,
    main,
    sample_camera_factors,
    sample_hand_factors,
    summarize,
)

from sim2cam import images
from sim2cam.adapt.calibration.camera_fit import CameraFit, ParameterEstimate
from sim2cam.errors import SceneError
from sim2cam.files import write_bytes
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene

TOLD = {"sensor.blur_px": {"truth": 0.7, "value": 0.8, "ci95": [0.6, 0.9]}}


def test_cameras_that_were_measured_are_kept_and_time_ends_it(tmp_path, monkeypatch, capsys):
    asked = []

    def score(hidden):
        asked.append((hidden.number, hidden.photos))
        return hidden.number, TOLD

    monkeypatch.setattr(calibrate, "score", score)
    folders = {"work": tmp_path / "work", "out": tmp_path}
    main(Arguments(cameras=3, photos=4, **folders))
    main(Arguments(cameras=5, photos=4, minutes=0.0, **folders))
    assert asked == [(FIRST, 4), (FIRST + 1, 4), (FIRST + 2, 4)]
    main(Arguments(cameras=5, photos=4, **folders))
    assert asked[3:] == [(FIRST + 3, 4), (FIRST + 4, 4)]
    found = json.loads((tmp_path / "calibrate.json").read_text())
    assert found["cameras"] == 5
    assert found["summary"]["sensor.blur_px"]["estimates"] == 5
    assert "in interval 1.00" in capsys.readouterr().out
    main(Arguments(cameras=1, photos=8, **folders))
    assert asked[-1] == (FIRST, 8)  # other cameras took fewer photos


def test_a_camera_that_fails_is_named_and_stops_no_other(tmp_path, monkeypatch, capsys):
    def take_photos(number, photos, root):
        raise SceneError(f"nothing settles before camera {number}")

    monkeypatch.setattr(calibrate, "take_photos", take_photos)
    assert calibrate.score(Hidden(0, 4)) == (0, {FAILED: "nothing settles before camera 0"})
    found = {FIRST: {FAILED: "nothing settles"}, FIRST + 1: TOLD}
    monkeypatch.setattr(calibrate, "score", lambda hidden: (hidden.number, found[hidden.number]))
    main(Arguments(cameras=2, photos=4, work=tmp_path / "work", out=tmp_path))
    written = json.loads((tmp_path / "calibrate.json").read_text())
    assert written["failed"] == {str(FIRST): "nothing settles"}
    assert set(written["summary"]) == {"sensor.blur_px"}
    assert f"camera {FIRST}: nothing settles" in capsys.readouterr().err
    main(
        Arguments(cameras=2, photos=4, work=tmp_path / "work", out=tmp_path)
    )  # which is not tried again
    assert capsys.readouterr().err == ""


def test_what_is_told_is_summed_up_with_an_interval():
    wrong = {"sensor.blur_px": {"truth": 0.7, "value": 1.2, "ci95": [1.0, 1.4]}}
    (found,) = summarize({"0": TOLD, "1": TOLD, "2": TOLD, "3": wrong, "4": {}}).values()
    assert (found["estimates"], found["covered"]["value"]) == (4, 0.75)
    assert found["covered"]["ci95"] == pytest.approx([0.301, 0.954], abs=1e-3)  # Wilson 1927
    assert found["median_error"] == pytest.approx(0.1)


@pytest.fixture
def hidden(tmp_path):
    path = tmp_path / "hidden.toml"
    path.write_text(format_recipe(sample_camera_factors(np.random.default_rng(0))))
    found = load_recipe(str(path))
    values = sample_factors(found.domain, 0, 0, views=1)
    return build_scene(values, found.domain, 640, 480).cameras[0]


def test_without_responses_electrons_are_those_of_all_colours_together(hidden):
    sensor = hidden.sensor
    assert 0.4 <= sensor.red_response <= 1.0
    told = (ParameterEstimate("sensor.full_well_e", 900.0, (500.0, 1500.0)),)
    fit = CameraFit("640x480", 640, 480, 16, 0, told)
    shares = [sensor.red_response / sensor.red_gain, 1, sensor.blue_response / sensor.blue_gain]
    alike = sensor.full_well_e / np.mean(1 / np.array(shares))
    assert compare(Truth((hidden,)), fit)["sensor.full_well_e"]["truth"] == pytest.approx(alike)
    response = ParameterEstimate("sensor.red_response", 0.5, (0.4, 0.6))
    found = compare(Truth((hidden,)), replace(fit, estimates=(*told, response)))
    assert found["sensor.full_well_e"]["truth"] == sensor.full_well_e
    assert found["sensor.red_response"]["truth"] == sensor.red_response


def test_words_exposures_and_hands_are_held_against_the_truth(hidden):
    words = hidden.sensor.processing.jpeg_subsampling
    others = [
        replace(hidden, sensor=replace(hidden.sensor, exposure_ev=ev)) for ev in (-0.4, 0.1, 0.3)
    ]
    told = (
        ParameterEstimate("sensor.exposure_ev", 0.2, (0.0, 0.4)),
        ParameterEstimate("twist.spin_rad_s", 0.3, (0.2, 0.4)),
        ParameterEstimate("sensor.processing.jpeg_subsampling", words),
        ParameterEstimate("sensor.read_noise_e", 14.9),  # without an interval nothing is claimed
    )
    fit = CameraFit("640x480", 640, 480, 16, 0, told)
    found = compare(Truth(tuple(others), 0.5), fit)
    assert found == {
        "sensor.exposure_ev": {"truth": 0.1, "value": 0.2, "ci95": [0.0, 0.4]},
        "twist.spin_rad_s": {"truth": 0.5, "value": 0.3, "ci95": [0.2, 0.4]},
        "sensor.processing.jpeg_subsampling": {"truth": words, "value": words},
    }
    sums = summarize({"0": found})
    assert [one["covered"]["value"] for one in sums.values()] == [1.0, 1.0, 0.0]
    assert sums["sensor.processing.jpeg_subsampling"]["median_error"] is None


def test_some_cameras_are_held_and_their_files_say_how_long(tmp_path):
    hands = [sample_hand_factors(np.random.default_rng(seed)) for seed in range(40)]
    assert 4 <= sum(map(bool, hands)) <= 18
    hand = next(one for one in hands if one)
    path = tmp_path / "hidden.toml"
    path.write_text(format_recipe(sample_camera_factors(np.random.default_rng(0)) | hand))
    domain = load_recipe(str(path)).domain
    scene = build_scene(sample_factors(domain, 0, 0, views=1), domain, 640, 480)
    camera = scene.cameras[0]
    assert camera.shutter.exposure_s == pytest.approx(hand["shutter"]["exposure_s"])
    assert camera.twist is not None
    rgb = np.full((64, 64, 3), 90, np.uint8)
    write_bytes(tmp_path / "a.jpg", _with_exposure(images.encode_jpeg(rgb, 90), 0.0125))
    header = images.read_header(tmp_path / "a.jpg")
    assert header.exif["ExposureTime"] == pytest.approx(0.0125)
    assert np.array_equal(
        images.read_rgb(tmp_path / "a.jpg"), images.decode_image(images.encode_jpeg(rgb, 90))
    )
