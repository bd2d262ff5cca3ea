"""Where things are let go: given places, bins, shelves, and room left by what stands fixed."""

import itertools
import math

import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import Choice, Constant, Each, Shared, Uniform
from sim2cam.randomize.domain_checks import RecipeNames, check_domain
from sim2cam.randomize.layout import BOARD_THICKNESS_M
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.scene.articulation import Articulation, Joint
from sim2cam.scene.asset_facts import AssetInfo, PropertyRange
from sim2cam.scene.shape import MeshFile

COLORS = ("blue", "green", "orange", "purple", "red", "white", "yellow")
BASE = ((-0.1, -0.1, 0.0), (0.1, 0.1, 0.2))
BEAM = ((0.0, -0.02, -0.02), (0.5, 0.02, 0.02))
GATE = Articulation(
    ("post", "beam"),
    (Joint("lift", "revolute", 0, Pose(position_m=(0, 0, 0.2)), (0.0, -1.0, 0.0), 0.0, 1.0),),
    (BASE, BEAM),
)
"""A post of 20 cm with a beam of half a metre, level when its joint is at its lower limit."""


def gate():
    one = PropertyRange(0.5, 0.5)
    mesh = MeshFile("gate.urdf", "gate", joints=GATE.get_rest_states())
    return AssetInfo(
        "gate.urdf", mesh, (-0.1, -0.1, 0.0), (0.5, 0.1, 0.22), (0.2, 0.0, 0.1), 0.4, 100, True, 2,
        one, one, one, articulation=GATE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def cubes():
    return load_recipe("cubes").domain


def changed(domain, group, **values):
    fixed = {
        name: Constant(value) if isinstance(value, int | float | str) else value
        for name, value in values.items()
    }
    return domain.replace_factors({f"{group}/{name}": value for name, value in fixed.items()})


def scene_of(domain, index=0, assets=()):
    return build_scene(sample_factors(domain, 0, index, views=1), domain, 640, 480, assets)


def corners(body):
    half = np.divide(body.asset.size_m, 2)
    ends = np.array(list(itertools.product(*[(-h, h) for h in half])))
    return body.pose.apply(ends)


def targets(scene):
    return [body for body in scene.bodies if body.is_target]


def with_gate(domain, **values):
    zero = Constant(0.0)
    group = dict.fromkeys(("x_m", "y_m", "z_m", "yaw_rad", "friction_share"), zero) | {
        "labelled": Constant(True), "asset": Constant("gate.urdf"), "joints.lift": Uniform(0, 1),
    }  # fmt: skip
    domain = domain.replace_groups(
        {"fixture": group, "fixture_surface": domain.groups["block_surface"]}
    )
    domain = changed(domain, "fixture", **values)
    return changed(domain, "layout", fixture_count=1, surface="table")


def test_each_instance_has_a_distribution_of_its_own(cubes):
    of = Each((Constant(0.03), Uniform(0.04, 0.05), Choice((0.02, 0.025))))
    domain = changed(cubes, "layout", block_count=5)
    domain = domain.replace_factors({"block/length_m": of})
    check_domain(domain, RecipeNames(categories=COLORS))
    lengths = [
        sample_factors(domain, 0, 3, views=1).get_float(f"block/{i}/length_m") for i in range(5)
    ]
    assert lengths[0] == 0.03
    assert 0.04 <= lengths[1] < 0.05
    assert set(lengths[2:]) <= {0.02, 0.025}
    assert of.compute_extremes(lambda _: ()) == (0.03, 0.04, 0.05, 0.02, 0.025)


@pytest.mark.parametrize(
    ("group", "values", "place"),
    [
        ("light", {"warmth": Each((Constant(0), Constant(1)))}, "domain.light.warmth"),
        ("block", {"rounding": Shared(Each((Constant(0), Constant(0.1))))}, "domain.block.rounding"),
    ],
)  # fmt: skip
def test_what_all_have_in_common_is_not_of_each(cubes, group, values, place):
    with pytest.raises(
        ValueError, match=f"^'{place}' is the same for all instances, so it cannot use"
    ):
        check_domain(changed(cubes, group, **values), RecipeNames(categories=("blue",)))


def test_placed_things_are_let_go_where_they_are_told(cubes):
    domain = changed(cubes, "layout", arrangement="placed", block_count=3, surface="table")
    xs = Each((Constant(-0.1), Constant(0.0), Constant(0.1)))
    zs = Each((Constant(0.0), Constant(0.3)))
    domain = changed(domain, "block", x_m=xs, y_m=0.05, z_m=zs, yaw_rad=0.5)
    for index in range(4):
        scene = scene_of(domain, index)
        bodies = targets(scene)
        places = [body.pose.position_m[:2] for body in bodies]
        assert places == [pytest.approx((x, 0.05)) for x in (-0.1, 0.0, 0.1)]
        heights = [corners(body)[:, 2].min() for body in bodies]
        assert heights == pytest.approx([0.001, 0.301, 0.301])
        turn = (math.cos(0.25), 0, 0, math.sin(0.25))
        assert all(body.pose.rotation_wxyz == pytest.approx(turn) for body in bodies)
        assert not any(any(body.velocity_m_s) for body in bodies)


@pytest.mark.parametrize("index", range(4))
def test_a_bin_has_floor_and_walls_of_one_stuff(cubes, index):
    domain = changed(cubes, "layout", surface="bin", wall_m=0.2, block_count=8)
    scene = scene_of(domain, index)
    named = {body.name: body for body in scene.bodies}
    walls = [named[f"wall/{i}"] for i in range(4)]
    assert {body.material for body in walls} == {named["mat"].material}
    assert all(corners(wall)[:, 2].max() == pytest.approx(0.2) for wall in walls)
    half = np.divide(named["mat"].asset.size_m, 2)[:2]
    for body in targets(scene):
        assert (np.abs(body.pose.position_m[:2]) < half).all()


@pytest.mark.parametrize("index", range(4))
def test_things_lie_on_every_board_of_a_shelf(cubes, index):
    domain = changed(
        cubes, "layout", surface="shelf", shelf_count=3, wall_m=0.2, surface_side_m=0.8, aspect=0.5,
        block_count=9, distractor_count=0,
    )  # fmt: skip
    scene = scene_of(domain, index)
    boards = [body for body in scene.bodies if body.name.startswith("shelf/")]
    tops = [corners(body)[:, 2].max() for body in boards]
    assert tops == pytest.approx([k * 0.2 + BOARD_THICKNESS_M for k in range(4)])
    lowest = [corners(body)[:, 2].min() for body in targets(scene)]
    assert len(lowest) == 9
    for k in range(3):
        on_it = [z for z in lowest if tops[k] < z < tops[k] + 0.005]
        assert len(on_it) == 3
    for body in targets(scene):
        assert (np.abs(corners(body)[:, :2]) <= (0.4, 0.2)).all()


def test_a_shelf_needs_boards(cubes):
    with pytest.raises(
        ValueError, match=r"be 'shelf', but 'domain\.layout\.shelf_count' is missing"
    ):
        check_domain(changed(cubes, "layout", surface="shelf"), RecipeNames(categories=COLORS))


@pytest.mark.parametrize("arrangement", ["throw", "pile", "stack", "scatter"])
@pytest.mark.parametrize("index", range(3))
def test_things_are_let_go_clear_of_what_stands_fixed(cubes, arrangement, index):
    domain = with_gate(
        changed(cubes, "layout", arrangement=arrangement, block_count=6, region_m=0.3),
        **{"joints.lift": 0.0},
    )
    scene = scene_of(domain, index, (gate(),))
    fixed = next(body for body in scene.bodies if body.asset.kind == "mesh")
    assert (fixed.is_fixed, fixed.is_target) == (True, True)
    for body in scene.bodies:
        if body.is_fixed or not hasattr(body.asset, "size_m"):
            continue
        low, high = corners(body).min(axis=0), corners(body).max(axis=0)
        for box in (BASE, np.add(BEAM, (0, 0, 0.2))):
            meets = (low < np.array(box[1])).all() and (high > np.array(box[0])).all()
            assert not meets, body.name


def test_joints_are_drawn_each_for_itself_and_stand_in_the_scene(cubes):
    domain = with_gate(cubes, x_m=-0.4, yaw_rad=0.3)
    states = set()
    for index in range(5):
        drawn = sample_factors(domain, 0, index, views=1)
        share = drawn.get_float("fixture/0/joints.lift")
        (body,) = (b for b in scene_of(domain, index, (gate(),)).bodies if b.asset.kind == "mesh")
        assert body.asset.joints == (("lift", share),)  # its limits are 0 and 1
        assert dict(body.asset.keypoints) == {"lift": (0, 0, 0.2)}
        assert body.pose.position_m == (-0.4, 0, 0)
        states.add(share)
    assert len(states) == 5
    other = changed(domain, "fixture", y_m=Uniform(0, 1))  # another factor changes no joint
    assert sample_factors(other, 0, 4, views=1).get_float("fixture/0/joints.lift") == share


def test_a_joints_share_is_from_0_to_1(cubes):
    domain = with_gate(cubes, **{"joints.lift": Uniform(0.5, 1.5)})
    with pytest.raises(
        ValueError, match=r"^'domain\.fixture\.joints\.lift' cannot be 1\.5\. Allowed: num"
    ):
        check_domain(domain, RecipeNames(("gate.urdf",), COLORS))


@pytest.mark.parametrize("surface", ["table", "mat", "bin", "shelf"])
def test_on_what_carries_them_bodies_rub_and_bounce_by_their_own_numbers(cubes, surface):
    """Of two bodies the products count."""
    scene = scene_of(changed(cubes, "layout", surface=surface, shelf_count=2, wall_m=0.1))
    room = [body for body in scene.bodies if body.is_fixed]
    assert len(room) == {"table": 1, "mat": 2, "bin": 6, "shelf": 7}[surface]
    assert {(body.friction, body.restitution) for body in room} == {(1.0, 1.0)}
