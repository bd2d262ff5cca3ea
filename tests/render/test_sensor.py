from dataclasses import replace

import numpy as np
import pytest

from sim2cam import images
from sim2cam.render.automatics import METERED_LEVEL
from sim2cam.render.sensor import develop, take


def linear(picture):
    """Linear values of an sRGB picture (IEC 61966-2-1)."""
    c = picture.astype(np.float64) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def flat(level=1.0, size=(200, 300)):
    return np.full((*size, 3), level, np.float32)


def scenery():
    rng = np.random.default_rng(3)
    return rng.uniform(0.05, 0.5, (60, 80, 3)).astype(np.float32)


@pytest.mark.parametrize("level", [1e-4, 0.3, 50.0])
def test_the_meter_gives_any_light_the_same_exposure(make, level):
    picture = linear(develop(flat(level), make.neutral))
    assert picture.mean() == pytest.approx(METERED_LEVEL, rel=0.01)


def test_the_meter_keeps_bright_parts_below_white(make):
    radiance = flat(0.01)
    radiance[:, :60] = 1.0  # a fifth of the picture is a hundred times brighter
    assert develop(radiance, make.neutral)[:, :60].max() < 255


def test_darkness_stays_dark(make):
    assert develop(flat(0.0), make.neutral).max() == 0


@pytest.mark.parametrize("full_well_e", [400.0, 2000.0])
@pytest.mark.parametrize("read_noise_e", [0.0, 12.0])
@pytest.mark.parametrize("exposure_ev", [-2.0, 0.0])
def test_noise_is_poisson_and_gaussian(make, full_well_e, read_noise_e, exposure_ev):
    sensor = replace(
        make.neutral, full_well_e=full_well_e, read_noise_e=read_noise_e, exposure_ev=exposure_ev
    )
    found = linear(develop(flat(), sensor))
    level = METERED_LEVEL * 2**exposure_ev
    expected = level / full_well_e + (read_noise_e / full_well_e) ** 2
    step = 1.1 / 255 * level**0.58  # width of a byte there
    assert found.mean() == pytest.approx(level, rel=0.01)
    assert found.var() == pytest.approx(expected + step**2 / 12, rel=0.05)


def test_noise_is_independent_between_pixels_and_channels(make):
    sensor = replace(make.neutral, full_well_e=400.0)
    noise = linear(develop(flat(), sensor)) - METERED_LEVEL
    pairs = [(noise[:, 1:], noise[:, :-1]), (noise[1:], noise[:-1]), (noise[..., 0], noise[..., 1])]
    for a, b in pairs:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02


def test_one_stop_doubles_the_level(make):
    levels = [
        linear(develop(flat(), replace(make.neutral, exposure_ev=ev))).mean()
        for ev in (-3.0, -2.0, -1.0, 0.0)
    ]
    assert np.allclose(np.divide(levels[1:], levels[:-1]), 2, rtol=0.02)


def test_vignetting_darkens_the_corners_by_its_strength(make):
    picture = linear(develop(flat(), replace(make.neutral, vignetting=0.4, exposure_ev=-1.0)))
    middle = picture[100, 150].mean()
    for corner in (picture[0, 0], picture[0, -1], picture[-1, 0], picture[-1, -1]):
        assert corner.mean() / middle == pytest.approx(0.6, abs=0.02)
    assert picture[100, 0].mean() / middle == pytest.approx(0.8, abs=0.02)


def test_gains_colour_the_picture(make):
    picture = linear(develop(flat(), replace(make.neutral, red_gain=1.25, blue_gain=0.8)))
    red, green, blue = picture.mean(axis=(0, 1))
    assert red / green == pytest.approx(1.25, rel=0.02)
    assert blue / green == pytest.approx(0.8, rel=0.02)


def test_blur_spreads_a_point_by_its_width(make):
    radiance = flat(0.0, (41, 41))
    radiance[20, 20] = 1.0
    sharp = linear(develop(radiance, replace(make.neutral, exposure_ev=-12.0)))
    assert (sharp[20, 20] > 0).all()
    assert np.delete(sharp.sum(axis=-1).ravel(), 20 * 41 + 20).max() == 0
    wide = linear(develop(radiance, replace(make.neutral, blur_px=1.5, exposure_ev=-9.0)))
    weights = wide[..., 1] / wide[..., 1].sum()
    spread = (weights * (np.arange(41) - 20) ** 2).sum()
    assert spread == pytest.approx(1.5**2, rel=0.15)


def test_saturation_scales_colour_and_none_leaves_grey(make):
    radiance = flat() * np.array([1.0, 0.7, 0.5], np.float32)
    picture = develop(radiance, replace(make.neutral, saturation=0.0)).astype(int)
    assert np.ptp(picture, axis=-1).max() == 0
    strong = develop(radiance, replace(make.neutral, saturation=1.3)).astype(int)
    plain = develop(radiance, make.neutral).astype(int)
    assert np.ptp(strong[0, 0]) > np.ptp(plain[0, 0])


def test_tone_contrast_turns_around_middle_grey(make):
    for ev in (-3.0, 0.0):
        plain, steep = (
            linear(develop(flat(), replace(make.neutral, exposure_ev=ev, tone_contrast=c))).mean()
            for c in (1.0, 1.4)
        )
        assert steep == pytest.approx(0.18 * (plain / 0.18) ** 1.4, rel=0.03)


def test_sharpening_and_denoising_change_local_contrast(make):
    noisy = replace(make.neutral, full_well_e=400.0)
    spread = [
        develop(flat(), replace(noisy, **options)).astype(float).std()
        for options in ({"denoise": 1.0}, {}, {"sharpening": 0.8})
    ]
    assert spread[0] < 0.7 * spread[1]
    assert spread[2] > 1.3 * spread[1]


def test_pictures_are_bytes_of_the_size_of_the_radiance(make):
    picture = develop(scenery(), make.neutral)
    assert (picture.shape, picture.dtype) == ((60, 80, 3), np.uint8)


def test_equal_sensors_give_equal_bytes_and_other_noise_seeds_do_not(make):
    noisy = replace(make.neutral, full_well_e=500.0, noise_seed=4)
    assert take(scenery(), noisy).jpeg == take(scenery(), noisy).jpeg
    other = take(scenery(), replace(noisy, noise_seed=5)).jpeg
    assert other != take(scenery(), noisy).jpeg


def test_jpeg_quality_decides_size_and_loss(make):
    radiance = scenery()
    plain = develop(radiance, make.neutral).astype(float)
    sizes, losses = [], []
    for quality in (30, 60, 95):
        file = take(radiance, replace(make.neutral, jpeg_quality=quality)).jpeg
        sizes.append(len(file))
        losses.append(np.abs(images.decode_jpeg(file) - plain).mean())
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.5 * sizes[2]
    assert losses == sorted(losses, reverse=True)
