import math

import pytest

from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Constant, Integers, LogUniform, Normal, Uniform
from sim2cam.randomize.domain_checks import RecipeNames, check_domain
from sim2cam.randomize.range_rescaling import (
    DEFAULT_FACTORS,
    FactorRange,
    collect_values,
    find_ranges,
)

DICE = load_recipe("dice").domain
KINDS = [
    FactorRange("a/b", Uniform(-1.0, 3.0), -math.inf, math.inf),
    FactorRange("a/b", LogUniform(0.1, 10.0), 1e-6, math.inf),
    FactorRange("a/b", Normal(1.0, 0.5, 0.0, 2.0), -10, 10),
    FactorRange("a/b", Integers(2, 12), 1, 128),
]


@pytest.mark.parametrize("of", KINDS)
def test_places_and_values_go_both_ways(of):
    assert (
        of.to_position(of.distribution.low),
        of.to_position(of.distribution.high),
    ) == pytest.approx((0, 1))
    for place in (-0.5, 0.0, 0.3, 1.0, 1.4):
        if of.lower_bound < of.from_position(place) < of.upper_bound:
            assert of.to_position(of.from_position(place)) == pytest.approx(place)


@pytest.mark.parametrize("of", KINDS)
def test_moved_to_where_it_is_it_stays(of):
    moved = of.rescale(0.0, 1.0)
    assert type(moved) is type(of.distribution)
    assert (moved.low, moved.high) == pytest.approx((of.distribution.low, of.distribution.high))


def test_a_mean_beyond_the_ends_stays_there():
    normal = Normal(-1.0, 1.0, 0.0, 1.0)
    assert FactorRange("a/b", normal, 0.0, 1.0).rescale(0.0, 1.0) == normal


def test_ratios_and_laws_move_as_a_whole():
    ratios = KINDS[1].rescale(0.5, 1.5)
    assert (ratios.low, ratios.high) == pytest.approx((1.0, 100.0))
    assert KINDS[2].rescale(0.5, 1.0) == Normal(1.5, 0.25, 1.0, 2.0)


def test_whole_numbers_take_in_both_ends():
    assert KINDS[3].rescale(0.05, 0.95) == Integers(2, 12)
    assert KINDS[3].rescale(0.1, 0.9) == Integers(3, 11)


def test_no_end_goes_beyond_what_the_factor_may_be():
    share = FactorRange("light/x", Uniform(0.2, 0.8), 0.0, 1.0)
    assert share.compute_limits() == pytest.approx((-1 / 3, 4 / 3))
    assert share.from_position(-5) == 0.0
    assert KINDS[0].compute_limits() == (-1.0, 2.0)
    assert KINDS[3].compute_limits() == pytest.approx((-0.1, 2.0))


def test_every_range_of_dice_may_be_moved_as_far_as_it_reaches():
    ranges = find_ranges(DICE)
    widest = {one.path: one.rescale(*one.compute_limits()) for one in ranges}
    check_domain(
        DICE.replace_factors(widest), RecipeNames(categories=load_recipe("dice").categories)
    )
    assert {one.path for one in ranges} >= {"light/warmth", "view/die_px", "layout/die_count"}
    assert "layout/region_m" not in widest


def test_names_choose_groups_and_factors():
    assert [one.path for one in find_ranges(DICE, ("light/horizon", "exposure"))] == [
        "light/horizon", "exposure/exposure_ev", "exposure/red_gain", "exposure/blue_gain",
    ]  # fmt: skip


def test_constants_and_empty_ranges_cannot_be_moved():
    still = DICE.replace_factors({"light/warmth": Constant(0), "light/horizon": Uniform(1.0, 1.0)})
    paths = [one.path for one in find_ranges(still, ("light",))]
    assert paths == ["light/lamp_count", "light/sky_level"]


def test_usual_factors_are_factors():
    for path in DEFAULT_FACTORS:
        assert DICE.get_parameter(path)
    known = {f"{group}/{name}" for group, name, _ in DICE.iterate_factors()}
    elsewhere = {"near_light/level", "sky/level", "view/object_px"}
    assert set(DEFAULT_FACTORS) - known == elsewhere


def test_draws_are_those_of_all_instances():
    values = {"lamp/0/level": 1.0, "lamp/1/level": 2, "lamp/1/warmth": 5.0, "light/level": 7.0}
    assert collect_values("lamp/level", values) == [1.0, 2.0]
    assert collect_values("light/level", values) == [7.0]
