from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.render.sensor.auto_exposure import METERING_TARGET, PreviousSettings
from sim2cam.render.sensor.sensor import capture_image, develop
from sim2cam.scene.sensor import Automatics, Mosaic, Processing


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
    assert picture.mean() == pytest.approx(METERING_TARGET, rel=0.01)


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
    level = METERING_TARGET * 2**exposure_ev
    expected = level / full_well_e + (read_noise_e / full_well_e) ** 2
    step = 1.1 / 255 * level**0.58  # width of a byte there
    assert found.mean() == pytest.approx(level, rel=0.01)
    assert found.var() == pytest.approx(expected + step**2 / 12, rel=0.05)


@pytest.mark.parametrize("read_noise_e", [0.0, 12.0])
def test_a_colour_of_fewer_electrons_is_noisier(make, read_noise_e):
    sensor = replace(
        make.neutral,
        full_well_e=1600.0,
        read_noise_e=read_noise_e,
        red_response=0.5,
        blue_response=0.25,
    )
    found = linear(develop(flat(), sensor))
    full = 1600.0 * np.array([0.5, 1.0, 0.25])
    expected = METERING_TARGET / full + (read_noise_e / full) ** 2
    assert found.mean(axis=(0, 1)) == pytest.approx([METERING_TARGET] * 3, rel=0.01)
    assert found.var(axis=(0, 1)) == pytest.approx(expected, rel=0.06)


def test_noise_is_independent_between_pixels_and_channels(make):
    sensor = replace(make.neutral, full_well_e=400.0)
    noise = linear(develop(flat(), sensor)) - METERING_TARGET
    pairs = [(noise[:, 1:], noise[:, :-1]), (noise[1:], noise[:-1]), (noise[..., 0], noise[..., 1])]
    for a, b in pairs:
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.02


def test_at_a_fixed_exposure_images_differ_in_brightness_as_their_light_does(make):
    by_hand = replace(make.neutral, automatics=Automatics(fixed_gain=0.5))
    levels = [linear(develop(flat(light), by_hand)).mean() for light in (0.1, 0.4, 1.2)]
    assert levels == pytest.approx([0.05, 0.2, 0.6], rel=0.02)
    brighter = linear(develop(flat(0.4), replace(by_hand, exposure_ev=1.0))).mean()
    assert brighter == pytest.approx(0.4, rel=0.02)


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


def test_the_tone_curve_can_be_switched_off(make):
    """Of a ramp at contrast 1, without the shoulder: sRGB to rounding, and full white."""
    exposed = np.linspace(0, 1.5, 3000, dtype=np.float32)
    radiance = np.tile(exposed[:, None, None], (1, 40, 3))
    plain = replace(make.neutral, full_well_e=np.inf, tone_shoulder=1.0)
    gain = capture_image(radiance, plain).auto_settings.gain
    level = np.clip(exposed * gain * 2, 0, 1).astype(np.float64)
    curve = np.where(level <= 0.0031308, 12.92 * level, 1.055 * level ** (1 / 2.4) - 0.055)
    found = develop(radiance, replace(plain, exposure_ev=1.0))[:, 0].astype(int)
    assert np.abs(found - 255 * curve[:, None]).max() < 0.52
    assert found[level == 1].min() == 255


@pytest.mark.parametrize(
    ("numbers", "white"),
    [
        ({}, 247),
        ({"tone_shoulder": 1.0}, 255),
        ({"tone_contrast": 0.8}, 219),
        ({"tone_contrast": 1.4, "tone_shoulder": 1.0, "saturation": 1.3}, 255),
        ({"tone_shoulder": 0.0}, 208),
    ],
)
def test_saturated_light_is_as_white_as_the_shoulder_leaves_it(make, numbers, white):
    picture = develop(flat(), replace(make.neutral, exposure_ev=6.0, full_well_e=np.inf, **numbers))
    assert np.unique(picture).tolist() == [white]


def test_gains_colour_the_image(make):
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


def test_images_are_bytes_of_the_size_of_the_radiance(make):
    picture = develop(scenery(), make.neutral)
    assert (picture.shape, picture.dtype) == ((60, 80, 3), np.uint8)


def test_equal_sensors_give_equal_bytes_and_other_noise_seeds_do_not(make):
    noisy = replace(make.neutral, full_well_e=500.0, noise_seed=4)
    assert capture_image(scenery(), noisy).encoded == capture_image(scenery(), noisy).encoded
    other = capture_image(scenery(), replace(noisy, noise_seed=5)).encoded
    assert other != capture_image(scenery(), noisy).encoded


def test_a_png_loses_nothing(make):
    file = capture_image(
        scenery(), replace(make.neutral, file_format="png", jpeg_quality=1)
    ).encoded
    assert file.startswith(b"\x89PNG")
    assert np.array_equal(images.decode_image(file), develop(scenery(), make.neutral))


def test_jpeg_quality_decides_size_and_loss(make):
    radiance = scenery()
    plain = develop(radiance, make.neutral).astype(float)
    sizes, losses = [], []
    for quality in (30, 60, 95):
        file = capture_image(radiance, replace(make.neutral, jpeg_quality=quality)).encoded
        sizes.append(len(file))
        losses.append(np.abs(images.decode_image(file) - plain).mean())
    assert sizes == sorted(sizes)
    assert sizes[0] < 0.5 * sizes[2]
    assert losses == sorted(losses, reverse=True)


RGGB = Mosaic("RGGB", 14, crosstalk=0.1)


@pytest.mark.parametrize("processing", [None, Processing()])
def test_processing_that_does_nothing_changes_no_byte(make, processing):
    noisy = replace(make.neutral, full_well_e=500.0, vignetting=0.3, denoise=0.4, sharpening=0.5)
    plain = capture_image(scenery(), noisy)
    same = capture_image(scenery(), replace(noisy, processing=processing, automatics=Automatics()))
    assert same.encoded == plain.encoded
    assert same.raw is None


def test_a_mosaic_gives_the_same_image_where_it_is_even(make):
    radiance = flat() * np.array([0.9, 0.7, 0.5], np.float32)
    sensor = replace(make.neutral, full_well_e=1e8, red_response=0.5, blue_response=0.6)
    plain, behind = (
        develop(radiance, replace(sensor, mosaic=mosaic)).astype(int) for mosaic in (None, RGGB)
    )
    assert np.abs(plain - behind).max() <= 1


def test_the_raw_image_is_exposed_by_the_meter(make):
    photo = capture_image(flat(3.0), replace(make.neutral, full_well_e=1e8, mosaic=RGGB))
    green = photo.raw[::2, 1::2].astype(float) - RGGB.black_level()
    level = green / (RGGB.white_level() - RGGB.black_level())
    assert (photo.raw.shape, photo.raw.dtype) == ((200, 300), np.uint16)
    assert level.mean() == pytest.approx(METERING_TARGET, rel=1e-3)


def test_shading_is_corrected_and_its_noise_grows(make):
    sensor = replace(make.neutral, vignetting=0.6, exposure_ev=-1.0, full_well_e=500.0, mosaic=RGGB)
    fixed = replace(sensor, processing=Processing(shading_correction=1.0))
    dark, even = (linear(develop(flat(), s)) for s in (sensor, fixed))
    assert dark[:20, :20].mean() / dark[90:110, 140:160].mean() == pytest.approx(0.48, abs=0.03)
    assert even[:20, :20].mean() / even[90:110, 140:160].mean() == pytest.approx(1, abs=0.05)
    assert even[:20, :20].std() > 1.3 * even[90:110, 140:160].std()


def test_colour_noise_is_hidden_and_brightness_stays(make):
    noisy = replace(make.neutral, full_well_e=300.0)
    plain, smooth = (
        cv2.cvtColor(develop(flat(), s), cv2.COLOR_RGB2YCrCb).astype(float)
        for s in (noisy, replace(noisy, processing=Processing(chroma_blur_px=2.0)))
    )
    assert smooth[..., 1].std() < 0.3 * plain[..., 1].std()
    assert smooth[..., 0].std() == pytest.approx(plain[..., 0].std(), rel=0.05)


def test_white_balance_takes_the_light_s_colour_out(make):
    warm = flat() * np.array([1.0, 0.7, 0.45], np.float32)
    corrected = replace(make.neutral, automatics=Automatics(white_balance=1.0))
    red, green, blue = linear(develop(warm, corrected)).mean(axis=(0, 1))
    assert (red, blue) == pytest.approx((green, green), rel=0.02)


def test_coarser_colour_makes_smaller_files(make):
    radiance = scenery() * np.array([1.5, 0.7, 0.4], np.float32)
    sizes = [
        len(
            capture_image(
                radiance, replace(make.neutral, processing=Processing(jpeg_subsampling=s))
            ).encoded
        )
        for s in ("444", "422", "420")
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[2] < 0.8 * sizes[0]


def test_an_image_is_exposed_as_the_one_before_it_where_the_camera_lags(make):
    lagging = replace(make.neutral, automatics=Automatics(exposure_lag_s=1.0))
    first = capture_image(flat(1.0), lagging)
    later = capture_image(flat(4.0), lagging, PreviousSettings(first.auto_settings, 0.01))
    assert later.auto_settings.gain == pytest.approx(first.auto_settings.gain, rel=0.02)
    assert images.decode_image(later.encoded).min() > 240
