"""How far hands move the picture, by edges that are blurrier one way."""

import cv2
import numpy as np
import pytest

from sim2cam.adapt.calibration.calibration_chart import measure_sensor_features
from sim2cam.adapt.calibration.camera_shake import sample_shake_px
from sim2cam.adapt.calibration.edges import estimate_blur_anisotropy
from sim2cam.adapt.calibration.linearization import encode_levels


def moved_checks(way_px, turn=0.3, finer=4):
    """Returns a picture of checks that the camera moved over while it was taken, way (x, y) in pixels."""
    y, x = np.mgrid[: 288 * finer, : 288 * finer] / finer
    u, v = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    light = 0.03 + 0.4 * ((np.floor(u / 28) + np.floor(v / 28)) % 2)
    steps = np.linspace(-0.5, 0.5, 25)[:, None] * np.array(way_px) * finer
    size = light.shape[::-1]
    shifts = (np.float32([[1, 0, a], [0, 1, b]]) for a, b in steps)
    smeared = np.mean([cv2.warpAffine(light, s, size, borderMode=1) for s in shifts], axis=0)
    soft = cv2.GaussianBlur(smeared, (0, 0), 0.6 * finer)
    picture = encode_levels(soft.reshape(288, finer, 288, finer).mean(axis=(1, 3)))
    return np.repeat(picture.round().astype(np.uint8)[..., None], 3, axis=-1)


@pytest.mark.parametrize("length", [0.0, 2.0, 4.0, 6.0])
@pytest.mark.parametrize("off_rad", [0.0, np.pi / 2, np.pi / 4])
def test_edges_across_the_way_are_blurrier_by_its_length(length, off_rad):
    turn = 0.3
    way = length * np.cos(turn + off_rad), length * np.sin(turn + off_rad)
    found, variance = measure_sensor_features(moved_checks(way, turn)).blur_anisotropy
    # the first way is that in which most edges stand, up to a quarter turn
    expected = length**2 / 24 * abs(np.cos(2 * off_rad))
    assert abs(found) == pytest.approx(expected, abs=0.04 + 0.1 * expected)
    assert 0 < variance < 0.05


def test_edges_one_way_tell_no_smear():
    fitted = np.column_stack([np.full(30, 0.8), np.zeros(30), np.linspace(0, 0.2, 30)])
    assert np.isnan(estimate_blur_anisotropy(fitted)).all()
    assert np.isnan(estimate_blur_anisotropy(np.zeros((0, 3)))).all()
    assert np.isnan(
        measure_sensor_features(np.full((80, 80, 3), 90, np.uint8)).blur_anisotropy
    ).all()


@pytest.mark.parametrize("still", [0.0, 1.5, 5.0])
def test_the_shake_of_many_photos_is_found_again(still):
    rng = np.random.default_rng(1)
    x, y = rng.normal(0, still, (2, 400))
    noise = rng.uniform(0.02, 0.1, 400)
    smears = np.column_stack([(x**2 - y**2) / 24 + rng.normal(0, noise), noise**2])
    draws = sample_shake_px(smears, rng, 500)
    low, high = np.quantile(draws, (0.025, 0.975))
    assert low <= still <= high
    assert np.median(draws) == pytest.approx(still, rel=0.15, abs=0.8)


def test_still_cameras_whose_blur_differs_by_the_way_may_be_still():
    rng = np.random.default_rng(2)
    for of_still in (0.05, 0.15):
        smears = np.column_stack([rng.normal(0, of_still, 16), np.full(16, 0.04**2)])
        low, high = np.quantile(sample_shake_px(smears, rng, 500), (0.025, 0.975))
        assert low == 0
        assert 0.5 < high < 2.5
