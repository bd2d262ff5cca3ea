"""The mosaic against EMVA 1288: photon transfer, patterns, levels; and colour back out of it."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.render.sensor.mosaic import demosaic_raw, simulate_raw
from sim2cam.scene.sensor import Mosaic

SIZE = (160, 240)
PATTERNS = ("RGGB", "BGGR", "GRBG", "GBRG")
PLAIN = Mosaic("RGGB", bits=16)


@pytest.fixture
def sensor(make):
    return replace(make.neutral, full_well_e=4000.0)


def flat(level, size=SIZE):
    return np.full((*size, 3), level, np.float32)


def electrons(raw, mosaic, sensor):
    black, white = mosaic.black_level(), mosaic.white_level()
    return (raw.astype(np.float64) - black) * sensor.full_well_e / (white - black)


def counts(level, sensor, mosaic=PLAIN, **options):
    """Electrons (h, w) that are read of an even light."""
    mosaic = replace(mosaic, **options)
    return electrons(simulate_raw(flat(level), sensor, mosaic), mosaic, sensor)


@pytest.mark.parametrize("read_noise_e", [0.0, 20.0])
def test_variance_grows_with_the_signal_by_one_electron_an_electron(sensor, read_noise_e):
    """The photon transfer curve; over the full well its slope is 1 / full well."""
    sensor = replace(sensor, read_noise_e=read_noise_e)
    levels = np.linspace(0.1, 0.8, 8)
    found = [counts(level, sensor) for level in levels]
    slope, offset = np.polyfit([f.mean() for f in found], [f.var() for f in found], 1)
    assert slope == pytest.approx(1, rel=0.05)
    assert offset == pytest.approx(read_noise_e**2, abs=60)
    assert [f.mean() for f in found] == pytest.approx(levels * 4000, rel=0.002)


def test_a_mosaic_without_a_last_electron_is_refused(sensor):
    problem = "sensor: a mosaic counts electrons, so full_well_e must be finite, not inf. Set 1e9 for an image without noise."
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        replace(sensor, full_well_e=np.inf, mosaic=PLAIN)
    assert counts(0.5, replace(sensor, full_well_e=1e9)).std() < 1e-4 * 1e9


def test_dark_current_adds_its_electrons_with_shot_noise(sensor):
    dark = counts(0.0, sensor, dark_e=50.0)
    assert dark.mean() == pytest.approx(50, rel=0.02)
    assert dark.var() == pytest.approx(50, rel=0.05)


def test_fixed_patterns_stay_from_image_to_image_and_noise_does_not(sensor):
    pictures = np.array(
        [
            counts(0.5, replace(sensor, noise_seed=seed), prnu=0.05, dsnu_e=30.0)
            for seed in range(24)
        ]
    )
    spatial = pictures.mean(axis=0).var() - pictures.var(axis=0, ddof=1).mean() / 24
    assert spatial == pytest.approx((0.05 * 2000) ** 2 + 30.0**2, rel=0.05)
    assert pictures.var(axis=0, ddof=1).mean() == pytest.approx(2000, rel=0.05)
    one, other = (
        counts(0.5, replace(sensor, noise_seed=seed), prnu=0.05, pattern_seed=seed)
        for seed in (1, 2)
    )
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.05


def test_gains_differ_in_light_and_offsets_in_darkness(sensor):
    assert counts(0.5, sensor, prnu=0.1).std() > 3 * counts(0.0, sensor, prnu=0.1).std()
    assert counts(0.0, sensor, dsnu_e=40.0).std() == pytest.approx(40, rel=0.03)


def test_rows_band_and_columns_do_not(sensor):
    sensor = replace(sensor, read_noise_e=2.0)
    banded = counts(0.0, sensor, row_noise_e=25.0)
    assert banded.mean(axis=1).std() == pytest.approx(25, rel=0.15)
    assert banded.mean(axis=0).std() < 1
    other = counts(0.0, replace(sensor, noise_seed=9), row_noise_e=25.0)
    assert abs(np.corrcoef(banded.mean(axis=1), other.mean(axis=1))[0, 1]) < 0.3


def test_hot_pixels_are_as_many_and_as_hot_as_they_say_and_stay(sensor):
    hot = counts(0.0, sensor, hot_share=0.01, hot_e=300.0) > 40
    assert hot.mean() == pytest.approx(0.01 * np.exp(-40 / 300), rel=0.15)
    again = counts(0.0, replace(sensor, noise_seed=3), hot_share=0.01, hot_e=300.0)
    assert (again[hot] > 20).all()
    assert again[hot].mean() == pytest.approx(340, rel=0.15)


@pytest.mark.parametrize(
    "option",
    [{"prnu": 0.1}, {"dsnu_e": 20.0}, {"row_noise_e": 20.0}, {"hot_share": 0.01, "hot_e": 500.0}],
    ids=lambda option: next(iter(option)),
)
def test_each_kind_of_noise_is_added_to_the_others_unchanged(sensor, option):
    """What one adds, found by taking the picture without it away, is the same beside the rest."""
    rest = {"prnu": 0.02, "dsnu_e": 5.0, "row_noise_e": 5.0, "hot_share": 0.002, "hot_e": 200.0}
    rest = {name: value for name, value in rest.items() if name not in option}
    alone = counts(0.2, sensor, **option) - counts(0.2, sensor)
    beside = counts(0.2, sensor, **option, **rest) - counts(0.2, sensor, **rest)
    assert np.corrcoef(alone.ravel(), beside.ravel())[0, 1] > 0.98


@pytest.mark.parametrize("bits", [8, 10, 12, 14])
def test_numbers_are_rounded_between_black_and_white(sensor, bits):
    mosaic = replace(PLAIN, bits=bits)
    quiet = replace(sensor, full_well_e=1e9)
    raw = simulate_raw(flat(0.3), quiet, mosaic)
    black, white = mosaic.black_level(), mosaic.white_level()
    assert raw.dtype == np.uint16
    assert set(np.unique(raw)) <= {
        round(black + 0.3 * (white - black)) + d for d in (-2, -1, 0, 1, 2)
    }
    assert simulate_raw(flat(3.0), quiet, mosaic).min() == white
    assert np.abs(simulate_raw(flat(0.0), quiet, mosaic).astype(int) - black).max() <= 1


def test_noise_in_darkness_goes_below_black(sensor):
    raw = simulate_raw(flat(0.0), replace(sensor, read_noise_e=20.0), PLAIN)
    assert raw.min() < PLAIN.black_level() < raw.max()
    assert raw.mean() == pytest.approx(PLAIN.black_level(), abs=3)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_pixel_counts_the_colour_of_its_filter(sensor, pattern):
    quiet = replace(sensor, full_well_e=1e8)
    light = flat(1.0) * np.array([0.2, 0.5, 0.8], np.float32)
    found = (
        electrons(simulate_raw(light, quiet, replace(PLAIN, pattern=pattern)), PLAIN, quiet) / 1e8
    )
    levels = {"R": 0.2, "G": 0.5, "B": 0.8}
    corner = [found[0, 0], found[0, 1], found[1, 0], found[1, 1]]
    assert corner == pytest.approx([levels[color] for color in pattern], abs=1e-3)
    assert np.ptp(found[::2, 1::2]) < 2e-3


@pytest.mark.parametrize("demosaic", ["bilinear", "edge_aware"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_an_even_colour_stays_even(sensor, pattern, demosaic):
    mosaic = Mosaic(pattern, 14, crosstalk=0.1)
    light = flat(1.0) * np.array([0.3, 0.4, 0.2], np.float32)
    sensor = replace(sensor, full_well_e=1e9, red_response=0.5, blue_response=0.6)
    raw = simulate_raw(light, sensor, mosaic)
    found = demosaic_raw(raw, sensor, mosaic, demosaic, 1.0)
    assert found.shape == (*SIZE, 3)
    assert np.abs(found - light).max() < 1e-3


def test_a_grey_card_is_grey_and_saturation_is_white(sensor):
    mosaic = Mosaic("GRBG", 12, crosstalk=0.15)
    sensor = replace(sensor, full_well_e=1e9, red_response=0.45, blue_response=0.7)
    for level, wanted in ((0.18, 0.18), (0.9, 0.9), (1.0, 1.0), (2.5, 1.0)):
        raw = simulate_raw(flat(level), sensor, mosaic)
        found = demosaic_raw(raw, sensor, mosaic, "edge_aware", 1.0)
        assert np.abs(found - wanted).max() < 2e-3


def test_crosstalk_greys_colours_and_its_correction_adds_noise(sensor):
    mosaic = replace(PLAIN, crosstalk=0.15)
    light = flat(1.0) * np.array([0.6, 0.2, 0.2], np.float32)
    raw = simulate_raw(light, sensor, mosaic)
    pale, half, full = (
        demosaic_raw(raw, sensor, mosaic, "bilinear", share) for share in (0.0, 0.5, 1.0)
    )
    chroma = [float(f[..., 0].mean() - f[..., 1].mean()) for f in (pale, half, full)]
    assert chroma[0] == pytest.approx(0.4 * (1 - 3 * 0.15), rel=0.02)
    assert chroma[0] < chroma[1] < chroma[2]
    assert chroma[2] == pytest.approx(0.4, rel=0.02)
    assert full[..., 1].std() > 1.3 * pale[..., 1].std()


def test_interpolated_colours_are_correlated_with_their_neighbours(sensor):
    """What tells a mosaic's noise from that of a sensor that counts every colour."""
    noise = demosaic_raw(simulate_raw(flat(0.4), sensor, PLAIN), sensor, PLAIN, "bilinear", 1.0)[
        ..., 0
    ]
    assert np.corrcoef(noise[:, 1:].ravel(), noise[:, :-1].ravel())[0, 1] > 0.3


def test_equal_seeds_give_equal_numbers(sensor):
    mosaic = Mosaic("RGGB", 12, prnu=0.01, dsnu_e=2.0, row_noise_e=2.0, hot_share=0.01, hot_e=90.0)
    assert np.array_equal(
        simulate_raw(flat(0.3), sensor, mosaic), simulate_raw(flat(0.3), sensor, mosaic)
    )
    other = simulate_raw(flat(0.3), replace(sensor, noise_seed=5), mosaic)
    assert not np.array_equal(other, simulate_raw(flat(0.3), sensor, mosaic))


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 4), (7, 9)])
def test_images_of_any_size_are_coloured(sensor, size):
    raw = simulate_raw(flat(0.4, size), sensor, PLAIN)
    assert demosaic_raw(raw, sensor, PLAIN, "bilinear", 1.0).shape == (*size, 3)
