import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.meshes.ground_plane import GroundPlane
from sim2cam.render.meshes.texture_set import TextureSet

PICTURE = np.arange(4 * 4 * 3, dtype=np.uint8).reshape(4, 4, 3) * 5
DOWN = Pose.look_at((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 0.0)


def table(side_m=2.0, pose=None):
    return GroundPlane(0, side_m, pose or Pose(), TextureSet(PICTURE, None, 1.0))


def view(pose=DOWN):
    return PinholeView(pose, 41, 31, 20.0, 20.0, 15.0)


def test_depth_ends_at_its_edge():
    depth = table(side_m=1.0).compute_depth_m(view())
    inside = np.zeros((31, 41), bool)
    inside[5:26, 10:31] = True  # 0.5 m are 10 pixels
    assert np.allclose(depth[inside], 1.0)
    assert not depth[~inside].any()


def test_depth_of_a_slanted_view_is_that_of_cast_rays():
    pose = Pose.look_at((0.1, -0.5, 0.6), (0.0, 0.0, 0.0), 0.3)
    depth = table().compute_depth_m(view(pose))
    for row, column in ((15, 20), (3, 30), (28, 7)):
        ray = pose.rotation().apply([(column - 20) / 20, (row - 15) / 20, 1.0])
        assert depth[row, column] == pytest.approx(-0.6 / ray[2], rel=1e-6)


def test_what_lies_behind_the_camera_is_not_seen():
    up = Pose.look_at((0.0, 0.0, 1.0), (0.0, 0.0, 2.0), 0.0)
    assert not table().compute_depth_m(view(up)).any()


def colors(x_m, y_m):
    """The colour below a point of the world."""
    spot = DOWN.inverse().apply(np.array([[x_m, y_m, 0.0]])).astype(np.float32)
    return table().sample_colors(spot.T[..., None], DOWN)[0, 0]


def test_colours_are_those_of_the_image_below():
    assert np.array_equal(colors(0.125, 0.125), PICTURE[0, 0])
    assert np.array_equal(colors(0.875, 0.375), PICTURE[1, 3])
    between = (PICTURE[0, 0].astype(int) + PICTURE[0, 1]) / 2
    assert np.abs(colors(0.25, 0.125) - between).max() <= 1


def test_beyond_the_image_it_is_mirrored_again_and_again():
    assert np.array_equal(colors(-0.125, 0.375), PICTURE[1, 0])
    assert np.array_equal(colors(1.125, 0.375), PICTURE[1, 3])
    assert np.array_equal(colors(2.375, -3.875), PICTURE[0, 1])


def test_its_pose_moves_image_and_edge():
    moved = Pose(position_m=(0.25, 0.0, 0.5))
    assert np.allclose(table(side_m=0.6, pose=moved).compute_depth_m(view())[15, 25], 0.5)
    spot = DOWN.inverse().apply(np.array([[0.375, 0.125, 0.5]])).astype(np.float32)
    found = table(pose=moved).sample_colors(spot.T[..., None], DOWN)[0, 0]
    assert np.array_equal(found, PICTURE[0, 0])
