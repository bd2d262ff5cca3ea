"""Flow, tracks, occlusion order and disparity against geometry known in advance."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.fisheye import KannalaBrandt
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import LABEL_CHANNELS, convert_to_instance_ids
from sim2cam.render.labels.disparity import convert_depth_disparity
from sim2cam.render.labels.ground_truth import (
    RenderedView,
    compute_flow,
    compute_object_points,
    count_occluded_pixels,
    project_body_points,
)
from sim2cam.render.optics.views import build_optics
from sim2cam.render.optics.warp import warp_labels
from sim2cam.render.renderer import Stage

EYE = (0.0, 0.001, 0.4)


@pytest.fixture
def shoot(drawing, make):
    """A function that draws a scene from a place."""

    def shot(scene, eye=EYE, lens=None):
        of = make.camera(eye, (eye[0], eye[1] - 0.001, 0.0))
        of = replace(of, lens=lens or of.lens)
        stage = Stage(scene, drawing)
        drawn = warp_labels(build_optics(of), lambda view: stage.render(view, LABEL_CHANNELS))
        return RenderedView(scene, of, drawn)

    return shot


LENSES = {
    "pinhole": None,
    "barrel": BrownConrady(400.0, 400.0, 159.5, 119.5, k1=-0.2, k2=0.03, p1=0.002, p2=-0.001),
    "fisheye": KannalaBrandt(300.0, 300.0, 159.5, 119.5, 0.02, -0.004, 0.0, 0.0),
}


@pytest.mark.parametrize("name", LENSES)
def test_points_of_bodies_lie_on_their_surface(shoot, make, name):
    turned = (0.8, 0.0, 0.6, 0.0)
    ball = make.body("ball", make.sphere(0.03), (0.03, 0.02, 0.05), rotation=turned)
    cube = make.body("cube", make.box((0.03, 0.03, 0.03)), (-0.03, 0.0, 0.015), rotation=turned)
    shot = shoot(make.scene(ball, cube), lens=LENSES[name])
    points, bodies = compute_object_points(shot), shot.gbuffer["bodies"]
    away = np.linalg.norm(points[bodies == 2], axis=1)
    assert np.quantile(np.abs(away / 0.03 - 1), 0.99) < 0.01  # of 40 x 20 patches
    on_cube = np.abs(points[bodies == 3]).max(axis=1)
    assert np.quantile(np.abs(on_cube - 0.015), 0.9) < 2e-5  # but for silhouettes
    assert np.abs(points[bodies == 1][:, 2]).max() < 1e-4
    assert not points[bodies == 0].any()


@pytest.mark.parametrize("name", LENSES)
def test_a_still_scene_does_not_flow(shoot, make, name):
    shot = shoot(make.thrown(), lens=LENSES[name])
    found = compute_flow(shot, shot)
    assert np.abs(found.offset_px).max() < 1e-3
    assert found.visible[shot.gbuffer["bodies"] > 0].all()


def moved(scene, name, offset):
    bodies = [
        replace(b, pose=replace(b.pose, position_m=tuple(np.add(b.pose.position_m, offset))))
        if b.name == name
        else b
        for b in scene.bodies
    ]
    return replace(scene, bodies=tuple(bodies))


def test_a_body_that_moves_takes_its_pixels_with_it(shoot, make):
    scene = make.scene(make.body("die", make.die(0.03), (0.0, 0.0, 0.015)))
    now = shoot(scene)
    then = shoot(moved(scene, "die", (0.01, 0.0, 0.0)))
    found = compute_flow(now, then)
    on_die = now.gbuffer["bodies"] == 2
    up_side = on_die & (np.abs(now.gbuffer["depth_m"] - 0.37) < 1e-4)
    assert up_side.sum() > 500
    length = np.linalg.norm(found.offset_px[up_side], axis=1)
    assert np.allclose(length, 400.0 * 0.01 / 0.37, atol=0.01)
    assert found.visible[up_side].mean() > 0.97
    ground = now.gbuffer["bodies"] == 1
    assert np.abs(found.offset_px[ground]).max() < 1e-2
    hidden = ground & ~found.visible
    assert 0 < hidden.sum() < 0.5 * on_die.sum()  # where the die lies then


def test_flow_there_and_back_is_nothing(shoot, make):
    now, then = shoot(make.thrown()), shoot(make.thrown(), (0.02, 0.01, 0.41))
    there, back = compute_flow(now, then), compute_flow(then, now)
    rows, columns = np.nonzero(there.visible)
    x, y = np.rint(there.offset_px[rows, columns] + np.stack([columns, rows], 1)).astype(int).T
    same = back.visible[y, x] & (
        then.gbuffer["bodies"][y, x] == now.gbuffer["bodies"][rows, columns]
    )
    loop = there.offset_px[rows, columns] + back.offset_px[y, x]
    assert same.mean() > 0.95
    assert np.quantile(np.linalg.norm(loop[same], axis=1), 0.95) < 0.75  # half a pixel's rounding


def test_flow_of_a_camera_that_moves_sideways_is_the_disparity(shoot, make):
    baseline = 0.05
    left = shoot(make.thrown())
    right = left.camera.pose.apply(np.array([[baseline, 0.0, 0.0]]))[0]
    pose = Pose(left.camera.pose.rotation_wxyz, tuple(map(float, right)))
    stereo = RenderedView(left.scene, replace(left.camera, pose=pose), left.gbuffer)
    found = compute_flow(left, stereo).offset_px
    expected = convert_depth_disparity(left.gbuffer["depth_m"], 400.0, baseline)
    assert np.abs(found[..., 0] + expected).max() < 1e-2
    assert np.abs(found[..., 1]).max() < 1e-2


def test_a_tracked_corner_is_seen_until_something_hides_it(shoot, make):
    die = make.body("die", make.die(0.03), (0.0, 0.0, 0.015))
    lid = make.body("lid", make.box((0.03, 0.06, 0.002)), (0.02, 0.0, 0.06))
    top = np.array([[0.01, 0.0, 0.015], [-0.01, 0.0, 0.015], [0.0, 0.0, -0.015]])
    open_scene, hidden_scene = make.scene(die), make.scene(die, lid)
    assert [t.visible for t in project_body_points(top, "die", shoot(open_scene))] == [
        True,
        True,
        False,
    ]
    shot = shoot(hidden_scene)
    found = project_body_points(top, "die", shot)
    assert [t.visible for t in found] == [False, True, False]
    place = shot.camera.pose.inverse().apply(die.pose.apply(top))
    assert np.allclose([t.pixel for t in found], shot.camera.lens.project(place))


def test_points_behind_the_camera_have_no_pixel(shoot, make):
    shot = shoot(make.scene(make.body("die", make.die(), (0.0, 0.0, 0.008))))
    (found,) = project_body_points(np.array([[0.0, 0.0, 2.0]]), "die", shot)
    assert np.isnan(found.pixel).all()
    assert not found.visible


def test_who_hides_whom_is_counted_in_pixels(shoot, make):
    lower = make.body("lower", make.die(0.02), (0.0, 0.0, 0.01))
    upper = make.body("upper", make.box((0.02, 0.02, 0.004)), (0.01, 0.0, 0.05))
    beside = make.body("beside", make.die(0.02), (-0.06, 0.0, 0.01))
    shot = shoot(make.scene(lower, upper, beside))
    found = count_occluded_pixels(
        convert_to_instance_ids(shot.scene, shot.gbuffer["bodies"]), shot.gbuffer["cover"]
    )
    assert set(found) == {(2, 1)}
    # of a die of 20 mm half is hidden: 10 mm x 20 mm, 0.38 m away
    assert found[2, 1] == pytest.approx((400 / 0.38) ** 2 * 0.01 * 0.02, rel=0.3)
