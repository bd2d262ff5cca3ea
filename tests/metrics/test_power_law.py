"""Power laws with known parameters, and points that determine none."""

import numpy as np
import pytest

from sim2cam.metrics.bootstrap import average_over_seeds
from sim2cam.metrics.power_law import PowerLaw, PowerLawFit, UndeterminedFit, fit_power_law

SIZES = (50, 100, 200, 400, 800)
LAW = PowerLaw(4.0, 0.6, 0.1)  # errors from 0.48 to 0.17


def true_gain(law):
    now, then = law.predict_errors(np.array([SIZES[-1], 2.0 * SIZES[-1]]))
    return now - then


def share_containing(intervals, truth):
    low, high = np.transpose(intervals)
    return ((low <= truth) & (truth <= high)).mean()


def exact(errors, resamples=20):
    return np.tile(np.asarray(errors, float)[:, None], 1 + resamples)


def measure(law, rng, *, seeds, resamples, seed_noise=0.01, image_noise=0.02, sizes=SIZES):
    """Errors of trainings with noise of their own, on images whose noise all share."""
    image_offsets = image_noise * rng.standard_normal(1 + resamples)
    image_offsets[1:] += image_offsets[0]
    errors = law.predict_errors(np.array(sizes, float))
    runs = errors[:, None] + seed_noise * rng.standard_normal((len(sizes), seeds))
    return np.array([average_over_seeds(run[:, None] + image_offsets, rng) for run in runs])


@pytest.mark.parametrize(
    "law", [LAW, PowerLaw(0.9, 0.1, 0.0), PowerLaw(2.0, 0.5, 0.3), PowerLaw(9.0, 1.0, 0.02)]
)
def test_parameters_are_recovered_without_noise(law):
    fit = fit_power_law(SIZES, exact(law.predict_errors(np.array(SIZES, float))))
    assert isinstance(fit, PowerLawFit)
    found, wanted = ((x.a, x.b, x.c) for x in (fit.law, law))
    assert found == pytest.approx(wanted, rel=0.02, abs=0.002)
    assert fit.gain.value == pytest.approx(true_gain(law), rel=0.01)
    assert fit.gain.ci95 == pytest.approx((fit.gain.value,) * 2)
    assert fit.determines_floor


@pytest.mark.parametrize(
    ("seeds", "trials", "coverage"),
    [
        (20, 40, 0.8),  # three standard errors below 93 %; intervals of half the width contain 66 %
        pytest.param(3, 150, 0.85, marks=pytest.mark.slow),  # few seeds hide their variation
    ],
)
def test_intervals_contain_the_true_gain_and_floor(seeds, trials, coverage):
    rng, noise = np.random.default_rng(1), 0.01 * np.sqrt(seeds)
    measured = [
        measure(LAW, rng, seeds=seeds, resamples=60, seed_noise=noise) for _ in range(trials)
    ]
    fits = [
        fit for errors in measured if isinstance(fit := fit_power_law(SIZES, errors), PowerLawFit)
    ]
    assert len(fits) >= 0.8 * trials  # 5 % are refused, more with few seeds
    gains, floors = [fit.gain.ci95 for fit in fits], [fit.floor.ci95 for fit in fits]
    assert share_containing(gains, true_gain(LAW)) >= coverage
    assert share_containing(floors, LAW.c) >= coverage
    assert np.median(np.diff(gains)) < true_gain(LAW)


def test_plateau_gains_nothing_and_has_a_floor():
    errors = [0.42, 0.30, 0.30, 0.30, 0.30]
    rng = np.random.default_rng(2)
    noisy = exact(errors, 200) + 0.004 * rng.standard_normal((5, 201))
    noisy[:, 0] = errors
    fit = fit_power_law(SIZES, noisy)
    assert isinstance(fit, PowerLawFit)
    assert fit.gain.ci95[1] < 0.003
    assert fit.floor.value == pytest.approx(0.3, abs=0.005)
    assert fit.determines_floor


def test_straight_decline_does_not_determine_the_floor():
    """Over the logarithm of the size, it fits any floor below the last error."""
    rng = np.random.default_rng(3)
    errors = exact([0.60, 0.55, 0.50, 0.45, 0.40], 200) + 0.01 * rng.standard_normal((5, 201))
    fit = fit_power_law(SIZES, errors)
    assert isinstance(fit, PowerLawFit)
    assert not fit.determines_floor
    assert fit.gain.ci95[0] > 0.02


@pytest.mark.parametrize("law", [LAW, PowerLaw(0.9, 0.1, 0.0), PowerLaw(2.0, 0.5, 0.3)])
def test_errors_never_rise_with_size(law):
    rng = np.random.default_rng(4)
    fit = fit_power_law(SIZES, measure(law, rng, seeds=3, resamples=50))
    assert isinstance(fit, PowerLawFit)
    sizes = np.geomspace(10, 1e5, 50)
    assert (np.diff(fit.law.predict_errors(sizes)) <= 0).all()
    assert fit.law.c >= 0
    assert 0 <= fit.gain.ci95[0] <= fit.gain.ci95[1]


def test_three_points_are_refused():
    fit = fit_power_law(SIZES[:3], exact([0.5, 0.4, 0.3]))
    assert fit == UndeterminedFit("3 points are too few for a power law, which needs at least 4")


@pytest.mark.parametrize(
    "errors", [(0.3, 0.2, 0.2, 0.3, 0.4), (0.9, 0.9, 0.9, 0.5, 0.1)], ids=["rises", "starts late"]
)
def test_other_curves_are_refused(errors):
    rng = np.random.default_rng(5)
    noise = 0.01 * rng.standard_normal((5, 201))
    noise[:, 0] = 0
    fit = fit_power_law(SIZES, exact(errors, 200) + noise)
    assert fit == UndeterminedFit("the points do not follow a power law")


def test_undefined_resamples_are_left_out():
    errors = exact(LAW.predict_errors(np.array(SIZES, float)))
    errors[2, 5] = np.nan
    fit = fit_power_law(SIZES, errors)
    assert isinstance(fit, PowerLawFit)
    assert fit.gain.value == pytest.approx(true_gain(LAW), rel=0.01)
