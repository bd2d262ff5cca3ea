import itertools

import numpy as np
import pytest

from sim2cam.errors import UsageError
from sim2cam.metrics.two_sample import (
    compute_sliced_wasserstein,
    fit_feature_scaler,
    measure_classifier_auc,
    measure_mmd,
    measure_sliced_wasserstein,
)
from tests.support.evaluation import refused

MEASURES = [measure_mmd, measure_sliced_wasserstein, measure_classifier_auc]


def normal(n, seed, *, d=6, shift=0.0, width=1.0):
    vectors = width * np.random.default_rng(seed).standard_normal((n, d))
    vectors[:, 0] += shift
    return vectors


def rng():
    return np.random.default_rng(0)


def test_kernel_distance_is_that_of_plain_loops():
    a, b = normal(11, 1), normal(14, 2, shift=1.0)

    def kernel(x, y):
        return (x @ y / 6 + 1) ** 3

    within = [
        np.mean([kernel(s[i], s[j]) for i, j in itertools.permutations(range(len(s)), 2)])
        for s in (a, b)
    ]
    across = np.mean([kernel(x, y) for x, y in itertools.product(a, b)])
    assert measure_mmd(a, b, rng()).value == pytest.approx(sum(within) - 2 * across)


def third_moment(mean):
    """E[x x x] of a normal law of variance 1 in each direction."""
    one = np.eye(len(mean))
    parts = (
        np.einsum(f"{i},{jk}->ijk", mean, one) for i, jk in (("i", "jk"), ("j", "ik"), ("k", "ij"))
    )
    return np.einsum("i,j,k->ijk", mean, mean, mean) + sum(parts)


def expected_kernel(a, b):
    d = len(a)
    square = ((np.eye(d) + np.outer(a, a)) * (np.eye(d) + np.outer(b, b))).sum()
    cube = (third_moment(a) * third_moment(b)).sum()
    return 1 + 3 * a @ b / d + 3 * square / d**2 + cube / d**3


def test_kernel_distance_has_no_bias_and_its_interval_holds_the_truth_as_often_as_it_says():
    zero, shift = np.zeros(4), np.array([1.0, 0, 0, 0])
    same = expected_kernel(zero, zero) + expected_kernel(shift, shift)
    truth = same - 2 * expected_kernel(zero, shift)
    found = [
        measure_mmd(normal(40, 2 * i, d=4), normal(40, 2 * i + 1, d=4, shift=1.0), rng())
        for i in range(120)
    ]
    values = np.array([one.value for one in found])
    assert abs(values.mean() - truth) < 3 * values.std() / np.sqrt(len(values))
    hits = sum(one.ci95[0] <= truth <= one.ci95[1] for one in found)
    assert 0.86 <= hits / len(found) <= 1.0


def test_sliced_distance_of_one_feature_is_that_of_its_quantiles():
    a, b = normal(12, 3, d=1), normal(18, 4, d=1, width=2.0)
    together = [np.sort(np.repeat(s, 36 // len(s), axis=0), axis=0) for s in (a, b)]
    expected = np.sqrt(((together[0] - together[1]) ** 2).mean())
    assert compute_sliced_wasserstein(a, b, rng()) == pytest.approx(expected)
    assert measure_sliced_wasserstein(a, b, rng()).value == compute_sliced_wasserstein(a, b, rng())


def test_sliced_distance_of_a_shift_is_its_length_over_the_root_of_the_features():
    a = normal(50, 5, d=8)
    found = [
        compute_sliced_wasserstein(a, a + np.full(8, 3.0), np.random.default_rng(i))
        for i in range(20)
    ]
    assert np.mean(found) == pytest.approx(3.0, rel=0.03)  # 3 sqrt(8) / sqrt(8)


def test_classifier_is_learned_without_what_it_scores():
    """Noise of many features is learned by heart, and tells nothing of what was left out."""
    a, b = normal(30, 6, d=200), normal(30, 7, d=200)
    found = measure_classifier_auc(a, b, rng())
    assert found.ci95[0] < 0.5 < found.ci95[1]
    # a copy in the other set gets the same score by whoever has not seen it
    assert measure_classifier_auc(a, a.copy(), rng()).value < 0.6


def test_area_comes_near_that_of_the_best_classifier():
    pairs = [(normal(120, 2 * i, d=2), normal(120, 2 * i + 1, d=2, shift=1.5)) for i in range(5)]
    found = [measure_classifier_auc(*pair, rng()).value for pair in pairs]
    assert np.mean(found) == pytest.approx(0.856, abs=0.03)  # Phi(1.5 / sqrt(2))


@pytest.mark.parametrize("measure", MEASURES)
def test_sets_of_one_kind_are_told_apart_no_more_often_than_said(measure):
    p_values = [
        measure(normal(20, 100 + 2 * i), normal(25, 101 + 2 * i), np.random.default_rng(i)).p_value
        for i in range(40)
    ]
    assert sum(p < 0.05 for p in p_values) <= 6  # 2 expected, 6 or fewer in 99 of 100 times
    assert 0.35 < np.mean(p_values) < 0.65


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("change", [{"shift": 1.2}, {"width": 0.5}])
def test_another_mean_or_width_is_found_in_few_pictures(measure, change):
    found = measure(normal(40, 8), normal(60, 9, **change), rng())
    assert found.p_value < 0.02
    assert found.value > found.null_mean


@pytest.mark.parametrize("measure", MEASURES)
def test_more_apart_is_more(measure):
    near, far = (measure(normal(40, 8), normal(40, 9, shift=s), rng()).value for s in (0.8, 2.0))
    assert far > near


@pytest.mark.parametrize("measure", MEASURES)
def test_order_of_pictures_and_of_sets_hardly_matters(measure):
    a, b = normal(40, 8), normal(40, 9, shift=1.0)
    plain = measure(a, b, rng()).value
    assert measure(a[::-1], b, rng()).value == pytest.approx(plain, abs=0.06)
    assert measure(b, a, rng()).value == pytest.approx(plain, abs=0.06)


def test_the_same_chance_gives_the_same():
    a, b = normal(20, 1), normal(20, 2)
    for measure in MEASURES:
        assert measure(a, b, rng()) == measure(a, b, rng())


def test_scale_makes_deviations_one_and_leaves_what_never_varies():
    vectors = np.column_stack([normal(30, 1, d=1) * 7 + 100, np.full(30, 1e6)])
    scaled = fit_feature_scaler(vectors[:10], vectors[10:]).transform(vectors)
    assert scaled.mean(axis=0) == pytest.approx([0, 0], abs=1e-9)
    assert scaled.std(axis=0) == pytest.approx([1, 0], abs=1e-9)


BAD = [
    ((12, 6), (9, 6), "sets of 12 and 9 images are too small. Each needs 10 or more images."),
    (
        (12, 6), (12, 5),
        "features of shapes (12, 6) and (12, 5) do not match. Use the same features for both sets.",
    ),
]  # fmt: skip


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("first", "second", "message"), BAD)
def test_what_cannot_be_compared_is_refused(measure, first, second, message):
    with refused(UsageError, message):
        measure(np.zeros(first), np.zeros(second), rng())


def test_features_that_are_no_numbers_are_refused():
    broken = normal(12, 1)
    broken[3, 2] = np.nan
    with pytest.raises(UsageError, match="features are not finite"):
        measure_mmd(broken, normal(12, 2), rng())
