"""Soccer fields: labelled posts, lines and a hall around them, and the hood of the camera."""

import math
from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.objects.kind import compute_yaw_rotation
from sim2cam.pipeline.recipe import load_recipe
from sim2cam.randomize.domain_checks import RecipeNames, check_domain, list_label_classes
from sim2cam.randomize.sampling import sample_factors
from sim2cam.randomize.scene_builder import build_scene
from sim2cam.scene.material import Texture
from sim2cam.scene.scene import Scene

CATEGORIES = ("ball", "goalpost", "robot")
GREY = Texture("plain", (0.4, 0.4, 0.4), (0.4, 0.4, 0.4), 0.1, 0.0, 0.0, 0)


@pytest.fixture(scope="module")
def domain():
    return load_recipe("robocup").domain


@pytest.fixture(scope="module", params=range(4))
def sampled(request, domain):
    factors = sample_factors(domain, 0, request.param, views=1)
    return factors, build_scene(factors, domain, 608, 800)


def get_body(scene, name):
    return next(body for body in scene.bodies if body.name == name)


def get_vertices(body):
    return body.pose.apply(body.asset.build_mesh().vertices_m)


def to_field(factors, points):
    """Points in the frame of the field."""
    x, y, yaw = (factors.get_float(f"field/{name}") for name in ("x_m", "y_m", "yaw_rad"))
    return Pose(compute_yaw_rotation(yaw), (x, y, 0.0)).inverse().apply(points)


def test_four_posts_stand_on_the_goal_lines_and_are_labelled(sampled):
    factors, scene = sampled
    length, width = (factors.get_float(f"field/{name}") for name in ("length_m", "goal_width_m"))
    posts = [body for body in scene.bodies if body.get_category() == "goalpost"]
    assert [body.is_target for body in posts] == [True] * 4
    corners = [to_field(factors, get_vertices(body)) for body in posts]
    fronts = [np.abs(points[:, 0]).min() for points in corners]
    assert fronts == pytest.approx([length / 2] * 4)
    inner = [np.abs(points[:, 1]).min() for points in corners]
    assert inner == pytest.approx([width / 2] * 4)
    assert all(points[:, 2].min() == pytest.approx(0, abs=1e-9) for points in corners)
    frames = [body for body in scene.bodies if body.asset.kind == "goal_frame"]
    assert not any(body.is_target for body in frames)
    for frame in frames:  # behind the goal lines, between the outer sides of the posts
        points = to_field(factors, get_vertices(frame))
        assert np.abs(points[:, 0]).min() == pytest.approx(length / 2, abs=0.01)
        assert np.abs(points[:, 1]).max() < width / 2 + 0.2


def test_lines_are_on_the_ground_within_the_field(sampled):
    factors, scene = sampled
    points = to_field(factors, get_vertices(get_body(scene, "lines")))
    half = [factors.get_float(f"field/{name}") / 2 for name in ("length_m", "width_m")]
    assert np.abs(points[:, :2]).max(axis=0) == pytest.approx(half)
    assert np.ptp(points[:, 2]) < 1e-9
    assert 0 < points[0, 2] < 0.01


def test_the_hall_faces_inwards_and_holds_the_camera(sampled):
    _, scene = sampled
    hall = get_body(scene, "hall")
    mesh = hall.asset.build_mesh()
    triangles = mesh.vertices_m[mesh.faces]
    outward = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    middle = np.array(hall.asset.center_m)
    assert (np.einsum("ij,ij->i", outward, triangles.mean(axis=1) - middle) < 0).all()
    (eye,) = hall.pose.inverse().apply(np.array([scene.cameras[0].pose.position_m]))
    assert (np.abs(eye - middle) < np.array(hall.asset.size_m) / 2).all()


def test_the_ground_reaches_the_walls(sampled):
    _, scene = sampled
    hall, ground = get_body(scene, "hall"), get_body(scene, "table")
    reach = np.abs(get_vertices(hall)[:, :2]).max()
    assert ground.asset.side_m / 2 >= reach - 1e-9


def test_what_cannot_be_touched_neither_collides_nor_casts_shadows(sampled):
    _, scene = sampled
    for name in ("hall", "lines", "hood/0"):
        shape = get_body(scene, name).asset
        assert shape.build_collider() == ()
        assert len(shape.build_mesh().shadow_faces) == 0


def test_the_hood_begins_beside_the_axis_of_the_camera(sampled):
    factors, scene = sampled
    hood = get_body(scene, "hood/0")
    assert hood.pose == scene.cameras[0].pose
    edge = factors.get_float("hood/0/edge") * factors.get_float("view/0/fov_rad") / 2
    angles = np.arccos(hood.asset.build_mesh().normals @ [0, 0, -1])
    tilts = math.hypot(*hood.asset.tilt_rad)
    assert angles.min() >= edge - hood.asset.lump_rad - tilts
    smooth = replace(hood.asset, lumps=0, tilt_rad=(0.0, 0.0))
    angles = np.arccos(smooth.build_mesh().normals @ [0, 0, -1])
    assert angles.min() == pytest.approx(edge)


def test_cameras_stand_over_the_origin_at_the_sampled_distance(sampled):
    factors, scene = sampled
    pose, tilt = scene.cameras[0].pose, factors.get_float("view/0/tilt_rad")
    height = factors.get_float("view/0/aim_height_m") + 0.05 * math.cos(tilt)
    assert pose.position_m == pytest.approx((-0.05 * math.sin(tilt), 0, height), abs=1e-4)
    axis = pose.rotation().apply([0, 0, 1])
    assert axis == pytest.approx((math.sin(tilt), 0, -math.cos(tilt)), abs=1e-4)


def test_balls_in_the_air_and_robots_stand_where_they_are_placed(sampled):
    factors, scene = sampled
    placed = [body for body in scene.bodies if body.asset.kind in ("ball", "robot")]
    assert placed
    assert all(body.is_fixed for body in placed)
    for body in placed:
        height = factors.get_float_or(f"{body.name}/z_m", 0.0)
        assert get_vertices(body)[:, 2].min() == pytest.approx(height, abs=0.01)


def test_scenes_return_from_json(sampled):
    _, scene = sampled
    assert Scene.from_json(scene.to_json()) == scene


def test_lamps_are_the_only_white_of_a_hall(sampled):
    _, scene = sampled
    hall = replace(get_body(scene, "hall").asset, lamp_level=30.0, lamps=4)
    lit, _ = hall.render_maps(GREY)
    dark, _ = replace(hall, lamps=0).render_maps(GREY)
    assert lit.max() > 2 * np.quantile(dark, 0.99)
    assert np.array_equal(lit[:512], dark[:512])  # walls


def test_posts_have_a_label_class(domain):
    classes = {each.name: each.categories for each in list_label_classes(domain)}
    assert classes == {name: (name,) for name in CATEGORIES}


@pytest.mark.parametrize(
    ("removed", "categories", "problem"),
    [
        ("hall", CATEGORIES, r"be 'field', but 'domain\.hall' is missing"),
        ("field", CATEGORIES, r"be 'field', but 'domain\.field' is missing"),
        (None, ("ball", "robot"), "must contain goalpost, because a field has goals"),
    ],
)
def test_what_a_field_needs(domain, removed, categories, problem):
    changed = domain.replace_groups({removed: None}) if removed else domain
    with pytest.raises(ValueError, match=problem):
        check_domain(changed, RecipeNames(categories=categories))
