import re

import pytest

from sim2cam.errors import UsageError
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.distributions import Constant, Uniform
from sim2cam.randomize.factors import PER_VIEW_GROUPS, SINGLETON_GROUPS
from sim2cam.randomize.sampling import (
    check_instances,
    sample_factors,
)
from sim2cam.randomize.sampling_context import SamplingContext
from sim2cam.seeds import derive_rng


def drawn(domain, index=5, seed=3, views=2, **options):
    return sample_factors(domain, seed, index, views=views, **options)


def changed(before, after):
    """Paths whose values differ or that only one has."""
    paths = before.values.keys() | after.values.keys()
    return {p for p in paths if before.values.get(p) != after.values.get(p)}


def test_every_factor_is_drawn_from_its_own_stream(domain):
    values = drawn(domain).values
    for path, factor in (
        ("light/warmth", domain.get_factor("light/warmth")),
        ("die/2/edge_m", domain.get_factor("die/edge_m")),
        ("view/1/die_px", domain.get_factor("view/die_px")),
    ):
        assert values[path] == factor.sample(SamplingContext(derive_rng(3, path, scene_index=5)))


def test_every_group_is_drawn_as_often_as_it_is_needed(domain):
    values = drawn(domain, views=3).values
    counts = {
        **{
            name: values.get(count, 0)
            for count, names in domain.repeated_groups.items()
            for name in names
        },
        **dict.fromkeys(PER_VIEW_GROUPS, 3),
    }
    assert counts["die"] == counts["die_color"] == values["layout/die_count"] > 0
    assert {*domain.parameters} >= {*counts, *SINGLETON_GROUPS} >= {*domain.groups}
    counts |= {name: 0 for name in counts if name not in domain}
    for name, count in counts.items():
        found = {p.split("/")[1] for p in values if p.split("/")[0] == name}
        assert found == {str(i) for i in range(count)}


def test_near_lights_are_drawn_as_often_as_their_count_says():
    domain = load_recipe("dice-fisheye").domain
    for index in range(6):
        values = sample_factors(domain, 0, index, views=1).values
        found = {p.split("/")[1] for p in values if p.startswith("near_light/")}
        assert len(found) == values["light/near_count"]


def test_a_scene_depends_on_its_seed_index_and_attempt_alone(domain):
    once = drawn(domain)
    drawn(domain, index=0)
    assert drawn(domain) == once
    for other in ({"seed": 4}, {"index": 6}, {"attempt": 1}):
        differing = changed(once, drawn(domain, **other))
        assert len(differing) > 0.8 * len(once.values)


def test_seed_0_and_index_0_are_like_any_other(domain):
    assert changed(drawn(domain, seed=0, index=0), drawn(domain, seed=1, index=0))
    assert changed(drawn(domain, seed=0, index=0), drawn(domain, seed=0, index=1))


def test_more_views_change_nothing_else(domain):
    few, many = drawn(domain, views=2), drawn(domain, views=4)
    assert few.values.items() <= many.values.items()
    added = many.values.keys() - few.values.keys()
    there = [name for name in PER_VIEW_GROUPS if name in domain]
    assert {tuple(p.split("/")[:2]) for p in added} == {(n, i) for n in there for i in "23"}


def test_a_group_that_is_added_changes_nothing_else(domain):
    shutter = {"exposure_s": Uniform(0.001, 0.02), "readout_s": Constant(0.0)}
    before, after = drawn(domain), drawn(domain.replace_groups({"shutter": shutter}))
    assert changed(before, after) == {
        f"shutter/{i}/{name}" for i in "01" for name in ("exposure_s", "readout_s")
    }
    assert after.has_group("shutter/1")
    assert not before.has_group("shutter/1")


@pytest.mark.parametrize("group", ["light", "layout", "die", "die/1", "view/0", "sensor", "table"])
def test_redrawing_a_group_leaves_every_other_value(domain, group):
    before = drawn(domain)
    again = drawn(domain, intervention=Intervention(resamples={group: 1}))
    both = before.values.keys() & again.values.keys()
    inside = {p for p in both if f"{p}/".startswith(f"{group}/")}
    differing = {p for p in both if before.values[p] != again.values[p]}
    assert differing <= inside
    assert len(differing) > len(inside) / 2
    if group not in ("layout", "light"):  # which decide how many there are of others
        assert before.values.keys() == again.values.keys()


def test_redraws_count(domain):
    once, twice = (drawn(domain, intervention=Intervention(resamples={"light": n})) for n in (1, 2))
    assert {p.split("/")[0] for p in changed(once, twice)} <= {"light", "lamp"}
    assert changed(once, twice)
    assert not changed(
        drawn(domain), drawn(domain, intervention=Intervention(resamples={"light": 0}))
    )


def test_a_name_is_not_taken_for_another_that_begins_alike(domain):
    differing = changed(
        drawn(domain), drawn(domain, intervention=Intervention(resamples={"die": 1}))
    )
    assert {p.split("/")[0] for p in differing} == {"die"}
    more = sample_factors(domain.replace_factors({"layout/die_count": Constant(12)}), 3, 5, views=1)
    again = sample_factors(
        domain.replace_factors({"layout/die_count": Constant(12)}),
        3, 5, views=1, intervention=Intervention(resamples={"die/1": 1}),
    )  # fmt: skip
    assert {p.split("/")[1] for p in changed(more, again)} == {"1"}


def test_another_distribution_of_one_factor_changes_no_other(domain):
    other = domain.replace_factors({"table/hue": Uniform(0.0, 0.01)})
    assert changed(drawn(domain), drawn(other)) == {"table/hue"}


def test_a_category_follows_the_factor_that_is_set(tmp_path):
    path = tmp_path / "ranks.toml"
    ranks = ["A", *map(str, range(2, 11)), "J", "Q", "K", "back"]
    path.write_text(
        f'base = "cards"\ncategories = {ranks}\n[domain.card]\ncategory = {{ from = "rank" }}\n'
    )
    domain = load_recipe(str(path)).domain
    before = drawn(domain)
    face = "3S" if before.values["card/0/face"].startswith("2") else "2H"
    after = drawn(domain, intervention=Intervention(settings={"card/0/face": face}))
    assert after.values["card/0/category"] == face[:-1]
    assert changed(before, after) <= {"card/0/face", "card/0/rank", "card/0/category"}


def test_an_unknown_group_is_refused(domain):
    names = ", ".join(sorted(domain.groups))
    message = f"unknown group 'lihgt'. Did you mean 'light'? Allowed: {names}"
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        drawn(domain, intervention=Intervention(resamples={"lihgt": 1}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Intervention({"die/99": 1}), "there is no 'die/99': scenes have die/0 to die/29 at most."),
        (
            Intervention({"lamp/3": 1}),
            "there is no 'lamp/3': scenes have lamp/0 to lamp/2 at most.",
        ),
        (
            Intervention({}, {"die/30/edge_m": 0.01}),
            "there is no 'die/30/edge_m': scenes have die/0 to ",
        ),
        (
            Intervention({"die_color/30": 1}),
            "there is no 'die_color/30': scenes have die_color/0 to ",
        ),
        (
            Intervention({"exposure/2": 1}),
            "there is no 'exposure/2': scenes have exposure/0 to exposure/1 ",
        ),
        (
            Intervention({"die/3": 1}, {"layout/die_count": 3}),
            "there is no 'die/3': scenes have die/0 to die/2 at most.",
        ),
        (
            Intervention({"distractor/0": 1}, {"layout/distractor_count": 0}),
            "there is no 'distractor/0': scenes have no distractor.",
        ),
    ],
)
def test_an_instance_that_no_scene_can_have_is_refused(domain, change, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        check_instances(domain, change, views=2)


def test_instances_that_scenes_can_have_may_change(domain):
    redraws = dict.fromkeys(("die/29", "lamp/2/level", "view/1", "light"), 1)
    check_instances(
        domain, Intervention(redraws, {"die/0/edge_m": 0.01, "die/edge_m": 0.02}), views=2
    )
    check_instances(domain, Intervention({"die/39": 1}, {"layout/die_count": 40}), views=2)


def test_values_are_read_by_kind(domain):
    found = drawn(domain)
    assert found.get_float("layout/die_count") == float(found.get_int("layout/die_count"))
    assert found.get_str("layout/surface") in ("table", "mat", "tray")
    assert isinstance(found.get_bool("layout/same_look"), bool)
    with pytest.raises(KeyError):
        found.get_float("light/lumens")


def test_groups_and_factors_that_are_left_out_change_no_other(domain):
    bare = domain.replace_groups({"stereo": None, "depth_camera": None})
    paths = changed(drawn(domain), drawn(bare))
    assert {p.split("/")[0] for p in paths} == {"stereo", "depth_camera"}
    assert "depth_camera/0/speckle_contrast" not in drawn(domain).values
    assert not drawn(bare).has_group("stereo/0")
    assert drawn(domain).has_group("stereo/0")
