"""Decals as they are drawn: on what, on which side, saying what."""

import re
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import RecipeError
from sim2cam.files import write_bytes
from sim2cam.images import encode_png
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.counterfactual import Intervention
from sim2cam.randomize.distributions import Choice, Constant
from sim2cam.randomize.domain_checks import RecipeNames, check_domain
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene


@pytest.fixture(scope="module")
def domain():
    return load_recipe("groceries").domain


def with_group(domain, name, **factors):
    given = {k: v if hasattr(v, "sample") else Constant(v) for k, v in factors.items()}
    return domain.replace_factors({f"{name}/{factor}": value for factor, value in given.items()})


def composed(domain, index=0, change=None):
    drawn = sample_factors(
        domain, 3, index, views=1, **({"intervention": change} if change else {})
    )
    return drawn, build_scene(drawn, domain, 64, 64)


def decals_of(scene):
    return [(body, decal) for body in scene.bodies for decal in body.decals or ()]


@pytest.mark.parametrize("index", range(8))
def test_each_is_where_and_what_was_drawn(domain, index):
    drawn, scene = composed(with_group(domain, "layout", decal_count=12), index)
    found = decals_of(scene)
    for body, decal in found:
        assert decal.side < body.asset.side_count
    there = {body.name.partition("/")[0] for body in scene.bodies}
    wanted = [drawn.get_str(f"decal/{i}/on") for i in range(12)]
    assert sorted(body.name.partition("/")[0] for body, _ in found) == sorted(
        place for place in wanted if place in there
    )
    seeds = {decal.seed: decal for _, decal in found}
    for i, place in enumerate(wanted):
        if place in there:
            decal = seeds[drawn.get_int(f"decal/{i}/seed")]
            assert len(decal.text) == drawn.get_int(f"decal/{i}/length")
            assert decal.width_m == drawn.get_float(f"decal/{i}/width_m")
            assert (decal.background_color is not None) == drawn.get_bool(f"decal/{i}/backed")


def test_every_thing_and_every_side_get_their_share(domain):
    many = with_group(domain, "layout", decal_count=40, carton_count=3, surface="table")
    many = with_group(many, "decal", on="carton")
    names, sides = set(), set()
    for index in range(3):
        for body, decal in decals_of(composed(many, index)[1]):
            names.add(body.name)
            sides.add(decal.side)
    assert names == {"carton/0", "carton/1", "carton/2"}
    assert sides == set(range(6))
    last = with_group(many, "decal", which=1.0, side=1.0)
    assert {(b.name, d.side) for b, d in decals_of(composed(last)[1])} == {("carton/2", 5)}


@pytest.mark.parametrize("index", range(3))
def test_they_change_nothing_else(domain, index):
    some, none = (with_group(domain, "layout", decal_count=n) for n in (5, 0))
    (drawn, scene), (before, bare) = (composed(d, index) for d in (some, none))
    left = {k: v for k, v in drawn.values.items() if not k.startswith("decal/")}
    assert left | {"layout/decal_count": 0} == before.values
    assert tuple(replace(body, decals=None) for body in scene.bodies) == bare.bodies


def test_they_are_redrawn_alone(domain):
    some = with_group(domain, "layout", decal_count=5)
    (_, scene), (_, other) = composed(some), composed(some, change=Intervention({"decal": 1}))
    assert decals_of(scene) != decals_of(other)
    assert [replace(b, decals=None) for b in scene.bodies] == [
        replace(b, decals=None) for b in other.bodies
    ]


def test_they_say_what_is_told(domain):
    told = with_group(domain, "layout", decal_count=6)
    told = with_group(told, "decal", text=Choice(("SALE", "2 for 1")), on="tin")
    assert {decal.text for _, decal in decals_of(composed(told)[1])} == {"SALE", "2 for 1"}


def test_all_places_can_be_told(domain):
    dice = load_recipe("dice").domain
    dice = dice.replace_groups({"decal": domain.groups["decal"]})
    with pytest.raises(
        ValueError, match=r"'domain\.decal\.on' can be 'carton', but no scene contains one"
    ):
        check_domain(dice, RecipeNames(categories=tuple("123456")))
    stuck = with_group(dice, "decal", on=Choice(("die", "mat")))
    check_domain(stuck, RecipeNames(categories=tuple("123456")))
    stuck = with_group(stuck, "layout", decal_count=4)
    stuck = with_group(stuck, "decal", on="die")
    found = decals_of(composed(stuck)[1])
    assert {body.asset.kind for body, _ in found} == {"die"}


def test_tables_have_theirs_in_every_scene(domain):
    dice = load_recipe("dice").domain.replace_groups({"decal": domain.groups["decal"]})
    dice = with_group(with_group(dice, "layout", decal_count=2), "decal", on="table")
    check_domain(dice, RecipeNames(categories=tuple("123456")))
    assert [body.name for body, _ in decals_of(composed(dice)[1])] == ["table", "table"]


def test_pictures_are_drawn_by_name_and_recorded(tmp_path):
    write_bytes(tmp_path / "stickers/logo.png", encode_png(np.zeros((8, 8, 3), np.uint8)))
    (tmp_path / "stickers/logo.toml").write_text('licence = "CC0-1.0"\n')
    path = tmp_path / "mine.toml"
    path.write_text(
        'base = "groceries"\n[pictures]\nfolder = "stickers"\n[domain.layout]\ndecal_count = 4\n'
        'tin_count = 2\n[domain.decal]\non = "tin"\npicture = "logo.png"\n'
    )
    recipe = load_recipe(str(path))
    drawn = sample_factors(recipe.domain, 0, 0, views=1)
    scene = recipe.compose_scene(drawn)
    assert drawn.get_str("decal/0/picture") == "logo.png"
    assert len(decals_of(scene)) == 4
    assert {decal.image.path[-8:] for _, decal in decals_of(scene)} == {"logo.png"}
    assert recipe.collect_licences() == {"pictures/logo.png": "CC0-1.0"}


BAD = [
    ("[domain.decal]\non = 'twisty'", "'domain.decal.on' cannot be 'twisty'. Allowed: "),
    ("[domain.decal]\non = 'die'", "'domain.decal.on' can be 'die', but no scene contains one."),
    ("[domain.decal]\non = 'mat'\n[domain.layout]\nsurface = 'table'", "'domain.decal.on' can be 'mat', but no scene contains one."),
    ("[domain.decal]\ntext = 'na\u00efve'", "'domain.decal.text' cannot be 'na\u00efve'. Allowed: printable ASCII, up to 40 characters."),
    ("[domain.decal]\nlength = 50", "'domain.decal.length' cannot be 50. Allowed: whole numbers from 1 to 40."),
    ("[domain.decal]\npicture = 'logo.png'", "'domain.decal.picture' cannot be 'logo.png'. Allowed: none."),
    ("[domain.decal]\nwear = 2", "'domain.decal.wear' cannot be 2. Allowed: numbers from 0 to 1."),
    ("[domain.decal]\nbacked = 1", "'domain.decal.backed' cannot be 1. Allowed: true, false."),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BAD, ids=[message for _, message in BAD])
def test_what_cannot_be_is_refused(tmp_path, text, message):
    path = tmp_path / "r.toml"
    path.write_text(f"base = 'groceries'\n{text}\n")
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_recipe(str(path))


def test_a_count_needs_its_group(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("base = 'dice'\n[domain.layout]\ndecal_count = 2\n")
    message = "'domain.layout.decal_count' requires 'domain.decal', which is missing"
    with pytest.raises(RecipeError, match=re.escape(message)):
        load_recipe(str(path))
