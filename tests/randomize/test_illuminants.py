import math

import numpy as np
import pytest

from sim2cam.randomize.illuminants import (
    _XYZ_TO_SRGB,
    compute_air_mass,
    compute_blackbody_color,
    compute_daylight,
    compute_direction,
    compute_sun_position,
    compute_tint,
)

# chromaticities of the Planckian locus: CIE illuminant A, and Wyszecki and Stiles' table
KNOWN = [
    (2856, 0.4476, 0.4074),
    (5000, 0.3451, 0.3516),
    (6500, 0.3135, 0.3236),
    (10000, 0.2807, 0.2884),
]


@pytest.mark.parametrize(("kelvin", "x", "y"), KNOWN)
def test_black_bodies_have_the_colours_that_the_cie_gives_them(kelvin, x, y):
    xyz = np.linalg.inv(_XYZ_TO_SRGB) @ compute_blackbody_color(kelvin)
    assert xyz[1] == pytest.approx(1.0, abs=1e-6)
    assert xyz[:2] / xyz.sum() == pytest.approx([x, y], abs=2e-3)


def test_what_is_white_to_the_camera_has_no_tint():
    assert compute_tint(4000, 4000) == pytest.approx((1.0, 1.0, 1.0))
    reds = [
        compute_tint(kelvin, 5000)[0] / compute_tint(kelvin, 5000)[2]
        for kelvin in (2000, 3000, 5000, 9000)
    ]
    assert reds == sorted(reds, reverse=True)
    assert all(np.mean(compute_tint(kelvin, 6504)) == pytest.approx(1) for kelvin in (1500, 20000))


def test_the_sun_stands_where_it_does():
    solstice, equinox, north = 172, 81, math.radians(50)
    up, around = compute_sun_position(12, solstice, north)
    assert math.degrees(up) == pytest.approx(90 - 50 + 23.44, abs=0.05)
    assert math.degrees(around) == pytest.approx(180)
    up, around = compute_sun_position(6, equinox, north)
    assert math.degrees(up) == pytest.approx(0, abs=1)
    assert math.degrees(around) == pytest.approx(90, abs=1)
    assert math.degrees(compute_sun_position(18, equinox, north)[1]) == pytest.approx(270, abs=1)
    assert math.degrees(
        compute_sun_position(12, solstice, math.radians(-50))[1]
    ) % 360 == pytest.approx(0, abs=1e-6)


def test_air_is_one_straight_up_and_38_at_the_horizon():
    assert compute_air_mass(math.pi / 2) == pytest.approx(1, abs=1e-3)
    assert compute_air_mass(math.radians(30)) == pytest.approx(2, abs=0.01)
    assert compute_air_mass(0.0) == pytest.approx(37.9, abs=0.2)


def test_a_low_sun_is_weak_and_red_and_at_night_there_is_none():
    place = (172, math.radians(50), 0.7, 5500)
    noon, evening, night = (compute_daylight(hour, *place) for hour in (12, 19.5, 23))
    assert sum(noon.sun) > 10 * sum(evening.sun) > 0
    assert evening.sun[0] / evening.sun[2] > 2 * noon.sun[0] / noon.sun[2]
    assert night.sun == night.sky == (0.0, 0.0, 0.0)
    # Campbell and Norman: three tenths of what the beam loses comes from the sky, the rest not at all
    lost = 1 - np.mean(noon.sun)
    assert np.mean(noon.sky) * math.pi == pytest.approx(0.3 * lost * math.sin(noon.elevation_rad))


def test_clear_skies_are_bluer_than_overcast_ones():
    clear, dull = (compute_daylight(10, 172, 0.9, share, 6500).sky for share in (0.75, 0.4))
    assert clear[2] / clear[0] > dull[2] / dull[0] == pytest.approx(1, abs=0.02)


def test_directions_are_unit_vectors():
    assert compute_direction(math.pi / 6, math.pi / 2) == pytest.approx(
        (0, math.cos(math.pi / 6), 0.5)
    )
