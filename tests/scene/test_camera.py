"""Rows are exposed one after another; moving cameras are elsewhere later."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.motion import Twist
from sim2cam.geometry.poses import Pose
from sim2cam.scene.camera import Camera, Shutter
from sim2cam.scene.depth_camera import ActiveStereo
from sim2cam.scene.sensor import Mosaic, Sensor

SENSOR = Sensor(0.0, 1.0, 1.0, 0.0, 0.0, 1e4, 0.0, 0.0, 1.0, 1.0, 0.0, 90, 0)
CAMERA = Camera(Pose(), 6, 4, BrownConrady(5.0, 5.0, 2.5, 1.5), SENSOR)


def test_rows_are_exposed_one_after_another_around_the_middle():
    rolling = replace(CAMERA, shutter=Shutter(0.01, 0.04))
    assert rolling.get_row_delay_s() == pytest.approx(0.01)
    assert rolling.compute_row_times_s() == pytest.approx([-0.015, -0.005, 0.005, 0.015])
    upwards = replace(CAMERA, shutter=Shutter(0.01, -0.04))
    assert upwards.compute_row_times_s() == pytest.approx([0.015, 0.005, -0.005, -0.015])


def test_rows_are_exposed_at_once_otherwise():
    assert not CAMERA.compute_row_times_s().any()
    assert not replace(CAMERA, shutter=Shutter(0.01)).compute_row_times_s().any()


def test_a_moving_camera_is_elsewhere_later():
    moving = replace(CAMERA, twist=Twist((1.0, 0.0, 0.0)))
    assert moving.advance(0.5).pose.position_m == (0.5, 0.0, 0.0)
    assert CAMERA.advance(0.5) == CAMERA
    assert np.array_equal(moving.advance(0.0).pose.matrix(), moving.pose.matrix())


def test_each_picture_of_a_film_has_noise_of_its_own_and_the_camera_stays_the_same():
    depth = ActiveStereo(pattern_seed=5, noise_seed=0)
    sensor = replace(SENSOR, mosaic=Mosaic("RGGB", pattern_seed=3))
    moving = replace(CAMERA, sensor=sensor, depth_camera=depth, twist=Twist((1.0, 0.0, 0.0)))
    film = [moving.rewind_frames(back, 0.1) for back in range(4)]
    assert film[0] == moving
    assert [one.pose.position_m[0] for one in film] == pytest.approx([0, -0.1, -0.2, -0.3])
    assert len({one.sensor.noise_seed for one in film}) == 4
    assert len({one.depth_camera.noise_seed for one in film}) == 4
    for one in film:
        assert replace(one.sensor, noise_seed=sensor.noise_seed) == sensor
        assert replace(one.depth_camera, noise_seed=depth.noise_seed) == depth
    assert film[2] == moving.rewind_frames(2, 0.1)
