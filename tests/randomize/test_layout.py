"""Arrangements, and the recipes with blocks, boards and cards that use them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.errors import UsageError
from sim2cam.objects.block import Block
from sim2cam.objects.primitives import Cylinder, Sphere
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Choice, Constant
from sim2cam.randomize.domain_checks import (
    RecipeNames,
    check_domain,
    check_settings,
    list_label_classes,
)
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.render.physics.simulation import simulate

INDICES = range(10)


@pytest.fixture(scope="module")
def cubes():
    return load_recipe("cubes")


@pytest.fixture(scope="module")
def boards():
    return load_recipe("chessboard")


def changed(domain, group, **values):
    return domain.replace_factors(
        {f"{group}/{name}": Constant(value) for name, value in values.items()}
    )


def composed(domain, index, **layout):
    domain = changed(domain, "layout", **layout)
    return build_scene(sample_factors(domain, 0, index, views=1), domain, 640, 480)


def corners(body):
    """Corners (8, 3) of the box around a body in the world."""
    match body.asset:
        case Sphere():
            half = [body.asset.radius_m] * 3
        case Cylinder():
            half = [body.asset.radius_m, body.asset.radius_m, body.asset.height_m / 2]
        case _:
            half = np.divide(body.asset.size_m, 2)
    ends = np.array(list(itertools.product(*[(-h, h) for h in half])))
    return body.pose.apply(ends)


def targets(scene):
    return [body for body in scene.bodies if body.is_target]


def tilt(body):
    """How far the axis of a body that is nearest to the vertical is off it."""
    return np.arccos(min(1.0, np.abs(body.pose.rotation().as_matrix()[2]).max()))


@pytest.mark.parametrize("index", INDICES)
def test_scattered_blocks_lie_flat_side_by_side_at_rest(cubes, index):
    scene = composed(cubes.domain, index, arrangement="scatter", surface="table", block_count=12)
    bodies = targets(scene)
    for body in bodies:
        assert tilt(body) < 1e-6
        assert not any((*body.velocity_m_s, *body.spin_rad_s))
        assert 0 < corners(body)[:, 2].min() < 0.005
    for one, other in itertools.combinations([b for b in scene.bodies if not b.is_fixed], 2):
        apart = np.subtract(one.pose.position_m, other.pose.position_m)[:2]
        radii = [
            np.linalg.norm((corners(b) - corners(b).mean(axis=0))[:, :2], axis=1).max()
            for b in (one, other)
        ]
        assert np.linalg.norm(apart) > sum(radii)


@pytest.mark.parametrize("index", INDICES)
def test_without_room_what_is_scattered_lies_higher_instead_of_inside(cubes, index):
    scene = composed(
        cubes.domain, index, arrangement="scatter", surface="tray", block_count=30,
        surface_side_m=0.12, distractor_count=0,
    )  # fmt: skip
    boxes = [(corners(b).min(axis=0), corners(b).max(axis=0)) for b in targets(scene)]
    assert max(low[2] for low, _ in boxes) > 0.02
    for one, other in itertools.combinations(targets(scene), 2):
        apart = np.subtract(one.pose.position_m, other.pose.position_m)
        tall = (one.asset.size_m[2] + other.asset.size_m[2]) / 2
        wide = (one.asset.size_m[0] + other.asset.size_m[0]) / 2
        assert abs(apart[2]) > tall or np.linalg.norm(apart[:2]) > wide


@pytest.mark.parametrize("index", INDICES)
def test_a_stack_has_the_largest_below_and_each_on_the_last(cubes, index):
    scene = composed(cubes.domain, index, arrangement="stack", block_count=5)
    tower = targets(scene)
    sides = [body.asset.size_m[0] for body in tower]
    assert sides == sorted(sides, reverse=True)
    for below, above in itertools.pairwise(tower):
        gap = corners(above)[:, 2].min() - corners(below)[:, 2].max()
        assert 0 < gap < 1e-3
        off = np.subtract(above.pose.position_m, below.pose.position_m)[:2]
        assert np.linalg.norm(off) < below.asset.size_m[0] / 2  # its middle is carried


@pytest.mark.parametrize("index", INDICES)
def test_objects_raised_by_different_heights_do_not_overlap_in_a_stack(cubes, index):
    domain = cubes.domain.replace_factors({"block/z_m": Choice((0.0, 0.1))})
    tower = targets(composed(domain, index, arrangement="stack", block_count=5))
    for below, above in itertools.pairwise(tower):
        assert corners(above)[:, 2].min() > corners(below)[:, 2].max()


def test_a_stack_of_blocks_stands(cubes):
    domain = changed(cubes.domain, "block", mass_offset_z=0.0)
    stood = 0
    for index in range(4):
        scene = composed(domain, index, arrangement="stack", block_count=4, distractor_count=0)
        settled, certificate = simulate(scene)
        tall = sum(body.asset.size_m[2] for body in targets(settled))
        top = max(corners(body)[:, 2].max() for body in targets(settled))
        stood += certificate.rejection is None and top > 0.95 * tall
    assert stood >= 3


def test_a_pile_is_let_go_over_one_place_at_rest(cubes):
    scene = composed(cubes.domain, 0, arrangement="pile", block_count=8, region_m=0.2)
    spots = np.array([body.pose.position_m for body in targets(scene)])
    assert np.linalg.norm(spots[:, :2], axis=1).max() <= 0.02 + 1e-9
    assert not any(any((*b.velocity_m_s, *b.spin_rad_s)) for b in targets(scene))
    assert len(np.unique(spots[:, 2].round(3))) == 8


def test_left_out_it_is_a_throw(cubes):
    given = composed(cubes.domain, 1, arrangement="throw")
    layout = {k: v for k, v in cubes.domain.groups["layout"].items() if k != "arrangement"}
    assert composed(cubes.domain.replace_groups({"layout": layout}), 1) == given


def test_mass_drag_and_spin_drag_are_drawn_for_each_block(cubes):
    domain = cubes.domain.replace_factors(
        {
            "block/mass_offset_x": Choice((-0.2, 0.3)), "block/mass_offset_z": Constant(0.1),
            "block/drag": Constant(0.25), "block/spin_drag": Choice((0.5, 0.75)),
        }
    )  # fmt: skip
    check_domain(domain, cubes.names)
    bodies = targets(composed(domain, 2, block_count=12))
    shares = {tuple(np.divide(b.mass_offset_m, b.asset.size_m).round(9)) for b in bodies}
    assert shares == {(-0.2, 0.0, 0.1), (0.3, 0.0, 0.1)}
    assert {b.drag for b in bodies} == {0.25}
    assert {b.spin_drag for b in bodies} == {0.5, 0.75}
    plain = targets(composed(cubes.domain, 2, block_count=12))
    still = {"mass_offset_m": (0.0, 0.0, 0.0), "drag": 0.0, "spin_drag": 0.0}
    assert [replace(b, **still) for b in bodies] == plain


def test_a_held_board_hangs_above_what_lies_there_and_others_do_not(boards):
    for index in INDICES:
        scene = composed(boards.domain, index, board_count=1, distractor_count=3)
        (board,) = targets(scene)
        held = sample_factors(boards.domain, 0, index, views=1).get_bool("board/0/held")
        assert board.is_fixed == held
        assert corners(board)[:, 2].min() > 0
        assert not held or corners(board)[:, 2].min() < 0.2


def test_what_can_be_shown_is_told_by_kind(cubes, boards):
    def by_name(domain):
        return {one.name: one.categories for one in list_label_classes(domain)}

    assert by_name(cubes.domain) == {"cube": cubes.categories}
    assert set(by_name(changed(cubes.domain, "block", height=0.6))) == {"block"}
    assert by_name(boards.domain) == {"board": boards.categories}
    cards = by_name(load_recipe("cards").domain)
    assert "10H" in cards["turnable card"]
    assert "back" in cards["card"]
    assert len(cards["card"]) + len(cards["turnable card"]) == 53


def test_every_shipped_cube_is_of_the_colour_it_is_called(cubes):
    for index in INDICES:
        for body in targets(composed(cubes.domain, index)):
            assert isinstance(body.asset, Block)
            red, green, blue = body.material.texture.color_a
            match body.asset.category:
                case "red":
                    assert red > 5 * max(green, blue)
                case "green":
                    assert green > 2 * max(red, blue)
                case "blue":
                    assert blue > 2 * max(red, green)
                case "white":
                    assert min(red, green, blue) > 0.5 * max(red, green, blue)


@pytest.mark.parametrize(
    ("group", "values", "message"),
    [
        ("layout", {"arrangement": "heap"}, "'domain.layout.arrangement' cannot be 'heap'. Allowed: "
         "pile, placed, scatter, stack, throw"),
        ("block", {"category": "pink"}, "'domain.block.category' cannot be 'pink'. Allowed: blue, "),
        ("block", {"mass_offset_x": 0.6}, "'domain.block.mass_offset_x' cannot be 0.6. Allowed: "
         "numbers from -0.45 to 0.45"),
        ("block", {"drag": 1.5}, "'domain.block.drag' cannot be 1.5. Allowed: numbers from 0 to 1"),
    ],
)  # fmt: skip
def test_what_a_factor_cannot_be_is_refused(cubes, group, values, message):
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        check_domain(changed(cubes.domain, group, **values), cubes.names)


def test_categories_that_lack_what_is_shown_are_refused(boards):
    with pytest.raises(
        ValueError,
        match=r"^categories must contain charuco, because an object of 'domain\.board' can show it",
    ):
        check_domain(boards.domain, RecipeNames(categories=("chessboard", "markers")))


def test_settings_know_the_categories(cubes):
    check_settings(cubes.domain, {"block/0/category": "red"}, cubes.names)
    with pytest.raises(UsageError, match=r"^'block/0/category' cannot be 'pink'"):
        check_settings(cubes.domain, {"block/0/category": "pink"}, cubes.names)
