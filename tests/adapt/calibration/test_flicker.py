"""Bands of lamps that flicker, where rows are exposed one after another."""

import os
from pathlib import Path

import numpy as np
import pytest

from sim2cam import images
from sim2cam.adapt.calibration.flicker import estimate_band_count, measure_row_profile
from sim2cam.adapt.calibration.linearization import decode_levels, encode_levels

REAL = Path(os.environ.get("SIM2CAM_REAL", "none")) / "dice"


def scene(rng, size=(320, 400)):
    """Returns the light (h, w, 3) of blocks on an uneven floor, other each time."""
    y, x = np.mgrid[-1 : 1 : size[0] * 1j, -1 : 1 : size[1] * 1j]
    light = 0.2 * np.exp(
        0.3 * rng.normal() * x + 0.3 * rng.normal() * y + 0.2 * rng.normal() * y**2
    )
    for _ in range(12):
        top, left = rng.integers(0, size[0] - 60), rng.integers(0, size[1] - 60)
        high, wide = rng.integers(20, 60, 2)
        light[top : top + high, left : left + wide] = rng.uniform(0.05, 0.5)
    noisy = light[..., None] + rng.normal(0, 0.01, (*size, 3))
    return np.clip(noisy, 0.003, 0.75)


def banded(light, cycles, share, rng):
    """Returns the levels of light under lamps that flicker so often while its rows are read."""
    place = (np.arange(len(light)) + 0.5) / len(light)
    wave = 1 + share * np.cos(2 * np.pi * (cycles * place + rng.uniform()))
    return encode_levels(np.clip(light * wave[:, None, None], 0, 0.99)).round().astype(np.uint8)


def profiles(cycles, share, seed=0, count=8):
    rng = np.random.default_rng(seed)
    return np.array(
        [measure_row_profile(banded(scene(rng), cycles, share, rng)) for _ in range(count)]
    )


@pytest.mark.parametrize("cycles", [2.4, 5.0, 11.3])
def test_bands_are_counted(cycles):
    assert estimate_band_count(profiles(cycles, 0.1)) == pytest.approx(cycles, abs=0.3)


@pytest.mark.parametrize("seed", range(5))
def test_where_there_are_none_none_are_seen(seed):
    assert estimate_band_count(profiles(5.0, 0.0, seed)) is None


def test_pictures_without_light_to_tell_from_have_none():
    dark = measure_row_profile(np.zeros((100, 100, 3), np.uint8))
    assert (dark == 0).all()
    assert estimate_band_count(np.array([dark] * 4)) is None


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason="no real dice in $SIM2CAM_REAL")
@pytest.mark.parametrize("cycles", [None, 2.5, 4.1, 9.0])
def test_bands_in_photos_are_seen_where_they_are_put_and_nowhere_else(cycles):
    rng = np.random.default_rng(0)
    found = []
    for path in sorted((REAL / "train").glob("*.jpg"))[::10]:
        light = decode_levels(images.read_rgb(path))
        found.append(measure_row_profile(banded(light, cycles or 0.0, 0.1 if cycles else 0.0, rng)))
    expected = None if cycles is None else pytest.approx(cycles, abs=0.3)
    assert estimate_band_count(np.array(found)) == expected
