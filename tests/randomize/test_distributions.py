import re
from dataclasses import asdict

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy.stats import kstest, truncnorm

from sim2cam.randomize.distributions import (
    Choice,
    Constant,
    Curve,
    Distribution,
    Integers,
    LogUniform,
    Normal,
    Uniform,
)
from sim2cam.randomize.sampling_context import SamplingContext

ADAPTER = TypeAdapter(Distribution)
EVERY = [
    Constant("table"),
    Uniform(-2.0, 3.0),
    LogUniform(0.1, 10.0),
    Normal(1.0, 2.0, 0.5, 4.0),
    Curve(((-1.0, 1.0), (0.0, 3.0), (2.0, 0.5))),
    Integers(-3, 5),
    Choice(("a", "b", "c")),
    Choice((True, False), (0.2, 0.8)),
]


def draws(distribution, n=4000, seed=7):
    chance = SamplingContext(np.random.default_rng(seed))
    return [distribution.sample(chance) for _ in range(n)]


def rng():
    return np.random.default_rng(11)


def chance():
    return SamplingContext(rng())


def test_draws_are_numpy_s_own():
    assert Uniform(-2.0, 3.0).sample(chance()) == rng().uniform(-2.0, 3.0)
    expected = np.exp(rng().uniform(np.log(0.1), np.log(10.0)))
    assert LogUniform(0.1, 10.0).sample(chance()) == pytest.approx(expected, rel=1e-15)
    assert Integers(-3, 5).sample(chance()) == rng().integers(-3, 6)
    assert Choice(("a", "b", "c")).sample(chance()) == "abc"[rng().integers(3)]
    expected = truncnorm.rvs(-0.25, 1.5, 1.0, 2.0, random_state=rng())
    assert Normal(1.0, 2.0, 0.5, 4.0).sample(chance()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "low", [-1e4, -300.0, -40.0, -38.0, -9.0, -1.0, 4.0, 20.0, 36.5, 50.0, 1e4]
)
def test_the_tails_of_a_normal_keep_their_digits(low):
    for seed in range(50):
        draws = (np.random.default_rng(seed) for _ in range(2))
        expected = truncnorm.rvs(low, low + 2, random_state=next(draws))
        found = Normal(0.0, 1.0, low, low + 2).sample(SamplingContext(next(draws)))
        assert found == pytest.approx(expected, rel=1e-9)


def test_weights_divide_the_unit_interval():
    u = rng().random()
    options = ("low", "high")
    assert Choice(options, (u * 0.99, 1 - u * 0.99)).sample(chance()) == "high"
    assert Choice(options, (u * 1.01, 1 - u * 1.01)).sample(chance()) == "low"


def test_a_constant_takes_nothing_from_the_generator():
    used = rng()
    assert Constant(3).sample(SamplingContext(used)) == 3
    assert used.random() == rng().random()


@pytest.mark.parametrize("distribution", EVERY, ids=lambda d: d.kind)
def test_equal_seeds_give_equal_draws(distribution):
    assert draws(distribution, 20) == draws(distribution, 20)


@pytest.mark.parametrize(
    ("distribution", "low", "high"),
    [(d, d.low, d.high) for d in EVERY if hasattr(d, "low")],
    ids=lambda v: getattr(v, "kind", None),
)
def test_draws_stay_between_the_bounds_and_reach_near_them(distribution, low, high):
    found = draws(distribution)
    assert low <= min(found) < low + 0.03 * (high - low)
    assert high - 0.03 * (high - low) < max(found) <= high


def test_shapes_are_those_of_the_laws():
    assert kstest(draws(Uniform(-2.0, 3.0)), "uniform", (-2.0, 5.0)).pvalue > 0.01
    logs = np.log(draws(LogUniform(0.1, 10.0)))
    assert kstest(logs, "uniform", (np.log(0.1), np.log(100))).pvalue > 0.01
    normal = truncnorm(-0.25, 1.5, 1.0, 2.0)
    assert kstest(draws(Normal(1.0, 2.0, 0.5, 4.0)), normal.cdf).pvalue > 0.01
    counts = np.unique(draws(Integers(-3, 5)), return_counts=True)[1]
    assert len(counts) == 9
    assert np.ptp(counts) < 140  # 444 expected of each, standard deviation 20
    assert np.mean(draws(Choice((1, 0), (0.2, 0.8)))) == pytest.approx(0.2, abs=0.03)


def test_an_option_of_weight_0_is_never_drawn():
    assert set(draws(Choice(("a", "b", "c"), (1.0, 0.0, 3.0)))) == {"a", "c"}


def test_plain_types_come_out():
    assert [type(d.sample(chance())) for d in EVERY] == [
        str,
        float,
        float,
        float,
        float,
        int,
        str,
        bool,
    ]


@pytest.mark.parametrize("distribution", EVERY, ids=lambda d: d.kind)
def test_json_brings_back_an_equal_distribution(distribution):
    assert ADAPTER.validate_json(ADAPTER.dump_json(distribution)) == distribution
    assert asdict(distribution)["kind"] == distribution.kind


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"kind": "uniform", "low": 2, "high": 1}, "uniform needs low <= high, not 2.0 > 1.0"),
        (
            {"kind": "log_uniform", "low": 0, "high": 1},
            "log_uniform needs 0 < low <= high, not 0.0, 1.0",
        ),
        (
            {"kind": "log_uniform", "low": 3, "high": 1},
            "log_uniform needs 0 < low <= high, not 3.0, 1.0",
        ),
        (
            {"kind": "normal", "mean": 0, "std": 0, "low": 0, "high": 1},
            "normal needs std > 0, not 0.0",
        ),
        (
            {"kind": "normal", "mean": 0, "std": 1, "low": 1, "high": 1},
            "normal needs low < high, not 1.0 >= 1.0",
        ),
        ({"kind": "integers", "low": 4, "high": 3}, "integers needs low <= high, not 4 > 3"),
        ({"kind": "choice", "options": []}, "choice needs at least one option"),
        (
            {"kind": "choice", "options": ["a", "b"], "weights": [1.0]},
            "choice has 2 options but 1 weights",
        ),
        (
            {"kind": "choice", "options": ["a", "b"], "weights": [2.0, -1.0]},
            "choice needs weights of 0 or more with a positive sum, not (2.0, -1.0)",
        ),
        (
            {"kind": "choice", "options": ["a", "b"], "weights": [0.0, 0.0]},
            "choice needs weights of 0 or more with a positive sum, not (0.0, 0.0)",
        ),
    ],
)
def test_impossible_parameters_are_refused(table, problem):
    with pytest.raises(ValidationError, match=re.escape(f"Value error, {problem} [")):
        ADAPTER.validate_python(table)


def test_an_unknown_kind_is_refused():
    with pytest.raises(
        ValidationError, match="'gauss' found using 'kind' does not match any of the expected tags"
    ):
        ADAPTER.validate_python({"kind": "gauss", "mean": 0})
