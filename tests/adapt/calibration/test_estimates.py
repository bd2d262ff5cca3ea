"""Findings: their intervals hold what they say, of few photos too."""

import numpy as np
import pytest

from sim2cam.adapt.calibration.estimates import (
    MONTE_CARLO_SAMPLES,
    compute_photo_std,
    estimate_from_samples,
    estimate_parameter,
)

LAWS = {
    "normal": lambda rng, n: rng.normal(0.0, 1.0, n),
    "laplace": lambda rng, n: rng.laplace(0.0, 1.0, n),
    "logistic": lambda rng, n: rng.logistic(0.0, 1.0, n),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("photos", [3, 4, 5])
def test_intervals_of_few_photos_hold_the_truth_as_often_as_they_say(photos, law):
    rng = np.random.default_rng(photos)
    found = [estimate_parameter("x", LAWS[law](rng, photos), rng) for _ in range(1500)]
    share = np.mean([one.ci95[0] <= 0 <= one.ci95[1] for one in found])
    assert share > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 1500)


@pytest.mark.parametrize("photos", [3, 4, 5])
def test_the_value_is_the_median_and_in_its_interval(photos):
    rng = np.random.default_rng(0)
    factors = rng.uniform(0.5, 2.0, MONTE_CARLO_SAMPLES)
    for _ in range(50):
        values = rng.lognormal(0.0, 1.0, photos)
        plain, scaled = (
            estimate_parameter("x", values, rng),
            estimate_parameter("x", values, rng, factors),
        )
        assert plain.ci95[0] <= plain.value <= plain.ci95[1]
        assert scaled.ci95[0] <= scaled.value <= scaled.ci95[1]
        assert plain.value == np.median(values)
        assert np.ptp(scaled.ci95) > np.ptp(plain.ci95)


def test_photos_that_agree_are_sure_and_unknown_ones_count_for_nothing():
    rng = np.random.default_rng(0)
    assert estimate_parameter("x", [2.0, 2.0, np.nan, 2.0], rng).ci95 == (2.0, 2.0)
    assert estimate_parameter("x", [2.0, np.nan, 2.0], rng).note.startswith(
        "2 usable photos, 3 are required."
    )
    assert estimate_parameter("x", [np.nan], rng, missing_note="why").note == "why"


def test_six_photos_are_resampled():
    values = np.arange(6.0)
    rng = np.random.default_rng(3)
    picks = np.random.default_rng(3).integers(6, size=(MONTE_CARLO_SAMPLES, 6))
    assert estimate_parameter("x", values, rng) == estimate_from_samples(
        "x", np.median(values[picks], axis=1)
    )


@pytest.mark.parametrize("photos", [4, 9])
def test_a_factor_multiplies_the_parts_that_it_is_said_to(photos):
    values, parts = np.arange(photos) + 5.0, np.full(photos, 2.0)
    twice = np.full(MONTE_CARLO_SAMPLES, 2.0)

    def told_with(factors, parts):
        return estimate_parameter(
            "x", values, np.random.default_rng(0), factors, scaled_values=parts
        )

    plain, scaled = told_with(None, None), told_with(twice, parts)
    assert scaled.value == pytest.approx(plain.value + 2.0)
    assert scaled.ci95 == pytest.approx([end + 2.0 for end in plain.ci95])
    assert told_with(twice, values).ci95 == pytest.approx(told_with(twice, None).ci95)


def test_what_is_the_same_in_all_photos_does_not_vary():
    assert compute_photo_std([0.1] * 7) == 0.0  # whose mean is rounded
    assert compute_photo_std([0.1, 0.3]) == pytest.approx(0.1414, abs=1e-4)
    assert compute_photo_std([0.1, np.nan]) is None
