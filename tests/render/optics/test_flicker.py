from dataclasses import replace

import numpy as np
import pytest

from sim2cam.render.optics.shutter import expose
from sim2cam.scene.camera import Shutter
from sim2cam.scene.light import Environment, Flicker, Lamp, PointLight

SEEN = ("bodies", "depth_m")
SHUTTER = Shutter(exposure_s=0.004, readout_s=0.03)
DEPTH, MAINS = 0.4, Flicker(100.0, 0.7)


def scene_with(make, *, flicker=MAINS, scale=1.0):
    lamp = Lamp((0.0, 0.6, 0.8), 0.1, (scale, scale, scale), DEPTH)
    light = Environment((0.2,) * 3, (0.1,) * 3, (lamp,), (), flicker=flicker)
    camera = make.camera(width=24, height=40, cx_px=11.5, cy_px=19.5)
    ball = make.body("ball", make.sphere(0.02), (0.0, 0.0, 0.02))
    return make.scene(ball, cameras=[replace(camera, shutter=SHUTTER)], environment=light)


def exposed(tiny, scene):
    return expose(scene, scene.cameras[0], tiny, SEEN).radiance


def test_each_row_gathers_the_light_of_its_own_time(tiny, make):
    """Against lamps as they are at many moments of each row's exposure."""
    scene = scene_with(make)
    found = exposed(tiny, scene)
    dark = exposed(tiny, scene_with(make, flicker=None, scale=0.0))
    lamp = exposed(tiny, scene_with(make, flicker=None)) - dark
    rows = scene.cameras[0].compute_row_times_s()
    moments = rows[:, None] + SHUTTER.exposure_s * ((np.arange(200) + 0.5) / 200 - 0.5)
    level = 1 + DEPTH * np.cos(2 * np.pi * MAINS.hertz * moments + MAINS.phase_rad)
    expected = dark + lamp * level.mean(axis=1)[:, None, None]
    # pybullet puts the shadows' edges anew for each scene that it is given
    assert np.isclose(found, expected, rtol=1e-3, atol=1e-5).mean() > 0.995
    assert np.ptp(level.mean(axis=1)) > 0.3  # there are bands


def test_an_exposure_of_whole_periods_shows_no_bands(tiny, make):
    scene = scene_with(make)
    camera = replace(scene.cameras[0], shutter=replace(SHUTTER, exposure_s=0.02))
    scene = replace(scene, cameras=(camera,))
    assert exposed(tiny, scene) == pytest.approx(
        exposed(tiny, scene_with(make, flicker=None)), rel=1e-5
    )


def test_what_glows_is_steady(tiny, make):
    scene = scene_with(make)
    ball = scene.bodies[1]
    glowing = replace(ball, material=replace(ball.material, emission=3.0))
    bright = replace(scene, bodies=(scene.bodies[0], glowing))
    added = exposed(tiny, bright) - exposed(tiny, scene)
    on_ball = added[..., 0] > 0.5
    assert on_ball.sum() > 20
    inside = added[..., 0][on_ball]
    assert np.quantile(inside, 0.9) == pytest.approx(3.0 * make.RED[0], rel=5e-3)


def test_near_lights_flicker_too_and_steady_ones_do_not(make):
    scene = scene_with(make)
    point = PointLight((0.0, 0.0, 0.5), (1.0, 1.0, 1.0), flicker=0.5)
    light = replace(scene.environment, lamps=(), lights=(point, replace(point, flicker=None)))
    (alone,) = light.extract_flickering().lights
    assert alone.intensity == (0.5, 0.5, 0.5)
    assert replace(light, lights=light.lights[1:]).extract_flickering() is None
