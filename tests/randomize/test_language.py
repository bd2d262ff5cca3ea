"""Distributions of distributions: arithmetic, references, shared draws, quotas, schedules."""

import json
import math
from collections import Counter

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy.stats import kstest

from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.distributions import (
    Choice,
    Clip,
    Column,
    Constant,
    Curve,
    Distribution,
    Given,
    Integers,
    Normal,
    Power,
    Product,
    Quota,
    Rounded,
    Same,
    Schedule,
    Shared,
    Sum,
    Uniform,
)
from sim2cam.randomize.domain_checks import RecipeNames, check_domain
from sim2cam.randomize.factors import SCENE_GROUPS
from sim2cam.randomize.sampling import sample_distribution, sample_factors
from sim2cam.randomize.sampling_context import SamplingContext, compute_stratum
from sim2cam.seeds import derive_rng

ADAPTER = TypeAdapter(Distribution)
U = Uniform(1.0, 2.0)
EVERY = [
    U + 3,
    2 * U * Integers(1, 3),
    U**2.5,
    Clip(U, 1.2, 1.5),
    Rounded(10 * U),
    Curve(((0.0, 0.0), (1.0, 2.0), (3.0, 1.0))),
    Same("light/warmth"),
    Shared(U),
    Given("layout/surface", {"table": U, "mat": Constant(3.0)}, Constant(0.0)),
    Column("phone", (0.1, 0.2, 0.3)),
    Quota((Uniform(0, 1), Uniform(5, 6)), (1, 3)),
    Schedule(((0, Constant(0.5)), (10, U))),
]


def chance(seed=11, **options):
    return SamplingContext(np.random.default_rng(seed), **options)


def several(distribution, n=4000):
    one = chance()
    return [distribution.sample(one) for _ in range(n)]


def changed(domain, group, **factors):
    """The domain with other factors, which must be sound."""
    other = domain.replace_factors({f"{group}/{name}": value for name, value in factors.items()})
    check_domain(other, RecipeNames(categories=tuple("123456")))
    return other


def values(domain, index=0, seed=3, views=2, **options):
    return sample_factors(domain, seed, index, views=views, **options).values


@pytest.mark.parametrize("distribution", EVERY, ids=lambda d: d.kind)
def test_json_brings_back_an_equal_distribution(distribution):
    text = ADAPTER.dump_json(distribution, exclude_none=True)
    assert ADAPTER.validate_json(text) == distribution
    assert json.loads(text)["kind"] == distribution.kind


def test_plain_values_stand_for_constants():
    table = {"kind": "sum", "of": [1, {"kind": "product", "of": [2.5, True and 3]}]}
    assert ADAPTER.validate_python(table) == Sum((Constant(1), Constant(2.5) * 3))
    assert ADAPTER.validate_python("wood") == Constant("wood")
    assert ADAPTER.validate_python(False) == Constant(False)


def test_operators_make_what_recipes_write():
    a, b = Uniform(0.0, 1.0), Normal(0.0, 1.0, -2.0, 2.0)
    assert a * 2 + b == Sum((Product((a, Constant(2))), b))
    assert a - b == Sum((a, Product((Constant(-1), b))))
    assert 1 - a == Sum((Constant(1), Product((Constant(-1), a))))
    assert -a == Product((Constant(-1), a))
    assert a / b == Product((a, Power(b, -1)))
    assert 1 / a == Product((Constant(1), Power(a, -1)))
    with pytest.raises(TypeError, match="NoneType is neither a distribution nor a number"):
        a + None


@pytest.mark.parametrize("seed", range(20))
def test_arithmetic_is_that_of_the_draws(seed):
    a, b = U.sample(one := chance(seed)), Integers(1, 9).sample(one)
    assert (U + Integers(1, 9)).sample(chance(seed)) == a + b
    assert (U * Integers(1, 9)).sample(chance(seed)) == a * b
    assert (U**-2).sample(chance(seed)) == pytest.approx(1 / a**2)
    assert Clip(U, 1.2, 1.5).sample(chance(seed)) == min(max(a, 1.2), 1.5)
    assert Rounded(10 * U).sample(chance(seed)) == round(10 * a)
    assert type(Rounded(10 * U).sample(chance(seed))) is int
    assert type((Integers(1, 9) + 1).sample(chance(seed))) is int


SIGNS = [Uniform(-2, 3), Uniform(-5, -1), Uniform(2, 4), Constant(0)]


@pytest.mark.parametrize("a", SIGNS)
@pytest.mark.parametrize("b", SIGNS)
def test_extremes_hold_every_draw_and_are_reached(a, b):
    for whole in (a + b, a - b, a * b, Clip(a * b, -1, 4), Rounded(a * b), -a * 2 * b):
        low, high = whole.compute_extremes(None)
        found = several(whole)
        assert low <= min(found)
        assert max(found) <= high
        assert high - low <= 1.6 * (max(found) - min(found)) + 1e-12


def test_powers_are_refused_where_they_are_not_defined():
    assert (Uniform(0, 4) ** 0.5).compute_extremes(None) == (0, 2)
    assert (Uniform(2, 4) ** -1).compute_extremes(None) == (0.5, 0.25)
    with pytest.raises(ValueError, match=r"^power -1 needs numbers above 0, not 0$"):
        (Uniform(0, 4) ** -1).compute_extremes(None)
    with pytest.raises(ValueError, match=r"^power 0.5 needs numbers 0 or more, not -1$"):
        (Uniform(-1, 4) ** 0.5).compute_extremes(None)


def test_a_curve_has_the_density_it_was_given():
    x, y = np.array([-1.0, 0.0, 2.0, 2.5]), np.array([1.0, 3.0, 0.0, 2.0])
    areas = np.concatenate([[0], np.cumsum(np.diff(x) * (y[1:] + y[:-1]) / 2)])

    def cdf(values):
        out = []
        for value in values:
            i = min(int(np.searchsorted(x, value, side="right")) - 1, 2)
            t = value - x[i]
            slope = (y[i + 1] - y[i]) / (x[i + 1] - x[i])
            out.append((areas[i] + y[i] * t + slope * t * t / 2) / areas[-1])
        return np.array(out)

    curve = Curve(tuple(zip(x.tolist(), y.tolist(), strict=True)))
    found = several(curve)
    assert kstest(found, cdf).pvalue > 0.01
    assert curve.compute_extremes(None) == (-1.0, 2.5)
    assert -1.0 <= min(found) <= max(found) <= 2.5
    flat = Curve(((2.0, 1.0), (5.0, 1.0)))
    assert flat.sample(chance()) == pytest.approx(Uniform(2.0, 5.0).sample(chance()))


def test_a_reference_is_what_the_other_factor_is(domain):
    other = changed(domain, "lamp", warmth=Same("light/warmth"))
    other = changed(other, "die_color", pip_value=0.5 + 10 * Same("die/*/edge_m"))
    found = values(other)
    assert {found[p] for p in found if p.endswith("/warmth")} == {found["light/warmth"]}
    dice = found["layout/die_count"]
    assert [found[f"die_color/{i}/pip_value"] for i in range(dice)] == [
        0.5 + 10 * found[f"die/{i}/edge_m"] for i in range(dice)
    ]
    before = values(domain)
    touched = {p for p in found if before[p] != found[p]}
    assert {(p.split("/")[0], p.split("/")[-1]) for p in touched} == {
        ("lamp", "warmth"), ("die_color", "pip_value"),
    }  # fmt: skip


def test_a_reference_may_lead_to_an_instance_that_a_scene_does_not_have(domain):
    few = changed(domain, "layout", die_count=Constant(1))
    there = changed(few, "light", warmth=10 * Same("die/5/edge_m"))
    many = changed(there, "layout", die_count=Constant(6))
    assert values(there)["light/warmth"] == values(many)["light/warmth"]
    assert values(many)["light/warmth"] == 10 * values(many)["die/5/edge_m"]
    assert not any(path.startswith("die/5") for path in values(there))


def test_the_order_of_groups_and_factors_does_not_matter(domain):
    first = changed(domain, "table", hue=Same("wall/hue"), value=Same("mat/value"))
    backwards = {
        f"wall/{name}": sample_distribution(first, part, f"wall/{name}", 3, 0)
        for name, part in reversed(first.groups["wall"].items())
    }
    assert backwards.items() <= values(first).items()


def test_one_draw_is_shared_by_all_instances_and_by_no_others(domain):
    shared = Shared(Normal(0.0, 0.4, -1.0, 0.5))
    other = changed(domain, "exposure", exposure_ev=shared, red_gain=Shared(Uniform(0.8, 1.2)))
    found = values(other, views=4)
    evs = [found[f"exposure/{i}/exposure_ev"] for i in range(4)]
    assert len(set(evs)) == 1
    assert len({found[f"exposure/{i}/red_gain"] for i in range(4)}) == 1
    assert evs[0] != values(other, index=1)["exposure/0/exposure_ev"]
    own = changed(domain, "exposure", exposure_ev=shared + Uniform(0.0, 0.1))
    apart = [values(own, views=4)[f"exposure/{i}/exposure_ev"] - evs[0] for i in range(4)]
    assert len(set(apart)) == 4
    assert 0 <= min(apart) <= max(apart) < 0.1


def test_two_shared_draws_of_one_factor_are_not_the_same(domain):
    other = changed(domain, "light", warmth=Shared(Uniform(0, 1)) - Shared(Uniform(0, 1)))
    assert values(other)["light/warmth"] != 0


def test_what_is_given_decides(domain):
    sides = {"table": Constant(0.2), "mat": Uniform(0.3, 0.4), "tray": Same("layout/aspect")}
    other = changed(domain, "layout", surface_side_m=Given("layout/surface", sides))
    seen = Counter()
    for index in range(10):
        found = values(other, index)
        side, surface = found["layout/surface_side_m"], found["layout/surface"]
        seen[surface] += 1
        match surface:
            case "table":
                assert side == 0.2
            case "mat":
                assert 0.3 <= side < 0.4
            case "tray":
                assert side == found["layout/aspect"]
    assert set(seen) == set(sides)


def test_given_a_number_or_a_flag(domain):
    by_count = Given("light/lamp_count", {"1": Constant(2.0)}, Constant(0.5))
    by_flag = Given("layout/same_look", {"true": Constant(0.1), "false": Constant(0.2)})
    other = changed(changed(domain, "lamp", level=by_count), "table", roughness=by_flag)
    for index in range(8):
        found = values(other, index)
        assert found["lamp/0/level"] == (2.0 if found["light/lamp_count"] == 1 else 0.5)
        assert found["table/roughness"] == (0.1 if found["layout/same_look"] else 0.2)


def test_given_names_whole_numbers_as_they_are_written(domain):
    lamps = changed(domain, "light", lamp_count=Constant(1), horizon=Choice((1.0, 2.5)))
    cases = {"1": Constant(2.0), "2.5": Constant(3.0)}
    other = changed(lamps, "lamp", level=Given("light/horizon", cases, Constant(0.5)))
    levels = {values(other, i)["light/horizon"]: values(other, i)["lamp/0/level"] for i in range(9)}
    assert levels == {1.0: 2.0, 2.5: 3.0}


def test_columns_of_a_table_are_drawn_together_for_each_instance(domain):
    rows = [(-0.2, 0.01, 0.1), (-0.1, 0.02, 0.2), (0.0, 0.03, 0.3)]
    k1, k2, vignetting = (Column("phone", column) for column in zip(*rows, strict=True))
    other = changed(changed(domain, "lens", k1=k1, k2=k2), "sensor", vignetting=vignetting)
    seen = set()
    for index in range(12):
        found = values(other, index, views=4)
        several_rows = [
            (found[f"lens/{v}/k1"], found[f"lens/{v}/k2"], found[f"sensor/{v}/vignetting"])
            for v in range(4)
        ]
        assert set(several_rows) <= set(rows)
        seen |= set(several_rows)
    assert seen == set(rows)
    shared = changed(domain, "lens", k1=Shared(k1), k2=Shared(k2))
    found = values(shared, views=4)
    assert len({(found[f"lens/{v}/k1"], found[f"lens/{v}/k2"]) for v in range(4)}) == 1


def test_a_quota_holds_in_every_block_and_in_any_order(domain):
    kinds = Quota((Constant("table"), Constant("mat"), Constant("tray")), (1, 2, 1))
    other = changed(domain, "layout", surface=kinds)

    def surfaces(seed=3, **options):
        path = "layout/surface"
        return [sample_distribution(other, kinds, path, seed, i, **options) for i in range(40)]

    found = surfaces()
    blocks = [tuple(found[i : i + 4]) for i in range(0, 40, 4)]
    assert all(Counter(block) == {"table": 1, "mat": 2, "tray": 1} for block in blocks)
    assert len(set(blocks)) > 4
    assert [values(other, index)["layout/surface"] for index in (0, 17)] == [found[0], found[17]]
    assert found != surfaces(seed=4)
    assert found == surfaces(attempt=5)  # rejected scenes do not upset the balance
    assert found != surfaces(intervention=Intervention(resamples={"layout": 1}))


def test_strata_of_ranges_are_drawn_inside_them(domain):
    near, far = Uniform(28.0, 30.0), Uniform(60.0, 72.0)
    quota = Quota((near, far))
    other = changed(domain, "view", die_px=quota)
    for view in range(2):
        path = f"view/{view}/die_px"
        found = [sample_distribution(other, quota, path, 3, index) for index in range(16)]
        assert values(other, 5)[path] == found[5]
        assert sum(px < 30 for px in found) == 8
        assert len(set(found)) == 16


@pytest.mark.parametrize("shares", [(1,), (1, 1), (3, 2, 5)])
def test_strata_depend_on_their_arguments_alone(shares):
    block = sum(shares)
    for start in range(0, 5 * block, block):
        found = Counter(compute_stratum(7, "a", start + i, shares) for i in range(block))
        assert [found[i] for i in range(len(shares))] == list(shares)


def test_a_schedule_goes_over_in_a_straight_line():
    moving = Schedule(((10, Uniform(0.0, 1.0)), (20, Uniform(4.0, 9.0))))
    at = {index: moving.sample(chance(index=index)) for index in (0, 10, 15, 20, 1000)}
    u = Uniform(0.0, 1.0).sample(chance())
    assert at[0] == at[10] == u
    assert at[20] == at[1000] == pytest.approx(4 + 5 * u)
    assert at[15] == pytest.approx((at[10] + at[20]) / 2)


@pytest.mark.parametrize("shared", [Shared(U), Shared(U) + U, Shared(Shared(U)) * U])
def test_a_schedule_between_equal_draws_changes_nothing(shared):
    before = Shared(U) * 0  # what has been shared is not shared again
    still = Schedule(((0, shared), (1000, shared)))
    for index in range(450, 550):
        wanted = Sum((before, shared)).sample(chance(index=index, path="exposure/0/exposure_ev"))
        found = Sum((before, still)).sample(chance(index=index, path="exposure/0/exposure_ev"))
        assert found == pytest.approx(wanted, rel=1e-12)


def test_a_schedule_of_words_changes_over_with_a_rising_probability():
    words = Schedule(((0, Constant("table")), (400, Constant("tray"))))
    found = [words.sample(chance(i, index=i)) == "tray" for i in range(401)]
    assert (found[0], found[400]) == (False, True)
    quarters = [sum(found[i : i + 100]) / 100 for i in range(0, 400, 100)]
    assert quarters == pytest.approx([0.125, 0.375, 0.625, 0.875], abs=0.1)


def test_whole_numbers_of_a_schedule_stay_whole():
    counts = Schedule(((0, Integers(1, 3)), (7, Integers(10, 30))))
    found = {type(counts.sample(chance(seed, index=3))) for seed in range(9)}
    assert found == {int}


EXPRESSIONS = {
    "light": {"warmth": Same("lamp/0/warmth") * 0.5},
    "lamp": {"level": Shared(Uniform(0.2, 0.4)) + Uniform(0.0, 0.1)},
    "table": {"hue": Column("colours", (0.1, 0.5, 0.9)), "value": Same("mat/value")},
    "mat": {"hue": Column("colours", (0.2, 0.6, 1.0))},
    "layout": {"surface": Quota((Constant("mat"), Constant("tray")))},
    "exposure": {"exposure_ev": Given("layout/surface", {"mat": Uniform(-1, 0), "tray": 0.1 * U})},
}


def full_of_expressions(domain):
    for group, factors in EXPRESSIONS.items():
        domain = changed(domain, group, **factors)
    return domain


@pytest.mark.parametrize("group", [*SCENE_GROUPS, "die", "die_color", "die_surface"])
@pytest.mark.parametrize("is_plain", [True, False], ids=["plain", "expressions"])
def test_a_redrawn_group_leaves_every_value_outside_bit_identical(domain, group, is_plain):
    chosen = domain if is_plain else full_of_expressions(domain)
    if group not in chosen:
        pytest.skip(f"no {group} in this recipe")
    moved = 0
    for index in range(2):
        before = values(chosen, index)
        after = values(chosen, index, intervention=Intervention(resamples={group: 1}))
        outside = [p for p in before.keys() & after.keys() if p.split("/")[0] != group]
        assert {p: repr(before[p]) for p in outside} == {p: repr(after[p]) for p in outside}
        both = before.keys() & after.keys()
        moved += sum(before[p] != after[p] for p in both)
    assert moved > 0 or not any(p.split("/")[0] == group for p in before)


def test_a_factor_that_is_set_leaves_every_other_bit_identical(domain):
    chosen = full_of_expressions(domain)
    before = values(chosen)
    for settings, paths in (
        ({"lamp/0/warmth": 0.25}, {"lamp/0/warmth"}),
        ({"mat/value": 1.0}, {"mat/value"}),
        ({"die/edge_m": 0.02}, {p for p in before if p.startswith("die/") and "edge_m" in p}),
        ({"layout/surface": "table"}, {"layout/surface"}),
    ):
        after = values(chosen, intervention=Intervention(settings=settings))
        assert {p for p in before if before[p] != after[p]} <= paths
        assert {after[p] for p in paths} == set(settings.values())
        assert before.keys() == after.keys()


def test_set_and_redrawn_at_once(domain):
    change = Intervention(resamples={"table": 2}, settings={"table/hue": 0.5})
    before, after = values(domain), values(domain, intervention=change)
    assert after["table/hue"] == 0.5
    assert after["table/value"] != before["table/value"]
    again = values(domain, intervention=Intervention(resamples={"table": 2}))
    assert {p for p in after if after[p] != again[p]} == {"table/hue"}
    expected = domain.get_factor("table/value").sample(
        SamplingContext(derive_rng(3, "table/value", attempt=2))
    )
    assert after["table/value"] == expected


def test_what_is_drawn_beside_the_factors_refers_to_them(domain):
    ratio = Same("light/sky_level") / Same("lamp/0/level")
    found = values(domain)
    expected = found["light/sky_level"] * found["lamp/0/level"] ** -1
    assert sample_distribution(domain, ratio, "require/ratio", 3, 0) == pytest.approx(
        expected, rel=1e-15
    )
    assert math.isfinite(sample_distribution(domain, Same("lamp/3/level"), "require/x", 3, 0))
