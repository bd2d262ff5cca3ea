"""Groups of labelled objects: categories from factors, several groups of a kind, kinds of users."""

import sys
from dataclasses import replace

import pytest

from sim2cam.errors import RecipeError
from sim2cam.objects.card import Card
from sim2cam.pipeline.generation import generate
from sim2cam.pipeline.recipe import Recipe, load_recipe
from sim2cam.pipeline.scene_sampling import simulate_scene
from sim2cam.randomize.domain_checks import list_label_classes
from sim2cam.randomize.expected_shares import compute_value_probabilities
from sim2cam.randomize.sampling import sample_factors
from sim2cam.render.gbuffer import assign_label_ids
from sim2cam.scene import shape

SIX_RANKS = ("9", "10", "J", "Q", "K", "A")
FACES = [f"{rank}{suit}" for rank in SIX_RANKS for suit in "CDHS"]
DECK = f"""
base = "cards"
[domain.card]
face = {{ kind = "choice", options = {FACES} }}
face_down = false
category = {{ from = "rank" }}
"""


def load(tmp_path, text, name="r.toml"):
    path = tmp_path / name
    path.write_text(text.replace("'", '"'))
    return load_recipe(str(path))


def compose(recipe, index=0):
    values = sample_factors(recipe.domain, 3, index, views=1)
    return values, [body for body in recipe.compose_scene(values).bodies if body.is_target]


def test_category_follows_a_derived_factor(tmp_path):
    recipe = load(tmp_path, f"categories = {list(SIX_RANKS)}\n{DECK}")
    for index in range(5):
        _, bodies = compose(recipe, index)
        assert bodies
        for body in bodies:
            assert body.get_category() == body.asset.face[:-1]
    plain = load(tmp_path, 'base = "cards"', "plain.toml")
    same = replace(
        plain, domain=recipe.domain.replace_groups({"card": plain.domain.groups["card"]})
    )
    assert sample_factors(same.domain, 3, 0, views=1) == sample_factors(plain.domain, 3, 0, views=1)


def test_histograms_expect_derived_categories(tmp_path):
    recipe = load(tmp_path, f"categories = {list(SIX_RANKS)}\n{DECK}")
    renamed = load(
        tmp_path,
        'categories = ["ace", "low"]\n'
        + DECK.replace('"rank"', '"rank", cases = { A = "ace" }, otherwise = "low"'),
        "renamed.toml",
    )
    for domain, expected in (
        (recipe.domain, dict.fromkeys(SIX_RANKS, 1 / 6)),
        (renamed.domain, {"ace": 1 / 6, "low": 5 / 6}),
    ):
        found = compute_value_probabilities(domain, domain.get_factor("card/category"))
        assert found == pytest.approx(expected)


def test_cases_rename_and_face_down_cards_keep_their_back(tmp_path):
    text = DECK.replace('from = "rank"', 'from = "rank", cases = { A = "ace" }, otherwise = "low"')
    recipe = load(
        tmp_path, f'categories = ["ace", "low", "back"]\n{text}'.replace("= false", "= true")
    )
    _, bodies = compose(recipe)
    assert {body.get_category() for body in bodies} == {"back"}
    assert {body.category for body in bodies} <= {"ace", "low"}
    (label_class,) = list_label_classes(recipe.domain)
    assert label_class.categories == ("ace", "back", "low")


def test_a_missing_category_says_what_to_do(tmp_path):
    with pytest.raises(RecipeError, match=r"'domain\.card\.category' cannot be '9'\. Allowed: A\."):
        load(tmp_path, f'categories = ["A"]\n{DECK}')
    bare = DECK.replace('category = { from = "rank" }', "")
    with pytest.raises(RecipeError, match=r"must contain 10D, .* or set 'domain\.card\.category'"):
        load(tmp_path, f'categories = ["10C"]\n{bare}')
    with pytest.raises(RecipeError, match=r"unknown factor 'ranks' of card. Did you mean 'rank'"):
        load(tmp_path, DECK.replace('from = "rank"', 'from = "ranks"'))
    with pytest.raises(RecipeError, match=r"unknown key 'domain\.card\.category\.case'. Did you"):
        load(tmp_path, DECK.replace('from = "rank"', 'from = "rank", case = {}'))


def test_a_die_may_have_one_category(tmp_path):
    recipe = load(tmp_path, 'base = "dice"\ncategories = ["die"]\n[domain.die]\ncategory = "die"')
    _, bodies = compose(recipe)
    assert {body.get_category() for body in bodies} == {"die"}


LOW_HIGH = """
base = "dice"
[domain.die]
category = { from = "upward_face", cases = { 1 = "low", 2 = "low", 3 = "low" }, otherwise = "high" }
"""


def test_the_category_of_dice_follows_from_the_upward_face(tmp_path):
    recipe = load(tmp_path, LOW_HIGH)
    assert recipe.categories == ("high", "low")
    assert Recipe.from_json(recipe.to_json()) == recipe
    small = replace(recipe, render=replace(recipe.render, width=96, height=72, views=1))
    dataset = generate(small, tmp_path / "sim", count=2, seed=0)
    categories = set()
    for index, sample in enumerate(dataset.samples):
        scene = simulate_scene(small, 0, index).scene
        names = {number: name for name, number in assign_label_ids(scene).items()}
        bodies = {body.name: body for body in scene.bodies}
        for label in sample.objects:
            body = bodies[names[label.instance_id]]
            face, _ = body.asset.find_upward_face(body.pose)
            assert label.category == ("low" if face in "123" else "high")
            categories.add(label.category)
    assert categories == {"low", "high"}


@pytest.mark.parametrize(
    ("category", "message"),
    [
        ("{ cases = { 1 = 'low' } }", "'domain.die.category': `from` is missing"),
        ("{ from = 'face', cases = { 1 = 'a' } }", "unknown factor 'face' of die. "),
        ("{ from = 'upward_face', cases = { 1 = 'a' } }", "no case for 'upward_face' = 2, 3, 4, 5, 6. "),
        (
            "{ from = 'upward_face', cases = { 7 = 'a' }, otherwise = 'b' }",
            "'upward_face' is never '7'. Allowed: 1, 2, 3, 4, 5, 6.",
        ),
        (
            "{ kind = 'same', factor = 'die/*/upward_face' }",
            "'upward_face' of die is known only after the simulation. ",
        ),
    ],
)  # fmt: skip
def test_wrong_category_rules_say_what_to_do(tmp_path, category, message):
    with pytest.raises(RecipeError) as caught:
        load(tmp_path, f"base = 'dice'\n[domain.die]\ncategory = {category}")
    assert message in str(caught.value)
    assert "found {" not in str(caught.value)


TWO_GROUPS = """
base = "cubes"
[domain.layout]
tall_count = 3
[domain.tall]
object_kind = "block"
"""


def copy_group(recipe, group):
    """Return the table of a group of objects as TOML under another name."""
    from sim2cam.randomize.distributions import to_toml

    return "".join(f"{name} = {to_toml(d)}\n" for name, d in recipe.domain.groups[group].items())


def test_several_groups_of_a_kind(tmp_path):
    cubes = load_recipe("cubes")
    text = TWO_GROUPS + copy_group(cubes, "block").replace("block/", "tall/")
    text = text.replace("height = 1", "height = 2.5")
    text += "[domain.tall_surface]\n" + copy_group(cubes, "block_surface").replace(
        "block/", "tall/"
    ).replace("block_surface/", "tall_surface/")
    recipe = load(tmp_path, text)
    assert Recipe.from_json(recipe.to_json()) == recipe
    values, bodies = compose(recipe)
    tall = [body for body in bodies if body.name.startswith("tall/")]
    assert len(tall) == 3
    for body in tall:
        assert body.asset.kind == "block"
        assert body.asset.size_m[2] == pytest.approx(2.5 * body.asset.size_m[0])
    plain = sample_factors(cubes.domain, 3, 0, views=1).values
    assert plain.items() <= values.values.items()  # a further group changes no value
    with pytest.raises(RecipeError, match=r"no kind 'blokc'. Did you mean 'block'"):
        load(tmp_path, text.replace('= "block"', '= "blokc"'))


@pytest.mark.parametrize("group", ["light", "die"])
def test_a_group_with_a_meaning_of_its_own_gets_no_other_kind(tmp_path, group):
    with pytest.raises(RecipeError, match=rf"domain\.{group}\.object_kind.*has another meaning"):
        load(tmp_path, f'base = "cubes"\n[domain.{group}]\nobject_kind = "block"\n')


KIND = """
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from sim2cam.objects.kind import ContactFactors, ObjectKind, TumblingFactors
from sim2cam.objects.primitives import Cuboid
from sim2cam.scene.parameters import Between


@dataclass(frozen=True)
class PlankFactors(TumblingFactors, ContactFactors):
    length_m: Annotated[float, Between(0.01, 1)]


@dataclass(frozen=True)
class Plank(ObjectKind):
    factors_type: ClassVar[type[Any]] = PlankFactors

    size_m: tuple[float, float, float]
    kind: Literal["plank"] = "plank"

    @classmethod
    def from_instance(cls, instance):
        length = instance.factors.length_m
        return cls((length, length / 4, length / 10))

    @classmethod
    def list_label_classes(cls, possible):
        return (cls.make_label_class({"plank"}),)

    def build_mesh(self):
        return Cuboid(self.size_m).build_mesh()
"""


def test_a_package_adds_a_kind(tmp_path, monkeypatch):
    """A module behind an entry point is enough: recipe, physics, rendering and JSON follow."""
    (tmp_path / "plank_kind.py").write_text(KIND)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(shape, "_TYPES", dict(shape.list_shape_types()))
    caches = [shape._import_kinds, shape._get_adapter]
    from sim2cam.randomize import domain

    caches += [domain._list_object_groups, domain._list_group_parameters]

    class EntryPoint:
        def load(self):
            __import__("plank_kind")

    monkeypatch.setattr(shape, "entry_points", lambda group: [EntryPoint()])
    for cache in caches:
        cache.cache_clear()
    try:
        cubes = load_recipe("cubes")
        drop = [
            line
            for line in copy_group(cubes, "block").splitlines()
            if line.split(" ")[0] not in ("category", "length_m", "width", "height", "rounding")
        ]
        text = 'base = "tabletop"\nname = "planks"\n[domain.layout]\nplank_count = 2\n'
        text += "[domain.view]\nobject_px = 100\n[domain.plank]\nlength_m = 0.1\n" + "\n".join(drop)
        text += "\n[domain.plank_surface]\n" + copy_group(cubes, "table")
        recipe = load(tmp_path, text)
        assert recipe.categories == ("plank",)
        _, bodies = compose(recipe)
        assert [body.get_category() for body in bodies] == ["plank", "plank"]
    finally:
        monkeypatch.undo()
        sys.modules.pop("plank_kind", None)
        for cache in caches:
            cache.cache_clear()


def test_cards_keep_the_meaning_of_their_seed(tmp_path):
    """A category changes labels only."""
    recipe = load(tmp_path, f"categories = {list(SIX_RANKS)}\n{DECK}")
    named, bare = (
        compose(r)[1]
        for r in (
            recipe,
            load(tmp_path, DECK.replace('category = { from = "rank" }', ""), "b.toml"),
        )
    )
    assert [replace(body, category=None) for body in named] == bare
    assert all(isinstance(body.asset, Card) for body in bare)
