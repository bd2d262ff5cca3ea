"""Two eyes: their pictures are those of two cameras, and disparity says where points went."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from sim2cam import images
from sim2cam.errors import LensError, UsageError
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.perspective import BrownConrady
from sim2cam.render.labels.stereo import make_right_camera
from sim2cam.render.renderer import Stage
from sim2cam.scene.lens_effects import Dirt, Droplets, Glare, LensEffects
from sim2cam.scene.sensor import Mosaic

BASELINE_M = 0.05
PAIR = ("depth", "disparity", "shared", "right")


@pytest.fixture(scope="module")
def pair(egl, make):
    """A box over a table from straight above, with two eyes."""
    lid = make.body("lid", make.box((0.06, 0.08, 0.01)), (0.01, 0.0, 0.095))
    scene = make.scene(lid)
    of = replace(make.camera((0.0, -1e-4, 0.5)), baseline_m=BASELINE_M)
    stage = Stage(scene, egl)
    return scene, of, stage.shoot(of, PAIR)


def test_the_right_eye_stands_at_the_right(make):
    of = replace(make.camera(), baseline_m=BASELINE_M)
    eye = make_right_camera(of)
    offset = of.pose.inverse().apply(np.array([eye.pose.position_m]))
    assert np.allclose(offset, [[BASELINE_M, 0, 0]])
    assert eye.pose.rotation_wxyz == pytest.approx(of.pose.rotation_wxyz)
    assert eye.sensor.noise_seed != of.sensor.noise_seed
    assert replace(eye, pose=of.pose, sensor=of.sensor) == of


def test_disparity_is_focal_length_times_baseline_over_depth(pair):
    _, of, frame = pair
    depth, disparity = frame.channels["depth"], frame.channels["disparity"]
    assert depth.min() > 0
    assert np.allclose(disparity, of.lens.fx_px * BASELINE_M / depth, rtol=1e-6)


def test_shared_is_what_neither_edge_nor_frame_hides(pair):
    _, of, frame = pair
    depth, shared = frame.channels["depth"], frame.channels["shared"] > 0
    row = shared[120]
    on_lid = np.flatnonzero(depth[120] < 0.45)
    left_edge = on_lid[0]
    columns = np.arange(of.width)
    d_table, d_lid = (of.lens.fx_px * BASELINE_M / z for z in (0.5, 0.4))
    hidden = np.flatnonzero(~row)
    outside = columns - np.where(depth[120] < 0.45, d_lid, d_table) < -0.5
    shadow = hidden[~outside[hidden]]
    assert np.array_equal(hidden[outside[hidden]], np.flatnonzero(outside))
    assert shadow.min() == pytest.approx(left_edge - (d_lid - d_table), abs=1.5)
    assert shadow.max() == pytest.approx(left_edge - 1, abs=1)
    assert len(shadow) == pytest.approx(d_lid - d_table, abs=1.5)


def test_the_left_image_is_the_right_one_moved_by_the_disparity(pair):
    _, of, frame = pair
    left = images.decode_image(frame.image).astype(np.float32)
    right = images.decode_image(frame.right).astype(np.float32)
    x, y = np.meshgrid(
        np.arange(of.width, dtype=np.float32), np.arange(of.height, dtype=np.float32)
    )
    moved = cv2.remap(right, x - frame.channels["disparity"], y, cv2.INTER_LINEAR)
    shared = cv2.erode((frame.channels["shared"] > 0).astype(np.uint8), np.ones((5, 5))) > 0
    error = np.abs(moved - left).mean(axis=-1)
    assert np.median(error[shared]) < 1.5
    assert np.quantile(error[shared], 0.99) < 12
    assert np.abs(right - left).mean() > 1.5 * error[shared].mean()


def test_one_meter_exposes_both_eyes(egl, make):
    """A bright wall that only the right eye sees does not darken its picture."""
    wall = make.body("wall", make.box((0.2, 0.6, 0.01)), (0.36, 0.0, 0.005), make.WHITE)
    dark = replace(make.scene(wall), bodies=(make.ground((0.02, 0.02, 0.02)), wall))
    of = replace(make.camera((0.0, -1e-4, 0.5)), baseline_m=0.15)
    stage = Stage(dark, egl)
    frame = stage.shoot(of, ("right", "depth"))
    left, right = (images.decode_image(data) for data in (frame.image, frame.right))
    ground = np.s_[60:180, 40:120]
    assert abs(left[ground].mean() - right[ground].mean()) < 3
    alone = images.decode_image(stage.shoot(make_right_camera(of), ()).image)
    assert alone[ground].mean() < right[ground].mean() - 5


def test_noise_of_the_eyes_is_not_the_same(egl, make):
    of = replace(make.camera((0.0, -1e-4, 0.5)), baseline_m=0.01)
    of = replace(of, sensor=replace(of.sensor, full_well_e=300.0, read_noise_e=5.0))
    scene = make.scene()
    stage = Stage(scene, egl)
    frame = stage.shoot(of, ("right",))
    left, right = (
        images.decode_image(data).mean(axis=-1)[40:200, 40:280]
        for data in (frame.image, frame.right)
    )
    left, right = left - left.mean(), right - right.mean()
    assert left.std() > 2
    assert abs((left * right).mean()) < 0.2 * left.std() * right.std()


@pytest.mark.parametrize("name", ["right", "disparity", "shared"])
def test_a_camera_with_one_eye_is_refused(egl, make, name):
    scene = make.scene()
    stage = Stage(scene, egl)
    with pytest.raises(
        UsageError, match=r"^the camera has no stereo baseline\. Set its baseline_m, or"
    ):
        stage.shoot(make.camera(), (name,))


@pytest.mark.parametrize(
    "lens",
    [
        BrownConrady(400.0, 400.0, 159.5, 119.5, k1=-0.1),
        BrownConrady(400.0, 410.0, 159.5, 119.5),
    ],
)
def test_disparity_under_a_lens_that_bends_is_refused(egl, make, lens):
    scene = make.scene()
    of = replace(make.camera(), lens=lens, baseline_m=BASELINE_M)
    stage = Stage(scene, egl)
    with pytest.raises(LensError, match="disparity needs a pinhole lens"):
        stage.shoot(of, ("disparity",))
    right = stage.shoot(of, ("right",)).right
    assert images.decode_image(right).shape == (of.height, of.width, 3)


def test_pairs_are_rendered_without_opengl_too(tiny, make):
    scene = make.thrown(2)
    of = replace(make.camera(), baseline_m=BASELINE_M)
    stage = Stage(scene, tiny)
    frame = stage.shoot(of, PAIR)
    assert 0.5 < frame.channels["shared"].mean() < 1
    assert frame.right != frame.image


def test_eyes_that_turn_together_stay_side_by_side(make):
    twist = Twist((0.1, -0.2, 0.05), (0.3, 1.0, -0.5))
    of = replace(make.camera(), baseline_m=BASELINE_M, twist=twist)
    eye = make_right_camera(of)
    seconds = 1e-4
    left, right = of.advance(seconds), eye.advance(seconds)
    offset = left.pose.inverse().apply(np.array([right.pose.position_m]))
    assert np.allclose(offset, [[BASELINE_M, 0, 0]], atol=1e-9)
    assert right.pose.rotation_wxyz == pytest.approx(left.pose.rotation_wxyz)
    assert make_right_camera(replace(of, twist=None)).twist is None


def test_the_right_eye_has_pixels_and_dirt_of_its_own(make):
    of = replace(make.camera(), baseline_m=0.06)
    glass = LensEffects(glare=Glare(0.1), dirt=Dirt(0.2, 0.3), droplets=Droplets(3, 0.02))
    of = replace(of, glass=glass, sensor=replace(of.sensor, mosaic=Mosaic("RGGB", prnu=0.01)))
    eye = make_right_camera(of)
    assert eye.glass.glare == glass.glare
    for mine, other in (
        (eye.glass.dirt, glass.dirt),
        (eye.glass.droplets, glass.droplets),
    ):
        assert mine.seed != other.seed
        assert replace(mine, seed=other.seed) == other
    assert eye.sensor.mosaic.pattern_seed != of.sensor.mosaic.pattern_seed
    assert eye.sensor.mosaic.prnu == 0.01
