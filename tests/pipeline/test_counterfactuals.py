"""Pairs of scenes that differ by one intervention, from sampled values to pixels."""

import re
from dataclasses import fields, replace

import pytest

from sim2cam.data.checks.dataset import check_dataset
from sim2cam.data.reader import read_header
from sim2cam.errors import RecipeError, SceneError, UsageError
from sim2cam.pipeline import scene_sampling
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import RECIPES_FOLDER, RenderOptions, load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.distributions import Constant
from sim2cam.randomize.sampling import sample_factors

FULL = load_recipe("dice-fisheye")
RECIPE = replace(FULL, render=RenderOptions(width=96, height=80, views=2))
SCENE = 10  # has every group
PHYSICAL = {"layout", "die", "distractor"}
MECHANICAL = PHYSICAL | {
    "object", "fixture", "block", "board", "card", "twisty", "tin", "carton", "bolt", "nut", "domino", "cable",
    "paper", "hand", "ball", "robot", "field",
}  # fmt: skip
OF_FILES = {"bin", "lmo", "panda", "shelf"}  # slow import of objects
RECIPES = [
    pytest.param(path.stem, marks=[pytest.mark.slow] if path.stem in OF_FILES else [])
    for path in sorted(RECIPES_FOLDER.glob("*.toml"))
]
GROUPS = list(FULL.domain.groups)


@pytest.fixture(scope="module")
def original():
    return simulate_scene(RECIPE, 0, SCENE)


def made(root, change):
    recipe = replace(load_recipe("dice"), render=RenderOptions(width=96, height=80, views=2))
    return generate(recipe, root, count=2, seed=0, change=change)


@pytest.mark.parametrize("group", GROUPS)
def test_values_outside_the_group_are_bit_identical(original, group):
    pair = simulate_scene(RECIPE, 0, SCENE, Intervention({group: 1}))
    before, after = original.sampled_values.values, pair.sampled_values.values
    outside = {path for path in before.keys() & after.keys() if path.split("/")[0] != group}
    assert {path: repr(before[path]) for path in outside} == {p: repr(after[p]) for p in outside}
    assert any(before.get(path) != value for path, value in after.items())
    assert pair.counterfactual.change == Intervention({group: 1})
    if group not in PHYSICAL:
        poses = [[body.pose for body in each.scene.bodies] for each in (original, pair)]
        assert poses[0] == poses[1]
        assert pair.counterfactual.moved_bodies == ()
        assert pair.certificate == original.certificate
    assert (pair.attempt, pair.index) == (original.attempt, original.index)


def mechanics(scene):
    """Return all physical properties of the bodies except their shapes; hoods move with their cameras."""
    looks = {"asset", "material", "decals"}
    return [
        {f.name: getattr(b, f.name) for f in fields(b) if f.name not in looks}
        for b in scene.bodies
        if b.asset.kind != "lens_hood"
    ]


@pytest.mark.parametrize("name", RECIPES)
def test_every_group_resamples_independently(name):
    """Check the sampled values and the initial poses of bodies."""
    try:
        recipe = load_recipe(name)
    except RecipeError as error:  # a public dataset that is not fetched
        pytest.skip(str(error))
    before = sample_factors(recipe.domain, 0, SCENE, views=1)
    let_go, moved = mechanics(recipe.compose_scene(before)), set()
    for group in recipe.domain.groups:
        after = sample_factors(
            recipe.domain, 0, SCENE, views=1, intervention=Intervention({group: 1})
        )
        both = before.values.keys() & after.values.keys()
        differing = {path for path in both if repr(before.values[path]) != repr(after.values[path])}
        assert {path.split("/")[0] for path in differing} <= {group}
        moved |= {group} if differing else set()
        if group not in MECHANICAL:
            assert mechanics(recipe.compose_scene(after)) == let_go
    drawn = {path.split("/")[0] for path in before.values}
    assert moved == drawn - {group for group in drawn if is_constant(recipe.domain.groups[group])}


def is_constant(group):
    return all(isinstance(factor, Constant) for factor in group.values())


def test_moved_bodies_are_listed(original):
    pair = simulate_scene(RECIPE, 0, SCENE, Intervention(settings={"die/0/density_kg_m3": 1300.0}))
    before, after = ({b.name: b.pose for b in s.scene.bodies} for s in (original, pair))
    assert set(pair.counterfactual.moved_bodies) == {n for n in before if before[n] != after[n]}
    assert "table" not in pair.counterfactual.moved_bodies
    dice = sum(name.startswith("die/") for name in before)
    more = simulate_scene(RECIPE, 0, SCENE, Intervention(settings={"layout/die_count": dice + 1}))
    assert {f"die/{dice}"} <= set(more.counterfactual.moved_bodies)


def test_counterfactual_uses_accepted_attempt(monkeypatch):
    true, calls = scene_sampling.simulate, []

    def settle_the_third(*given):
        scene, certificate = true(*given)
        calls.append(scene)
        return scene, certificate if len(calls) > 2 else replace(certificate, rejection="no")

    monkeypatch.setattr(scene_sampling, "simulate", settle_the_third)
    original = simulate_scene(RECIPE, 0, SCENE)
    assert original.attempt >= 2
    calls.clear()
    pair = simulate_scene(RECIPE, 0, SCENE, Intervention({"light": 1}))
    assert pair.attempt == original.attempt
    assert pair.counterfactual.moved_bodies == ()


def test_unsettled_resample_is_repeated(monkeypatch, original):
    true, calls = scene_sampling.simulate, []

    def refuse_the_second(*given):
        scene, certificate = true(*given)
        calls.append(certificate)
        return scene, replace(certificate, rejection="no") if len(calls) == wanted else certificate

    monkeypatch.setattr(scene_sampling, "simulate", refuse_the_second)
    wanted = 0
    first = simulate_scene(RECIPE, 0, SCENE, Intervention({"die": 1}))
    settled = len(calls)
    calls.clear()
    wanted = settled
    second = simulate_scene(RECIPE, 0, SCENE, Intervention({"die": 1}))
    assert (
        second.sampled_values.values["die/0/edge_m"] != first.sampled_values.values["die/0/edge_m"]
    )
    assert second.rejections[-1] == "no"
    calls.clear()
    wanted = settled
    message = f"scene {SCENE} of recipe 'dice-fisheye' is not valid with the values that are set: no. Set other"
    with pytest.raises(SceneError, match=f"^{re.escape(message)}"):
        simulate_scene(RECIPE, 0, SCENE, Intervention(settings={"die/edge_m": 0.016}))


def test_datasets_pair_by_name_and_record_the_change(tmp_path):
    plain = made(tmp_path / "plain", Intervention())
    other = made(tmp_path / "other", Intervention({"light": 1}, {"die_color/body_tone": "black"}))
    for a, b in zip(plain.samples, other.samples, strict=True):
        assert a.name == b.name
        assert a.objects == b.objects
        assert a.rgb.read_bytes() != b.rgb.read_bytes()
        for channel in ("depth", "ids"):
            assert a.channels[channel].read_bytes() == b.channels[channel].read_bytes()
    assert check_dataset(tmp_path / "other").problems == ()
    assert "change" not in read_header(tmp_path / "plain")
    assert read_header(tmp_path / "other")["change"] == {
        "resamples": {"light": 1},
        "settings": {"die_color/body_tone": "black"},
    }


WRONG = [
    (Intervention({"lihgt": 1}), "unknown group 'lihgt'. Did you mean 'light'? Allowed: "),
    (
        Intervention({"light/warmht": 1}),
        "unknown factor 'warmht' of light. Did you mean 'warmth'? Allo",
    ),
    (Intervention({"light/1": 1}), "'light/1': light has no instances. Remove the number"),
    (Intervention({}, {"light": 1}), "unknown factor '' of light. Allowed: "),
    (
        Intervention({}, {"layout/surface": "floor"}),
        "'layout/surface' cannot be 'floor'. Allowed: bin, field, mat, ",
    ),
    (
        Intervention({}, {"die/2/edge_m": 1.0}),
        "'die/2/edge_m' cannot be 1.0. Allowed: numbers from 0.0",
    ),
    (
        Intervention({}, {"die/edge_m": True}),
        "'die/edge_m' cannot be True. Allowed: numbers from 0.002",
    ),
    (
        Intervention({}, {"layout/die_count": 3.5}),
        "'layout/die_count' cannot be 3.5. Allowed: whole numbers from 1 to 128.",
    ),
    (
        Intervention({}, {"light/warmth": 9}),
        "'light/warmth' cannot be 9. Allowed: numbers from -1 to 1.",
    ),
    (Intervention({}, {"motion/yaw_rad_s": 0.0}), "unknown group 'motion'. "),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[m for _, m in WRONG])
def test_unknown_change_is_refused(change, message, tmp_path):
    with pytest.raises(UsageError) as caught:
        made(tmp_path / "d", change)
    assert str(caught.value).startswith(message)
    assert not (tmp_path / "d").exists()
