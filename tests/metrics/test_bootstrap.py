import math

import numpy as np
import pytest

from sim2cam.metrics.bootstrap import (
    apply_holm_correction,
    basic_bootstrap_estimate,
    bootstrap_estimate,
    compute_paired_difference,
    sample_bootstrap_counts,
)


def test_every_resample_has_as_many_images():
    counts = sample_bootstrap_counts(7, 50, np.random.default_rng(0))
    assert counts.shape == (50, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert np.array_equal(counts, sample_bootstrap_counts(7, 50, np.random.default_rng(0)))


def test_interval_covers_the_mean_of_a_normal_sample_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(200):
        sample = rng.normal(3.0, 1.0, 60)
        means = sample_bootstrap_counts(60, 300, rng) @ sample / 60
        low, high = bootstrap_estimate(float(sample.mean()), means).ci95
        hits += low <= 3.0 <= high
    assert 0.89 <= hits / 200 <= 0.98


def test_estimate_leaves_undefined_resamples_out():
    assert bootstrap_estimate(0.5, np.array([np.nan, 0.4, np.nan, 0.4])).ci95 == (0.4, 0.4)
    assert all(math.isnan(end) for end in bootstrap_estimate(0.5, np.array([np.nan])).ci95)


def test_a_reflected_interval_turns_resamples_around_the_value():
    resampled = np.linspace(0.5, 0.7, 10_001)  # all above the value: noise makes it larger
    low, high = basic_bootstrap_estimate(0.55, resampled).ci95
    assert (low, high) == pytest.approx((0.405, 0.595), abs=1e-3)
    assert basic_bootstrap_estimate(0.1, resampled).ci95[0] == 0  # it is no less
    assert basic_bootstrap_estimate(0.1, resampled).ci95[1] == 0.1  # and holds the value


def test_a_run_does_not_differ_from_itself():
    resampled = np.random.default_rng(2).normal(0.5, 0.1, 100)
    found = compute_paired_difference(0.5, 0.5, resampled, resampled)
    assert found.value == 0
    assert found.ci95 == (0, 0)
    assert found.p_value == 1
    assert found.min_detectable_effect is None
    assert found.to_json()["min_detectable_effect"] is None
    swapped = compute_paired_difference(0.5, 0.5, resampled + 1e-16, resampled[::1])
    assert swapped.min_detectable_effect is None


def test_a_clear_difference_is_found_in_both_directions():
    rng = np.random.default_rng(3)
    low, high = rng.normal(0.5, 0.01, 999), rng.normal(0.6, 0.01, 999)
    up, down = (
        compute_paired_difference(0.6, 0.5, high, low),
        compute_paired_difference(0.5, 0.6, low, high),
    )
    assert up.p_value == down.p_value == pytest.approx(2 / 1000)
    assert up.ci95[0] > 0 > down.ci95[1]
    assert up.min_detectable_effect == pytest.approx(2.8 * math.sqrt(2) * 0.01, rel=0.1)


def test_holm_against_worked_example():
    # statsmodels.stats.multitest.multipletests(p, method="holm")
    assert apply_holm_correction([0.01, 0.04, 0.03, 0.005]) == pytest.approx(
        (0.03, 0.06, 0.06, 0.02)
    )
    assert apply_holm_correction([0.9, 0.8]) == (1.0, 1.0)
    assert apply_holm_correction([]) == ()
