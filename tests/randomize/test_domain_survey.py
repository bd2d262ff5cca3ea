import pytest

from sim2cam.randomize.distributions import (
    Choice,
    Constant,
    Given,
    Quota,
    Schedule,
    Uniform,
    to_toml,
)
from sim2cam.randomize.domain_survey import sample_factor_histograms
from sim2cam.randomize.sampling import sample_factors

SCENES = 8


@pytest.fixture(scope="module")
def surveyed(domain):
    other = domain.replace_factors(
        {
            "layout/surface": Quota((Constant("table"), Choice(("mat", "tray"))), (1, 3)),
            "layout/aspect": Schedule(((0, Constant(0.5)), (9, Uniform(0.6, 1.0)))),
            "layout/wall_m": Constant(0.02),
        }
    )
    return other, sample_factor_histograms(other, 4, count=SCENES, views=1)


def by_name(factors):
    return {(one.group, one.factor): one for one in factors}


def test_every_factor_is_surveyed_in_order(surveyed):
    domain, factors = surveyed
    assert [(one.group, one.factor, one.distribution) for one in factors] == [
        (group, factor, to_toml(distribution))
        for group, factor, distribution in domain.iterate_factors()
    ]


def test_draws_are_counted_and_none_falls_outside(surveyed):
    domain, factors = surveyed
    drawn = [sample_factors(domain, 4, index, views=1).values for index in range(SCENES)]
    for one in factors:
        times = sum(
            path.split("/")[0] == one.group and path.split("/")[-1] == one.factor
            for values in drawn
            for path in values
        )
        assert one.count == sum(one.observed) == times
        if one.expected is not None:
            assert sum(one.expected) == pytest.approx(one.count)


def test_words_numbers_and_what_has_no_closed_form(surveyed):
    found = by_name(surveyed[1])
    surface = found["layout", "surface"]
    assert dict(zip(surface.options, surface.expected, strict=True)) == {
        "table": 2.0, "mat": 3.0, "tray": 3.0,
    }  # fmt: skip
    assert surface.observed[0] == 2
    assert found["layout", "aspect"].expected is None
    count = found["layout", "distractor_count"]
    assert count.edges == (-0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    assert count.expected == pytest.approx([SCENES / 6] * 6)
    flags = found["layout", "same_look"]
    assert set(flags.options) == {"true", "false"}
    assert found["layout", "wall_m"].is_fixed
    assert not count.is_fixed


def test_a_value_that_never_occurs_is_expected_zero_times(domain):
    other = domain.replace_factors(
        {
            "layout/surface": Constant("table"),
            "table/family": Given("layout/surface", {"table": Constant("wood")}, Constant("plain")),
        }
    )
    family = by_name(sample_factor_histograms(other, 4, count=SCENES, views=1))["table", "family"]
    assert dict(zip(family.options, family.expected, strict=True)) == {"wood": SCENES, "plain": 0.0}
