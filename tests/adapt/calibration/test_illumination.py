from dataclasses import replace

import numpy as np
import pytest

from sim2cam.adapt.calibration.board_corners import detect_board
from sim2cam.adapt.calibration.illumination import (
    estimate_lateral_color,
    estimate_vignetting,
    measure_board_white,
    measure_exposure,
)
from sim2cam.adapt.calibration.linearization import decode_levels, encode_levels
from sim2cam.render.optics.lens_effects import apply_lateral_color
from sim2cam.render.sensor.auto_exposure import choose_settings
from sim2cam.render.sensor.sensor import develop
from sim2cam.scene.lens_effects import LateralColor
from sim2cam.scene.sensor import Sensor
from tests.adapt.calibration.conftest import chessboard_picture

PLAIN = Sensor(0.0, 1.0, 1.0, 0.0, 0.0, 1e6, 0.0, 0.0, 1.0, 1.0, 0.0, 100, 0)


def grey(light):
    return np.repeat(np.asarray(light, np.float32)[..., None], 3, axis=-1)


def checks(shape=(480, 640), side=30):
    y, x = np.mgrid[: shape[0], : shape[1]]
    u, v = x * np.cos(0.2) + y * np.sin(0.2), y * np.cos(0.2) - x * np.sin(0.2)
    return grey(0.1 + 0.5 / (1 + np.exp(-8 * np.sin(u * np.pi / side) * np.sin(v * np.pi / side))))


def test_levels_are_the_renderers_own():
    light = np.linspace(0.0, 0.95, 200)
    shown = develop(grey(np.tile(light, (4, 1))), PLAIN)
    gain = choose_settings(grey(np.tile(light, (4, 1))), None).gain
    assert shown[0, :, 0] == pytest.approx(encode_levels(light * gain), abs=1.0)
    levels = np.arange(256)
    assert encode_levels(decode_levels(levels))[:254] == pytest.approx(levels[:254], abs=1e-6)


@pytest.mark.parametrize("lost", [0.0, 0.2, 0.5])
def test_falloff_is_told_in_spite_of_what_is_seen(lost):
    rng = np.random.default_rng(0)
    bumps = rng.normal(0, 1, (480, 640))
    y, x = np.mgrid[-1:1:480j, -1:1:640j]
    light = 0.25 * (1 + 0.2 * x + 0.02 * bumps) * (1 - lost * (x * x + y * y) / 2)
    picture = encode_levels(grey(light)).round().astype(np.uint8)
    turned = picture[:, ::-1]  # light from one side biases one photo, and the other back
    assert (estimate_vignetting(picture) + estimate_vignetting(turned)) / 2 == pytest.approx(
        lost, abs=0.05
    )


def test_falloff_is_told_though_it_is_less_than_a_level_from_tile_to_tile():
    y, x = np.mgrid[-1:1:480j, -1:1:640j]
    light = grey(0.2 * (1 - 0.1 * (x * x + y * y) / 2))
    noise = np.random.default_rng(0).normal(0, 1.5, light.shape)
    picture = (encode_levels(light) + noise).round().astype(np.uint8)
    assert estimate_vignetting(picture) == pytest.approx(0.1, abs=0.01)


def test_falloff_is_not_told_where_nothing_is_even():
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3)).astype(np.uint8)
    black = np.zeros((480, 640, 3), np.uint8)
    assert np.isnan(estimate_vignetting(black))
    assert np.isnan(estimate_vignetting(black[:9, :9]))
    assert np.isnan(estimate_vignetting(noise))


@pytest.mark.parametrize(("red", "blue"), [(0.001, -0.0005), (-0.002, 0.0015), (0.0, 0.0)])
def test_fringes_are_those_of_the_glass(red, blue):
    light = apply_lateral_color(checks(), LateralColor(red, blue), (319.5, 239.5))
    picture = encode_levels(light).round().clip(0, 255).astype(np.uint8)
    assert estimate_lateral_color(picture) == pytest.approx([red, blue], abs=6e-5)


def test_fringes_are_not_told_without_edges():
    assert np.isnan(estimate_lateral_color(np.full((480, 640, 3), 90, np.uint8))).all()
    assert np.isnan(estimate_lateral_color(np.zeros((20, 20, 3), np.uint8))).all()


def test_paper_tells_the_white_balance():
    picture, _ = chessboard_picture()
    seen = detect_board("a.jpg", picture, None)
    tinted = (
        encode_levels(decode_levels(picture)[..., None] * [0.55, 0.5, 0.4]).round().astype(np.uint8)
    )
    assert measure_board_white(tinted, seen) == pytest.approx([1.1, 0.8], rel=0.02)
    assert np.isnan(measure_board_white(np.full_like(tinted, 255), seen)).all()


def test_the_renderers_meter_finds_its_own_exposure_and_gains():
    light = checks()
    for stops, red in ((0.0, 1.0), (-0.7, 1.2)):
        sensor = Sensor(stops, red, 1.0, 0.0, 0.0, 1e6, 0.0, 0.0, 1.0, 1.0, 0.0, 100, 0)
        found, _, white = measure_exposure(develop(light.copy(), sensor))
        assert found == pytest.approx(stops + np.log2((1 + 1 + red) / 3), abs=0.06)
        assert white == pytest.approx([red, 1.0], rel=0.03)


@pytest.mark.parametrize("contrast", [0.8, 1.4])
def test_what_contrast_does_to_the_exposure_is_undone_where_contrast_is_known(contrast):
    sensor = replace(PLAIN, exposure_ev=-0.4, tone_contrast=contrast)
    found, grey, _ = measure_exposure(develop(checks(), sensor))
    assert found + grey * (1 / contrast - 1) == pytest.approx(-0.4, abs=0.06)


def test_clipped_pixels_are_not_taken_for_white():
    """They are white whatever the camera's white balance is, and count most as they are the brightest."""
    light = checks()
    light[:200] = 4.0  # a window
    sensor = replace(PLAIN, red_gain=1.2, blue_gain=0.8)
    _, _, white = measure_exposure(develop(light, sensor))
    assert white == pytest.approx([1.2, 0.8], rel=0.03)
    _, _, white = measure_exposure(np.full((64, 64, 3), 255, np.uint8))
    assert np.isnan(white).all()


def test_black_photos_have_no_exposure():
    exposure, grey, white = measure_exposure(np.zeros((64, 64, 3), np.uint8))
    assert np.isnan([exposure, grey, *white]).all()
