import math
from dataclasses import fields, replace

import numpy as np
import pytest

from sim2cam.geometry.lens import KannalaBrandt
from sim2cam.geometry.poses import Pose
from sim2cam.objects.die import Die
from sim2cam.objects.primitives import Ground
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.distributions import (
    Choice,
    Constant,
    DistributionBase,
    Integers,
    Normal,
    Shared,
    Uniform,
)
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.render.lighting.beams import compute_ground_irradiance
from sim2cam.render.optics.views import find_unprojectable_corner
from sim2cam.scene import camera as scene_camera
from sim2cam.scene.depth_camera import DEPTH_CAMERA_TYPES, TimeOfFlight
from sim2cam.scene.light import Environment
from sim2cam.scene.material import linear_to_srgb
from sim2cam.scene.scene import Scene

INDICES = range(12)


def composed(domain, index, **layout):
    domain = domain.replace_factors({f"layout/{k}": Constant(v) for k, v in layout.items()})
    drawn = sample_factors(domain, 0, index, views=2)
    return drawn, build_scene(drawn, domain, 640, 480)


def moving(scene):
    return [body for body in scene.bodies if not body.is_fixed]


@pytest.mark.parametrize("index", INDICES)
def test_equal_draws_give_equal_scenes(domain, index):
    drawn, scene = composed(domain, index)
    assert build_scene(drawn, domain, 640, 480) == scene
    assert Scene.from_json(scene.to_json()) == scene


@pytest.mark.parametrize("index", INDICES)
def test_nothing_overlaps_when_it_is_let_go(domain, index):
    _, scene = composed(domain, index, die_count=24, distractor_count=5)
    bodies = moving(scene)
    assert len(bodies) == 29
    spots = np.array([body.pose.position_m for body in bodies])
    reach = np.array([body.asset.bounding_radius_m for body in bodies])
    apart = np.linalg.norm(spots[:, None] - spots[None], axis=-1)
    needed = reach[:, None] + reach[None]
    off_diagonal = ~np.eye(len(bodies), dtype=bool)
    assert (apart > needed)[off_diagonal].all()
    assert (spots[:, 2] > reach).all()


@pytest.mark.parametrize("index", INDICES)
def test_in_a_tray_everything_is_let_go_between_its_walls(domain, index):
    drawn, scene = composed(domain, index, surface="tray", region_m=0.16)
    side = drawn.get_float("layout/surface_side_m")
    half = np.array([side, side * drawn.get_float("layout/aspect")]) / 2
    for body in moving(scene):
        assert (
            np.abs(body.pose.position_m[:2]) + body.asset.bounding_radius_m <= half + 1e-9
        ).all()


def test_a_tray_has_four_walls_around_its_floor(domain):
    drawn, scene = composed(domain, 0, surface="tray")
    walls = [body for body in scene.bodies if body.name.startswith("wall/")]
    side = drawn.get_float("layout/surface_side_m")
    other = side * drawn.get_float("layout/aspect")
    assert len(walls) == 4
    for wall, (x, y) in zip(walls, ((0, other), (0, -other), (side, 0), (-side, 0)), strict=True):
        inner = np.abs(wall.pose.position_m[:2]) - np.array(wall.asset.size_m[:2]) / 2
        assert (inner[0] if x else inner[1]) == pytest.approx(abs(x or y) / 2)
        assert wall.pose.position_m[2] == pytest.approx(wall.asset.size_m[2] / 2)


@pytest.mark.parametrize(
    ("surface", "names"),
    [
        ("table", {"table"}),
        ("mat", {"table", "mat"}),
        ("tray", {"table", "mat", "wall/0", "wall/1", "wall/2", "wall/3"}),
    ],
)
def test_the_surface_decides_what_is_fixed(domain, surface, names):
    _, scene = composed(domain, 1, surface=surface)
    assert {body.name for body in scene.bodies if body.is_fixed} == names
    assert isinstance(scene.bodies[0].asset, Ground)


def test_dice_and_nothing_else_are_targets(domain):
    _, scene = composed(domain, 2, die_count=7, distractor_count=3)
    targets = [body for body in scene.bodies if body.is_target]
    assert {body.name for body in targets} == {f"die/{i}" for i in range(7)}
    assert all(isinstance(body.asset, Die) for body in targets)
    assert len({body.name for body in scene.bodies}) == len(scene.bodies)


def test_mass_is_density_times_volume(domain):
    drawn, scene = composed(domain, 3)
    for body in scene.bodies:
        if body.is_target:
            expected = drawn.get_float(f"{body.name}/density_kg_m3") * body.asset.edge_m**3
            assert body.mass_kg == pytest.approx(expected)


def test_a_set_of_dice_of_one_look_differs_in_size_and_place_alone(domain):
    _, scene = composed(domain, 4, same_look=True, die_count=6)
    dice = [body for body in scene.bodies if body.is_target]
    assert len({body.material for body in dice}) == 1
    assert len({body.asset.pips for body in dice}) == 1
    assert len({body.asset.edge_m for body in dice}) == 6
    assert len({body.pose for body in dice}) == 6


def test_marks_stand_out_from_the_body(domain):
    domain = domain.replace_factors({"die_color/pip_contrast": Constant(0.35)})
    for index in INDICES:
        drawn = sample_factors(domain, 0, index, views=1)
        for body in build_scene(drawn, domain, 64, 64).bodies:
            if body.is_target:
                colors = body.asset.pips.color, body.material.texture.color_a
                away = math.dist(*map(linear_to_srgb, colors))
                assert away >= 0.35


@pytest.mark.parametrize("index", INDICES)
def test_cameras_see_dice_at_the_size_that_was_drawn(domain, index):
    drawn, scene = composed(domain, index)
    for view, camera in enumerate(scene.cameras):
        path = f"view/{view}"
        assert (camera.width, camera.height) == (640, 480)
        lens = camera.lens
        assert 2 * math.atan(320 / lens.fx_px) == pytest.approx(drawn.get_float(f"{path}/fov_rad"))
        forward = camera.pose.rotation().apply([0.0, 0.0, 1.0])
        assert math.acos(-forward[2]) == pytest.approx(
            drawn.get_float(f"{path}/tilt_rad"), abs=1e-6
        )
        distance = -camera.pose.position_m[2] / forward[2]
        aim = np.array(camera.pose.position_m) + distance * forward
        assert lens.fx_px * 0.016 / distance == pytest.approx(drawn.get_float(f"{path}/die_px"))
        reach = drawn.get_float("layout/region_m") * drawn.get_float(f"{path}/aim_radius")
        assert math.hypot(*aim[:2]) == pytest.approx(reach, abs=1e-9)


def test_the_view_scales_with_the_picture(domain):
    drawn = sample_factors(domain, 0, 0, views=1)
    small, large = (build_scene(drawn, domain, side, side).cameras[0] for side in (320, 640))
    assert small.pose == large.pose
    assert large.lens.fx_px == pytest.approx(2 * small.lens.fx_px)
    assert large.lens.cx_px + 0.5 == pytest.approx(2 * (small.lens.cx_px + 0.5))
    assert (small.lens.k1, small.lens.p2) == (large.lens.k1, large.lens.p2)


@pytest.mark.parametrize("index", INDICES)
def test_values_lie_in_their_ranges(domain, index):
    _, scene = composed(domain, index)
    assert 1 <= len(scene.environment.lamps) <= 3
    for lamp in scene.environment.lamps:
        assert math.hypot(*lamp.direction) == pytest.approx(1)
        assert lamp.direction[2] > 0
    for body in scene.bodies:
        texture = body.material.texture
        for color in (texture.color_a, texture.color_b):
            assert min(color) >= 0
            assert max(color) <= 1
        assert math.hypot(*body.pose.rotation_wxyz) == pytest.approx(1)


def test_rotations_are_uniform(domain):
    """So every face comes up alike, before physics has its say."""
    ups = []
    for index in range(60):
        drawn = sample_factors(domain, 1, index, views=1)
        for body in build_scene(drawn, domain, 64, 64).bodies:
            if body.is_target:
                ups.append(body.pose.rotation().apply([0.0, 0.0, 1.0]))
    ups = np.array(ups)
    assert len(ups) > 500
    assert np.abs(ups.mean(axis=0)).max() < 0.1
    assert np.allclose(ups.T @ ups / len(ups), np.eye(3) / 3, atol=0.06)


def test_cameras_have_the_drawn_depth_camera_and_eye(domain):
    drawn, scene = composed(domain, 0)
    for view, camera in enumerate(scene.cameras):
        path = f"depth_camera/{view}"
        assert camera.depth_camera.kind == "active_stereo"
        assert camera.depth_camera.noise_seed == drawn.values[f"{path}/noise_seed"]
        assert camera.depth_camera.ambient_share == drawn.values[f"{path}/ambient_share"]
        assert camera.baseline_m == drawn.values[f"stereo/{view}/baseline_m"]
    for seeds in zip(
        *((c.depth_camera.noise_seed, c.sensor.noise_seed) for c in scene.cameras), strict=True
    ):
        assert len(set(seeds)) == len(seeds) > 1


def test_a_domain_without_them_gives_cameras_without_them(domain):
    _, scene = composed(domain.replace_groups({"stereo": None, "depth_camera": None}), 0)
    assert {(camera.depth_camera, camera.baseline_m) for camera in scene.cameras} == {(None, None)}


def test_every_kind_of_depth_camera_takes_its_own_factors(domain):
    group = {
        "kind": Choice(tuple(DEPTH_CAMERA_TYPES)),
        "noise_seed": Uniform(0, 100),
        "modulation_hz": Constant(60e6),
        "baseline_m": Uniform(0.05, 0.06),
        "min_range_m": Integers(1, 2),
    }
    domain = domain.replace_groups({"depth_camera": group})
    kinds = {}
    for index in INDICES:
        _, scene = composed(domain, index)
        for camera in scene.cameras:
            kinds[camera.depth_camera.kind] = camera.depth_camera
            assert type(camera.depth_camera.noise_seed) is int
            assert camera.depth_camera.min_range_m in (1, 2)
    assert set(kinds) == set(DEPTH_CAMERA_TYPES)
    assert kinds["time_of_flight"].modulation_hz == 60e6
    assert kinds["time_of_flight"].signal_e == TimeOfFlight().signal_e
    assert 0.05 <= kinds["structured_light"].baseline_m <= 0.06


def test_a_camera_moves_along_its_own_axes_only_where_that_is_drawn(domain):
    names = ("right_m_s", "down_m_s", "forward_m_s", "pitch_rad_s", "yaw_rad_s", "roll_rad_s")
    motion = dict(zip(names, map(Constant, (0.1, 0.2, 0.3, 1.0, 2.0, 3.0)), strict=True))
    shutter = {"exposure_s": Constant(0.01), "readout_s": Constant(-0.02)}
    moving, still = (
        build_scene(sample_factors(d, 0, 3, views=1), d, 640, 480)
        for d in (domain.replace_groups({"motion": motion, "shutter": shutter}), domain)
    )
    (camera,) = moving.cameras
    own = camera.twist.express_in(camera.pose)
    assert own.velocity_m_s == pytest.approx((0.1, 0.2, 0.3))
    assert own.spin_rad_s == pytest.approx((1.0, 2.0, 3.0))
    assert camera.shutter == scene_camera.Shutter(0.01, -0.02)
    assert replace(moving, cameras=(replace(camera, shutter=None, twist=None),)) == still
    assert Scene.from_json(moving.to_json()) == moving


def near(kind, **changes):
    factors = {
        "kind": kind, "level": 2.0, "distance_m": 0.8, "elevation_rad": 1.0, "azimuth_rad": 0.5,
        "size_m": 0.1, "cone_rad": 0.5, "warmth": 0.0,
    }  # fmt: skip
    return {name: Constant(value) for name, value in (factors | changes).items()}


@pytest.mark.parametrize("kind", ["point", "spot", "area"])
def test_near_lights_shed_their_level_on_the_middle_of_the_table(domain, kind):
    domain = domain.replace_groups({"near_light": near(kind)})
    _, scene = composed(domain.replace_factors({"light/near_count": Constant(2)}), 0)
    one, other = scene.environment.lights
    assert one == other
    assert one.kind == kind
    place = np.array(one.pose.position_m if kind == "area" else one.position_m)
    assert np.linalg.norm(place) == pytest.approx(0.8)
    dark = Environment((0.0,) * 3, (0.0,) * 3, (), (one,))
    level = np.array(compute_ground_irradiance(dark)) / np.sin(1.0)
    assert level[1] == pytest.approx(2.0, rel=0.02)


def test_without_their_count_near_lights_are_not_drawn(domain):
    domain = domain.replace_groups({"near_light": near("spot")})
    assert composed(domain, 0)[1].environment.lights == ()


def test_a_fisheye_takes_the_place_of_the_lens_and_sees_as_far_to_the_side(domain):
    bends = dict(zip(("k1", "k2", "k3", "k4"), map(Constant, (0.01, -0.002, 0, 0)), strict=True))
    domain = domain.replace_factors({"view/fov_rad": Constant(2.6)})
    _, scene = composed(domain.replace_groups({"fisheye": bends}), 0)
    lens = scene.cameras[0].lens
    assert lens == KannalaBrandt(
        lens.fx_px, lens.fx_px, lens.cx_px, lens.cy_px, 0.01, -0.002, 0.0, 0.0
    )
    assert lens.fx_px == pytest.approx(320 / 1.3)


@pytest.mark.parametrize("index", INDICES)
def test_cameras_have_the_drawn_glass_and_sensor(index):
    drawn, scene = composed(load_recipe("dice-camera").domain, index)
    for view, camera in enumerate(scene.cameras):
        parts = {
            name: getattr(camera.sensor, name) for name in ("mosaic", "processing", "automatics")
        }
        parts |= {field.name: getattr(camera.glass, field.name) for field in fields(camera.glass)}
        parts.pop("defocus")
        assert parts.pop("falloff") is None  # only of lenses from a database
        for name, part in parts.items():
            found = {field.name: getattr(part, field.name) for field in fields(part)}
            given = {n: drawn.values.get(f"{name}/{view}/{n}", found[n]) for n in found}
            assert found == given
        defocus = camera.glass.defocus
        assert defocus.aperture_m == drawn.values[f"defocus/{view}/aperture_m"]
        away = camera.pose.inverse() @ Pose(position_m=(0.0, 0.0, 0.0))
        assert defocus.focus_m == pytest.approx(
            away.position_m[2] * drawn.values[f"defocus/{view}/focus"], rel=0.3
        )
        assert type(camera.sensor.mosaic.bits) is int


@pytest.mark.parametrize(
    ("factor", "otherwise", "value"), [("tone_shoulder", 0.8, 1.0), ("file_format", "jpeg", "png")]
)
def test_what_a_recipe_may_leave_out_of_a_sensor_is_drawn_where_it_is_there(
    domain, factor, otherwise, value
):
    own = domain.replace_factors({f"sensor/{factor}": Constant(value)})
    (plain,), (given,) = (
        build_scene(sample_factors(d, 0, 0, views=1), d, 64, 64).cameras for d in (domain, own)
    )
    assert getattr(plain.sensor, factor) == otherwise
    assert given == replace(plain, sensor=replace(plain.sensor, **{factor: value}))


def test_the_exposure_is_fixed_where_a_recipe_says_so(domain):
    by_hand = domain.replace_groups({"automatics": {"fixed_gain": Uniform(0.3, 0.6)}})
    (camera,) = build_scene(sample_factors(by_hand, 0, 0, views=1), by_hand, 64, 64).cameras
    assert 0.3 <= camera.sensor.automatics.fixed_gain <= 0.6


@pytest.mark.parametrize("group", ["mosaic", "processing", "automatics"])
def test_parts_of_the_sensor_are_left_out_one_by_one(group):
    domain = load_recipe("dice-camera").domain
    (whole,), (without,) = (
        build_scene(sample_factors(d, 0, 2, views=1), d, 640, 480).cameras
        for d in (domain, domain.replace_groups({group: None}))
    )
    assert without == replace(whole, sensor=replace(whole.sensor, **{group: None}))


@pytest.mark.parametrize(
    "group", ["defocus", "lateral_color", "field_blur", "glare", "dirt", "droplets"]
)
def test_parts_of_the_glass_are_left_out_one_by_one(group):
    domain = load_recipe("dice-camera").domain
    (whole,), (without,) = (
        build_scene(sample_factors(d, 0, 2, views=1), d, 640, 480).cameras
        for d in (domain, domain.replace_groups({group: None}))
    )
    assert without == replace(whole, glass=replace(whole.glass, **{group: None}))


def test_a_domain_without_glass_gives_cameras_without_it(domain):
    _, scene = composed(domain, 0)
    assert {
        (c.glass, c.sensor.mosaic, c.sensor.processing, c.sensor.automatics) for c in scene.cameras
    } == {(None,) * 4}


STRONG_BARREL = {
    "lens": {"k1": -0.25, "k2": -0.05, "p1": 0.0, "p2": 0.0, "shift_x": 0.02, "shift_y": 0.02},
    "fisheye": {"k1": -0.25, "k2": 0.0, "k3": 0.0, "k4": 0.0},
}


def make_lens(domain, group, size, k1=None):
    """Return the lens of a scene with the strongest distortion, and the problem of its image."""
    values = STRONG_BARREL[group] | ({} if k1 is None else {"k1": k1})
    domain = domain.replace_factors(
        {
            f"{group}/{name}": value if isinstance(value, DistributionBase) else Constant(value)
            for name, value in values.items()
        }
        | {"view/fov_rad": Constant(1.0 if group == "lens" else 1.2)}
    )
    scene = build_scene(sample_factors(domain, 0, 0, views=1), domain, *size)
    return scene.cameras[0].lens, find_unprojectable_corner(scene)


@pytest.mark.parametrize("group", ["lens", "fisheye"])
def test_sampled_distortion_is_limited_to_the_corners_of_a_portrait_image(domain, group):
    k1 = STRONG_BARREL[group]["k1"]
    sampled = Normal(k1, 1e-9, k1 - 1e-9, k1 + 1e-9)
    landscape, problem = make_lens(domain, group, (640, 360), sampled)
    assert problem is None
    assert landscape.k1 == pytest.approx(k1)
    portrait, problem = make_lens(domain, group, (360, 640), sampled)
    assert problem is None
    ratio = portrait.k1 / landscape.k1
    assert 0.1 < ratio < 1
    assert portrait.k2 == pytest.approx(ratio * landscape.k2)


def test_distortion_from_a_nested_range_is_limited_too(domain):
    k1 = STRONG_BARREL["lens"]["k1"]
    shared = Shared(Normal(k1, 1e-9, k1 - 1e-9, k1 + 1e-9))
    lens, problem = make_lens(domain, "lens", (360, 640), shared)
    assert problem is None
    assert lens.k1 > k1


def test_constant_distortion_is_kept(domain):
    lens, problem = make_lens(domain, "lens", (360, 640))
    assert lens.k1 == STRONG_BARREL["lens"]["k1"]
    assert "folds back" in problem
