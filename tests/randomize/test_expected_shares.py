"""What is asked against what is drawn, and recipes that can be written back."""

import tomllib
from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.stats import chisquare

from sim2cam.pipeline.recipe import RECIPES_FOLDER, load_recipe
from sim2cam.randomize.distributions import (
    Choice,
    Clip,
    Column,
    Constant,
    Curve,
    Distribution,
    Given,
    Integers,
    LogUniform,
    Normal,
    Quota,
    Rounded,
    Same,
    Schedule,
    Shared,
    Uniform,
    to_toml,
)
from sim2cam.randomize.expected_shares import compute_bin_probabilities, compute_value_probabilities
from sim2cam.randomize.sampling import sample_distribution

ADAPTER = TypeAdapter(Distribution)
NUMBERS = [
    Uniform(-1.0, 3.0),
    LogUniform(0.1, 2.9),
    Normal(1.0, 0.8, -0.5, 2.5),
    Curve(((-1.0, 0.2), (0.0, 2.0), (1.0, 0.0), (3.0, 1.0))),
    Integers(-1, 2),
    Choice((0.0, 0.1, 2.0), (0.2, 0.5, 0.3)),
    Column("t", (-1.0, 0.3, 0.3, 2.9)),
    Shared(Uniform(0.0, 1.0)),
    Clip(Normal(1.0, 0.8, -0.5, 2.5), 0.3, 1.7),
    Rounded(Uniform(-1.2, 2.7)),
    Quota((Uniform(-1.0, 0.0), Constant(0.6), Uniform(1.0, 3.0)), (2, 1, 1)),
    Given("layout/surface", {"mat": Uniform(0.0, 1.0)}, Uniform(0.5, 3.0)),
    Uniform(0.5, 0.5),
]
WORDS = [
    Choice(("a", "b", "c"), (0.2, 0.5, 0.3)),
    Given("layout/surface", {"mat": Constant("a")}, Choice(("a", "b"))),
    Quota((Constant("a"), Choice(("b", "a"))), (3, 1)),
    Choice((True, False), (0.15, 0.85)),
]
DRAWS = 1500


def drawn(domain, distribution):
    return [sample_distribution(domain, distribution, "x/y", 5, index) for index in range(DRAWS)]


@pytest.mark.parametrize("distribution", NUMBERS, ids=lambda d: d.kind)
def test_numbers_are_drawn_as_asked(domain, distribution):
    edges = np.linspace(-1.0, 3.0, 17) + 1e-9
    edges[0] -= 1e-6
    counts, _ = np.histogram(drawn(domain, distribution), edges)
    asked = compute_bin_probabilities(domain, distribution, edges)
    assert asked.sum() == pytest.approx(1)
    assert counts[asked == 0].sum() == 0
    if np.count_nonzero(asked) > 1:
        there = asked > 0
        assert chisquare(counts[there], asked[there] * DRAWS).pvalue > 0.005


@pytest.mark.parametrize("distribution", WORDS, ids=lambda d: d.kind)
def test_words_are_drawn_as_asked(domain, distribution):
    found = drawn(domain, distribution)
    asked = compute_value_probabilities(domain, distribution)
    assert sum(asked.values()) == pytest.approx(1)
    assert set(found) <= set(asked)
    counts = [found.count(value) for value in asked]
    assert chisquare(counts, [share * DRAWS for share in asked.values()]).pvalue > 0.005


def test_the_same_factor_asks_the_same(domain):
    edges = np.linspace(-1, 1, 9)
    asked = compute_bin_probabilities(domain, domain.get_factor("light/warmth"), edges)
    assert np.array_equal(compute_bin_probabilities(domain, Same("light/warmth"), edges), asked)
    surfaces = compute_value_probabilities(domain, domain.get_factor("layout/surface"))
    assert compute_value_probabilities(domain, Same("layout/surface")) == surfaces


def test_what_has_no_closed_form_is_not_made_up(domain):
    for distribution in (
        Uniform(0, 1) + Uniform(0, 1),
        Uniform(0, 1) ** 2,
        Schedule(((0, Uniform(0, 1)),)),
        Given("layout/surface", {}, Same("light/warmth")),
        Given("light/lamp_count", {}, Constant(1.0)),
    ):
        assert compute_bin_probabilities(domain, distribution, (0.0, 1.0)) is None
    assert compute_value_probabilities(domain, Schedule(((0, Constant("a")),))) is None


@pytest.mark.parametrize("name", [path.stem for path in RECIPES_FOLDER.glob("dice*.toml")])
def test_every_factor_can_be_written_back(name):
    recipe = load_recipe(name)
    for _, _, distribution in recipe.domain.iterate_factors():
        written = tomllib.loads(f"x = {to_toml(distribution)}")["x"]
        assert ADAPTER.validate_python(written) == distribution


@pytest.mark.parametrize("distribution", [*NUMBERS, *WORDS], ids=lambda d: d.kind)
def test_all_of_the_language_can_be_written_back(distribution):
    odd = Given("layout/surface", {'a "b" c': distribution * 2 + 1}, Constant('"\n\\'))
    for one in (distribution, odd, replace(odd, otherwise=None)):
        assert ADAPTER.validate_python(tomllib.loads(f"x = {to_toml(one)}")["x"]) == one
    assert to_toml(Constant(True)) == "true"
