import numpy as np
import pytest

from sim2cam.errors import UsageError
from sim2cam.metrics.coverage import N_NEIGHBOURS, compute_null_coverage, measure_coverage
from tests.support.evaluation import refused


def rng():
    return np.random.default_rng(0)


def normal(n, seed):
    return np.random.default_rng(seed).standard_normal((n, 3))


def test_coverage_and_density_are_those_of_plain_loops():
    wanted, others = normal(25, 1), normal(18, 2) + 1
    found = measure_coverage(wanted, others, rng())
    crowd = 0
    for i, x in enumerate(wanted):
        own = sorted(np.linalg.norm(x - y) for y in np.delete(wanted, i, axis=0))
        to_others = [np.linalg.norm(x - y) for y in others]
        near = sum(distance <= own[N_NEIGHBOURS - 1] for distance in to_others)
        crowd += near
        assert found.is_covered[i] == (near > 0)
        assert found.nearest_indices[i] == np.argmin(to_others)
    assert found.coverage.value == found.is_covered.mean()
    assert found.density.value == pytest.approx(crowd / (N_NEIGHBOURS * len(others)))


@pytest.mark.parametrize(("n", "m"), [(40, 40), (60, 8)])
def test_sets_of_one_kind_have_the_expected_coverage_and_density_one(n, m):
    found = [measure_coverage(normal(n, 2 * i), normal(m, 2 * i + 1), rng()) for i in range(80)]
    covered = np.array([one.coverage.value for one in found])
    assert covered.mean() == pytest.approx(
        compute_null_coverage(n, m), abs=4 * covered.std() / 80**0.5
    )
    assert np.mean([one.density.value for one in found]) == pytest.approx(1, abs=0.08)


def test_a_part_that_nothing_comes_near_is_not_covered():
    wanted = np.concatenate([normal(20, 1), normal(10, 2) + 50])
    found = measure_coverage(wanted, normal(40, 3), rng())
    assert found.is_covered[:20].mean() > 0.9
    assert not found.is_covered[20:].any()
    low, high = found.coverage.ci95
    assert low < 2 / 3 < high < found.null_mean


def test_too_few_have_no_neighbourhoods():
    needs = "coverage needs more than 5 reference images and one candidate"
    with refused(UsageError, f"{needs}, got 5 and 9. Add images."):
        measure_coverage(normal(5, 1), normal(9, 2), rng())
