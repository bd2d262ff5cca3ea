"""On curves whose answer is known, and on curves that allow none."""

import math

import numpy as np
import pytest

from sim2cam.metrics.bootstrap import average_over_seeds
from sim2cam.metrics.equivalent_photos import estimate_equivalent_images

PHOTOS = (5, 10, 25, 50, 100, 200)


def curve_of(values, draws=400, noise=0.0, seed=0):
    """A curve and its resamples, which all images' noise moves as one and each point's alone."""
    rng = np.random.default_rng(seed)
    values = np.asarray(values, float)[:, None]
    return np.hstack([values, values + noise * rng.standard_normal((len(values), draws))])


def constant(value, draws=400, noise=0.0, seed=1):
    return np.append(value, value + noise * np.random.default_rng(seed).standard_normal(draws))


def straight(photos):
    """A learning curve that is straight over the logarithm: 0.2 at 5, 0.1 more for each doubling."""
    return 0.2 + 0.1 * np.log2(np.asarray(photos) / 5)


@pytest.mark.parametrize("truth", [5, 7, 20, 33, 150, 200])
def test_a_curve_without_noise_gives_the_number_itself(truth):
    found = estimate_equivalent_images(
        PHOTOS, curve_of(straight(PHOTOS)), constant(straight(truth))
    )
    assert found.images == pytest.approx(truth)
    assert found.ci95 == pytest.approx((truth, truth))
    assert found.describe() == f"worth {truth} [{truth}, {truth}] real photos"


def test_a_power_law_is_met_where_it_was_measured_and_near_it_between():
    law = 0.9 - 1.2 * np.asarray(PHOTOS) ** -0.6
    at_50 = estimate_equivalent_images(PHOTOS, curve_of(law), constant(0.9 - 1.2 * 50**-0.6))
    between = estimate_equivalent_images(PHOTOS, curve_of(law), constant(0.9 - 1.2 * 70**-0.6))
    assert at_50.images == pytest.approx(50)
    assert between.images == pytest.approx(70, rel=0.05)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    """Curve and score are measured with a noise that the resamples have too."""
    hits, truth, noise = 0, 60, 0.03
    rng = np.random.default_rng(5)
    for trial in range(200):
        curve = straight(PHOTOS) + noise * rng.standard_normal(len(PHOTOS))
        score = straight(truth) + noise * rng.standard_normal()
        found = estimate_equivalent_images(
            PHOTOS,
            curve_of(curve, noise=noise, seed=2 * trial),
            constant(score, noise=noise, seed=2 * trial + 1),
        )
        hits += found.ci95[0] <= truth <= found.ci95[1]
    assert 0.9 <= hits / 200 <= 1


def test_outside_of_what_was_measured_there_is_no_number():
    curve = curve_of(straight(PHOTOS), noise=0.001)
    low = estimate_equivalent_images(PHOTOS, curve, constant(0.1))
    high = estimate_equivalent_images(PHOTOS, curve, constant(0.9))
    assert (low.images, high.images) == (0, math.inf)
    assert low.describe() == "worth fewer than 5 [< 5, < 5] real photos"
    assert high.describe() == "worth more than 200 [> 200, > 200] real photos"
    assert high.to_json() == {
        "images": None, "ci95": [None, None], "measured_range": [5, 200], "decreases": [],
        "summary": high.describe(),
    }  # fmt: skip


def test_an_interval_may_reach_outside_on_both_sides():
    wide = estimate_equivalent_images(PHOTOS, curve_of(straight(PHOTOS)), constant(0.45, noise=0.5))
    assert wide.ci95 == (0, math.inf)
    assert wide.describe() == "worth 28 [< 5, > 200] real photos"


def test_of_equal_scores_the_fewest_photos_count():
    for best in (0.7, 1.0):
        found = estimate_equivalent_images(
            (5, 10, 20, 40), curve_of([0.1, *[best] * 3]), constant(best)
        )
        assert found.images == pytest.approx(10)
        assert found.ci95 == pytest.approx((10, 10))


def test_a_curve_that_falls_is_told_and_noise_is_not():
    falling = [0.2, 0.3, 0.6, 0.4, 0.7, 0.8]
    sure = estimate_equivalent_images(PHOTOS, curve_of(falling, noise=0.01), constant(0.65))
    assert sure.decreases == ((25, 50),)
    assert sure.describe().endswith(
        "real photos; unreliable, as the learning curve falls from 25 to 50 photos"
    )
    unsure = estimate_equivalent_images(PHOTOS, curve_of(falling, noise=0.2), constant(0.65))
    assert unsure.decreases == ()
    assert 50 < sure.images < 100


def test_resamples_without_a_score_are_left_out():
    curve = curve_of(straight(PHOTOS))
    score = constant(straight(25))
    score[7], curve[2, 9] = np.nan, np.nan
    assert estimate_equivalent_images(PHOTOS, curve, score).ci95 == pytest.approx((25, 25))


def test_the_mean_of_seeds_spreads_with_them():
    scores = np.repeat([[0.2], [0.4], [0.6]], 2001, axis=1)
    mean = average_over_seeds(scores, np.random.default_rng(0))
    assert mean[0] == pytest.approx(0.4)
    assert mean[1:].std() == pytest.approx(0.2 / np.sqrt(3), rel=0.05)  # their SD is 0.2
    alone = average_over_seeds(scores[:1], np.random.default_rng(0))
    assert alone == pytest.approx(np.full(2001, 0.2))
