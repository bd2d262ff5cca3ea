"""Exposure and white balance: what they choose, and how they follow the light through a film."""

import math

import numpy as np
import pytest

from sim2cam.render.sensor.auto_exposure import (
    METERING_TARGET,
    AutoSettings,
    PreviousSettings,
    choose_settings,
)
from sim2cam.scene.sensor import Automatics

WARM = np.array([1.0, 0.7, 0.4], np.float32)


def flat(level, color=(1.0, 1.0, 1.0)):
    return np.full((40, 60, 3), level, np.float32) * np.array(color, np.float32)


def film(levels, automatics, interval_s=0.1, color=(1.0, 1.0, 1.0)):
    """The settings of each picture of a film of such levels."""
    chosen = [choose_settings(flat(levels[0], color), automatics)]
    for level in levels[1:]:
        chosen.append(
            choose_settings(
                flat(level, color), automatics, PreviousSettings(chosen[-1], interval_s)
            )
        )
    return chosen


def test_without_automatics_every_image_is_metered_again_and_white_stays():
    for level, settings in zip((0.1, 5.0, 0.3), film((0.1, 5.0, 0.3), None), strict=True):
        assert settings.gain * level == pytest.approx(METERING_TARGET)
        assert (settings.red_gain, settings.blue_gain) == (1.0, 1.0)


def test_the_exposure_goes_63_percent_of_its_way_in_stops_in_its_lag():
    dark, *bright = film((0.1, *(1.6,) * 9), Automatics(exposure_lag_s=0.3))
    stops = [math.log2(dark.gain / s.gain) for s in bright]
    assert stops == pytest.approx([4 * (1 - math.exp(-0.1 * n / 0.3)) for n in range(1, 10)])


def test_the_lag_is_of_time_and_not_of_images():
    slow = film((0.1, *(1.6,) * 3), Automatics(exposure_lag_s=0.3), interval_s=0.2)
    fast = film((0.1, *(1.6,) * 6), Automatics(exposure_lag_s=0.3), interval_s=0.1)
    assert slow[-1].gain == pytest.approx(fast[-1].gain)


def test_a_fixed_exposure_follows_no_light():
    for lag_s in (0.0, 0.5):
        levels = (0.1, 1.6, 0.3)
        found = film(levels, Automatics(exposure_lag_s=lag_s, white_balance=1.0, fixed_gain=0.4))
        assert [settings.gain for settings in found] == [0.4] * 3


def test_another_eye_takes_over_what_the_first_one_chose():
    first = AutoSettings(3.0, 0.9, 1.2)
    for automatics in (None, Automatics(1.0, 1.0, 1.0)):
        assert choose_settings(flat(9.0, WARM), automatics, PreviousSettings(first, 0.0)) == first


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_white_balance_takes_its_share_of_the_cast_out(share):
    settings = choose_settings(flat(0.3, WARM), Automatics(white_balance=share))
    assert WARM[0] * settings.red_gain / WARM[1] == pytest.approx(
        (1.0 / 0.7) ** (1 - share), rel=1e-5
    )
    assert WARM[2] * settings.blue_gain / WARM[1] == pytest.approx(
        (0.4 / 0.7) ** (1 - share), rel=1e-5
    )


def test_white_follows_with_its_own_lag():
    of = Automatics(exposure_lag_s=0.0, white_balance=1.0, white_lag_s=0.2)
    before = choose_settings(flat(1.0), of)
    after = choose_settings(flat(1.0, WARM), of, PreviousSettings(before, 0.2))
    assert math.log(after.red_gain) / math.log(0.7) == pytest.approx(1 - math.exp(-1), rel=1e-4)
    assert after.gain * WARM.mean() == pytest.approx(METERING_TARGET, rel=1e-5)


def test_brightness_does_not_change_white():
    of = Automatics(white_balance=1.0)
    dim, bright = choose_settings(flat(1e-3, WARM), of), choose_settings(flat(1e3, WARM), of)
    assert (dim.red_gain, dim.blue_gain) == pytest.approx(
        (bright.red_gain, bright.blue_gain), rel=1e-4
    )


def test_darkness_has_finite_settings():
    settings = choose_settings(flat(0.0), Automatics(0.1, 1.0, 0.1))
    assert all(
        math.isfinite(v) and v > 0 for v in (settings.gain, settings.red_gain, settings.blue_gain)
    )
