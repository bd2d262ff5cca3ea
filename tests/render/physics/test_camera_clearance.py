from dataclasses import replace

import pytest

from sim2cam.objects.primitives import Cuboid, Sphere
from sim2cam.objects.tubes import Strand, Tubes
from sim2cam.render.physics.camera_clearance import MIN_CLEARANCE_M, find_blocked_camera

BOX = (0.04, 0.06, 0.02)
TOP_M = 0.1 + BOX[2] / 2


def make_scene(make, eye, *, asset=None, **camera):
    box = make.body("box/0", asset or Cuboid(BOX), (0.0, 0.0, 0.1), is_fixed=True)
    eye_camera = replace(make.camera(eye, target=(1.0, 0.3, 0.2)), **camera)
    return make.scene(box, cameras=[make.camera(), eye_camera])


@pytest.mark.parametrize(
    ("eye", "blocked_by"),
    [
        ((0.0, 0.0, 0.1), "box/0"),
        ((0.0, 0.0, TOP_M + 0.8 * MIN_CLEARANCE_M), "box/0"),
        ((0.0, 0.0, TOP_M + 1.3 * MIN_CLEARANCE_M), None),
        ((0.5, 0.0, 0.8 * MIN_CLEARANCE_M), "table"),
        ((0.5, 0.0, -0.02), "table"),
        ((0.5, 0.0, 1.3 * MIN_CLEARANCE_M), None),
    ],
)
def test_camera_inside_or_near_a_body_is_found(make, eye, blocked_by):
    problem = find_blocked_camera(make_scene(make, eye))
    expected = f"camera 1 is inside {blocked_by}, or nearer to it than 10 mm"
    assert problem == (expected if blocked_by else None)


def test_camera_in_the_empty_part_of_a_bounding_box_is_free(make):
    arch = Tubes((Strand(((-0.1, 0.0, 0.0), (0.0, 0.0, 0.1), (0.1, 0.0, 0.0)), (0.005,) * 3),))
    assert find_blocked_camera(make_scene(make, (0.0, 0.0, 0.14), asset=arch)) is None
    assert find_blocked_camera(make_scene(make, (0.0, 0.0, 0.2), asset=arch)) is not None


def test_right_camera_of_a_stereo_pair_is_checked(make):
    scene = make_scene(make, (0.0, 0.2, 0.1), asset=Sphere(0.02))
    assert find_blocked_camera(scene) is None
    left = replace(scene.cameras[1], baseline_m=0.2)
    right_position = (left.pose @ type(left.pose)(position_m=(0.2, 0.0, 0.0))).position_m
    ball = replace(scene.bodies[1], pose=replace(scene.bodies[1].pose, position_m=right_position))
    assert find_blocked_camera(replace(scene, bodies=(ball,), cameras=(left,))) is not None
