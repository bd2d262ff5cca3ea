from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.lens import KannalaBrandt
from sim2cam.render.optics.lens_effects import apply_haze, compute_distances_m
from sim2cam.render.renderer import Stage
from sim2cam.scene.light import Haze

AIR = Haze(0.7, (0.2, 0.3, 0.4))


@pytest.fixture
def camera(make):
    return make.camera(width=32, height=24, focal_px=20.0, cx_px=15.5, cy_px=11.5)


def test_what_is_near_is_seen_and_what_is_far_is_air(camera):
    radiance = np.full((24, 32, 3), 5.0, np.float32)
    depth = np.zeros((24, 32), np.float32)
    depth[:, :16] = 1e-6
    found = apply_haze(radiance, AIR, camera, depth)
    assert found[:, :16] == pytest.approx(5.0, rel=1e-4)
    assert found[0, 20] == pytest.approx(AIR.airlight, rel=1e-6)
    clear = apply_haze(radiance, replace(AIR, extinction_per_m=0.0), camera, depth)
    assert (clear == radiance).all()


def test_two_layers_of_air_are_one_of_twice_the_depth(camera):
    radiance = np.random.default_rng(0).random((24, 32, 3)).astype(np.float32)
    once, twice = np.full((24, 32), 0.8, np.float32), np.full((24, 32), 1.6, np.float32)
    first = apply_haze(radiance, AIR, camera, once)
    assert apply_haze(first, AIR, camera, once) == pytest.approx(
        apply_haze(radiance, AIR, camera, twice), rel=1e-5
    )


def test_the_way_is_along_the_ray(camera, make):
    rays, _ = make.rays(make.view(camera))
    found = compute_distances_m(camera, np.full((24, 32), 2.0, np.float32))
    assert found == pytest.approx(2 * np.linalg.norm(rays, axis=-1), rel=1e-5)
    fisheye = replace(camera, lens=KannalaBrandt(12.0, 12.0, 15.5, 11.5))
    assert compute_distances_m(fisheye, np.full((24, 32), 2.0, np.float32)) == pytest.approx(2.0)


def test_haze_hides_the_image_and_no_label(tiny, make, camera):
    ball = make.body("ball", make.sphere(0.05), (0.0, 0.0, 0.05))
    clear = make.scene(ball, cameras=[camera])
    hazy = replace(clear, environment=replace(clear.environment, haze=Haze(50.0, (0.5,) * 3)))
    frames = []
    for scene in (clear, hazy):
        stage = Stage(scene, tiny)
        frames.append(stage.shoot(scene.cameras[0], ("depth", "ids")))
    assert frames[0].image != frames[1].image
    assert frames[0].objects == frames[1].objects
    assert (frames[0].channels["depth"] == frames[1].channels["depth"]).all()
