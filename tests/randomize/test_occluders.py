"""Cables, papers and hands: drawn shapes, and places where they are in the way."""

import math
import re

import numpy as np
import pytest

from sim2cam.errors import RecipeError
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Constant
from sim2cam.randomize.domain_checks import RecipeNames, check_domain
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.scene.scene import Scene

OVER = """
name = "mine"
base = {base}
[domain.layout]
surface = "{surface}"
surface_side_m = 0.2
"""


@pytest.fixture(scope="module")
def domain():
    return load_recipe("dice-hidden").domain


def composed(domain, index, **factors):
    """A scene whose factors, by ``group__factor``, are constants."""
    for path, value in factors.items():
        group, factor = path.split("__")
        domain = domain.replace_factors({f"{group}/{factor}": Constant(value)})
    drawn = sample_factors(domain, 0, index, views=1)
    return drawn, build_scene(drawn, domain, 320, 240)


def named(scene, kind):
    return [body for body in scene.bodies if body.name.startswith(kind)]


def lowest(body):
    return min(
        (body.pose.apply(np.array(strand.points_m))[:, 2] - strand.radii_m).min()
        for strand in body.asset.strands
    )


@pytest.mark.parametrize("index", range(6))
def test_cables_are_as_long_as_drawn_and_lie_around_their_middle(domain, index):
    drawn, scene = composed(domain, index, layout__cable_count=2, layout__surface="table")
    for i, body in enumerate(named(scene, "cable")):
        points = np.array(body.asset.strands[0].points_m)
        pieces = np.linalg.norm(np.diff(points, axis=0), axis=1)
        assert pieces.sum() == pytest.approx(drawn.get_float(f"cable/{i}/length_m"))
        assert np.allclose(np.average((points[1:] + points[:-1]) / 2, axis=0, weights=pieces), 0)
        assert np.allclose(points[:, 2], 0)
        bends = np.diff(np.unwrap(np.arctan2(*np.diff(points, axis=0)[:, 1::-1].T)))
        assert np.abs(bends).max() < 1.0
        assert body.mass_kg > 0
    assert Scene.from_json(scene.to_json()) == scene


def test_objects_are_let_go_above_cables_and_papers_above_all(domain):
    counts = {"layout__cable_count": 2, "layout__paper_count": 1, "layout__surface": "table"}
    _, scene = composed(domain, 1, **counts, layout__hand_count=0)
    cables = named(scene, "cable")
    top = max(body.pose.position_m[2] + body.asset.strands[0].radii_m[0] for body in cables)
    dice = named(scene, "die")
    for die in dice:
        assert die.pose.position_m[2] - die.asset.edge_m * math.sqrt(3) / 2 > top
    (paper,) = named(scene, "paper")
    assert paper.pose.position_m[2] > max(die.pose.position_m[2] for die in dice)
    _, second = composed(domain, 1, **counts | {"layout__cable_count": 1}, layout__hand_count=0)
    assert lowest(cables[1]) > cables[0].pose.position_m[2] + cables[0].asset.strands[0].radii_m[0]
    assert named(second, "cable")[0] == cables[0]


def test_a_cable_that_the_tray_cannot_hold_lies_above_its_walls(domain):
    given = {"layout__cable_count": 1, "layout__surface": "tray", "layout__surface_side_m": 0.15}
    _, scene = composed(domain, 0, **given, cable__length_m=0.6, cable__sway_rad=0.0)
    (cable,) = named(scene, "cable")
    walls = named(scene, "wall")
    assert lowest(cable) > max(2 * wall.pose.position_m[2] for wall in walls)


@pytest.mark.parametrize("index", range(4))
def test_hands_are_held_as_high_as_drawn_and_arrive_last(domain, index):
    drawn, scene = composed(domain, index, layout__hand_count=1)
    (hand,) = named(scene, "hand")
    assert hand.is_fixed
    assert hand.arrives_last
    assert lowest(hand) == pytest.approx(drawn.get_float("hand/0/height_m"))
    length = drawn.get_float("hand/0/length_m")
    middle = np.array(hand.asset.strands[1].points_m)
    reach = np.linalg.norm(np.diff(middle, axis=0), axis=1).sum()
    assert 0.9 * length < reach < 1.1 * length


def test_straight_fingers_end_where_they_should(domain):
    given = {"hand__curl_rad": 0.0, "hand__spread_rad": 0.0, "hand__length_m": 0.18}
    tips = {}
    for left in (False, True):
        _, scene = composed(domain, 0, layout__hand_count=1, hand__left=left, **given)
        (hand,) = named(scene, "hand")
        tips[left] = np.array([strand.points_m[-1] for strand in hand.asset.strands[:4]])
    assert np.allclose(tips[False][1], 0)  # the middle finger's, where the hand's frame begins
    assert np.allclose(tips[True], tips[False] * [1, -1, 1])
    assert (tips[False][:, 0] <= 1e-9).all()  # none is longer


def test_a_pointing_hand_bends_all_fingers_but_one(domain):
    given = {"hand__curl_rad": 1.0, "layout__hand_count": 1}
    down = {}
    for pointing in (False, True):
        (hand,) = named(composed(domain, 0, hand__pointing=pointing, **given)[1], "hand")
        down[pointing] = [strand.points_m[-1][2] for strand in hand.asset.strands[:4]]
    assert down[True][1:] == pytest.approx(down[False][1:])
    assert down[True][0] > down[False][0] + 0.02


@pytest.mark.parametrize(
    ("group", "factor", "value", "problem"),
    [
        ("layout", "hand_count", 5, "'domain.layout.hand_count' cannot be 5. Allowed: whole numbers from 0 to 4"),
        ("hand", "curl_rad", 2.0, "'domain.hand.curl_rad' cannot be 2.0. Allowed: numbers from 0 to 1.2"),
        ("hand", "left", 1, "'domain.hand.left' cannot be 1. Allowed: true, false"),
        ("cable", "radius_m", 0.5, "'domain.cable.radius_m' cannot be 0.5. Allowed: numbers from 0.0005 to 0.02"),
        ("paper", "heading", "prix: 5 €", "'domain.paper.heading' cannot be 'prix: 5 €'. Allowed: printable ASCII, up to 40 characters"),
        ("paper", "heading", 7, "'domain.paper.heading' cannot be 7. Allowed: printable ASCII, up to 40 characters"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused(domain, group, factor, value, problem):
    changed = domain.replace_factors({f"{group}/{factor}": Constant(value)})
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}$"):
        check_domain(changed, RecipeNames(categories=tuple("123456")))


def test_a_recipe_may_have_several_bases(tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(OVER.format(base='["cubes", "occluders"]', surface="mat"))
    domain = load_recipe(str(recipe)).domain
    assert "block" in domain
    assert domain.groups["cable"] == load_recipe("dice-hidden").domain.groups["cable"]
    assert domain.get_factor("layout/surface") == Constant("mat")
    assert domain.get_factor("layout/block_count") == load_recipe("cubes").domain.get_factor(
        "layout/block_count"
    )
    recipe.write_text(OVER.format(base='["occluders"]', surface="mat"))
    with pytest.raises(RecipeError):
        load_recipe(str(recipe))
    recipe.write_text(OVER.format(base='["mine.toml", "cubes"]', surface="mat"))
    with pytest.raises(RecipeError, match="its bases are circular"):
        load_recipe(str(recipe))
