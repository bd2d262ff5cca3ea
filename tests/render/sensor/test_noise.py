"""Noise of the sensor: that its deviates are normal, each for itself, and the same for a seed."""

import numpy as np
import pytest
from scipy.stats import kstest

from sim2cam.render.sensor.noise import sample_standard_normal

SHAPE = (480, 640, 3)  # more than are made at once


def drawn(seed=0, shape=SHAPE):
    return sample_standard_normal(np.random.default_rng(seed), shape)


def test_deviates_are_normal():
    values = drawn()
    assert values.shape == SHAPE
    assert values.dtype == np.float32
    found = values.astype(np.float64).ravel()
    for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3)):
        scatter = 4 / np.sqrt(found.size) * (found**power).std()
        assert (found**power).mean() == pytest.approx(moment, abs=scatter)
    assert kstest(found, "norm").pvalue > 0.01
    assert 4 < np.abs(found).max() < 4.4


def test_neighbours_do_not_tell_of_one_another():
    values = drawn(seed=1)
    least = 4 / np.sqrt(values.size)
    for axis in range(3):
        other = np.roll(values, 1, axis)
        assert (values * other).mean() == pytest.approx(0, abs=least)
        assert (values**2 * other**2).mean() == pytest.approx(1, abs=4 * least)


def test_a_seed_decides_them():
    assert np.array_equal(drawn(3), drawn(3))
    assert not np.array_equal(drawn(3), drawn(4))
    assert drawn(3, (5, 1)).shape == (5, 1)
