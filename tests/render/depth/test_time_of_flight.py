from dataclasses import replace

import numpy as np
import pytest
from render_fixtures import compute_lambertian_return

from sim2cam.geometry.poses import Pose
from sim2cam.render.depth.infrared import (
    DepthCameraInput,
    compute_ray_lengths,
)
from sim2cam.render.depth.time_of_flight import measure_time_of_flight
from sim2cam.render.gbuffer import PinholeView
from sim2cam.scene.depth_camera import SPEED_OF_LIGHT_M_S, TimeOfFlight

KINECT = TimeOfFlight()
QUIET = replace(
    KINECT, signal_e=1e8, ambient_e=0.0, read_noise_e=0.0, full_well_e=1e9, scatter_share=0.0
)
VIEW = PinholeView(Pose(), 200, 150, 500.0, 99.5, 74.5)


def wall(depth_m, *, reflectance=0.9):
    depth = np.full((150, 200), depth_m, np.float32)
    return DepthCameraInput(
        depth, compute_lambertian_return(VIEW, depth, np.full_like(depth, reflectance))
    )


def edge(near_m, far_m, *, near_light=0.3, far_light=0.3):
    """Near left of column 100, far right of it."""
    seen = DepthCameraInput(
        *(np.full((150, 200), value, np.float32) for value in (far_m, far_light))
    )
    seen.depth_m[:, :100] = near_m
    seen.returned_light[:, :100] = near_light
    return seen


def sigma_m(distance_m, camera, reflectance=0.9):
    """Lange and Seitz: c / (4 pi f) sqrt(B / 2) / A."""
    light = camera.signal_e * reflectance / distance_m**2
    charge = light + camera.ambient_e * reflectance + camera.read_noise_e**2
    amplitude = camera.modulation_contrast * light
    return SPEED_OF_LIGHT_M_S / (4 * np.pi * camera.modulation_hz) * np.sqrt(charge / 2) / amplitude


@pytest.mark.parametrize("depth_m", [0.7, 1.5, 3.0, 4.0])
@pytest.mark.parametrize("reflectance", [0.9, 0.2])
def test_noise_follows_from_the_light_counted(depth_m, reflectance):
    camera = replace(KINECT, blur_px=0.0, scatter_share=0.0)
    error = measure_time_of_flight(VIEW, wall(depth_m, reflectance=reflectance), camera) - depth_m
    distance = depth_m * compute_ray_lengths(VIEW)
    expected = sigma_m(distance, camera, reflectance) / compute_ray_lengths(VIEW)
    assert np.std(error / expected) == pytest.approx(1, rel=0.03)
    assert np.mean(error / expected) == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("depth_m", [1.0, 2.0, 3.0, 4.0])
def test_the_defaults_are_about_as_noisy_as_a_second_kinect(depth_m):
    measured = (1.5 - 0.5 * depth_m + 0.3 * depth_m**2) / 1000  # Fankhauser et al. 2015
    middle = measure_time_of_flight(VIEW, wall(depth_m), KINECT)[50:100, 70:130]
    assert middle.std() == pytest.approx(measured, rel=0.25)


def test_without_noise_the_depth_is_exact_off_the_axis_too():
    seen = wall(2.0)
    assert np.abs(measure_time_of_flight(VIEW, seen, QUIET) - 2.0).max() < 1e-3


@pytest.mark.parametrize("gap_m", [0.05, 0.3, 0.8])
def test_flying_pixels_lie_between_the_two_depths(gap_m):
    read = measure_time_of_flight(VIEW, edge(1.0, 1.0 + gap_m), QUIET)
    assert read.min() > 1.0 - 2e-3
    assert read.max() < 1.0 + gap_m + 2e-3
    flying = (read > 1.0 + 0.02 * gap_m) & (read < 1.0 + 0.98 * gap_m)
    assert (flying.sum(axis=1) >= 2).all()
    assert not flying[:, :97].any()
    assert not flying[:, 103:].any()


def test_flying_pixels_lie_nearer_to_the_brighter_surface():
    dark, bright = (
        measure_time_of_flight(VIEW, edge(1.0, 1.3, near_light=light), QUIET)[75, 100]
        for light in (0.03, 3.0)
    )
    assert bright < 1.15 < dark


def test_a_camera_of_one_frequency_repeats_itself():
    camera = replace(QUIET, modulation_hz=30e6, ambiguity_m=SPEED_OF_LIGHT_M_S / 60e6)
    read = measure_time_of_flight(VIEW, edge(6.0, 7.0), camera)
    distance = np.array([6.0, 7.0]) * compute_ray_lengths(VIEW)[75, 50]
    expected = (distance - camera.ambiguity_m) / compute_ray_lengths(VIEW)[75, 50]
    assert read[75, [50, 149]] == pytest.approx(expected, abs=2e-3)


def test_scattered_light_pulls_dark_far_surfaces_nearer():
    seen = edge(0.7, 1.2, near_light=2.0, far_light=0.01)
    clean, scattered = (
        measure_time_of_flight(VIEW, seen, replace(QUIET, scatter_share=share))[:, 150]
        for share in (0.0, 0.002)
    )
    assert clean.mean() == pytest.approx(1.2, abs=1e-3)
    assert scattered.mean() < 1.15


@pytest.mark.parametrize(
    ("spoilt", "value"),
    [
        ("returned_light", 1e-4),
        ("returned_light", 20.0),
        ("depth_m", 0.3),
        ("depth_m", 5.0),
        ("depth_m", 0.0),
    ],
    ids=["dark", "glint", "too near", "too far", "nothing"],
)
def test_there_are_holes_where_the_light_or_the_range_ends_and_nowhere_else(spoilt, value):
    seen = edge(1.0, 1.0)
    getattr(seen, spoilt)[40:90, 60:120] = value
    camera = replace(KINECT, scatter_share=0.0)
    empty = measure_time_of_flight(VIEW, seen, camera) == 0
    assert empty[43:87, 63:117].all()
    spread = np.zeros_like(empty)
    spread[37:93, 57:123] = True
    assert not (empty & ~spread).any()


def test_nothing_stays_nothing_beside_bright_things():
    seen = edge(1.0, 0.0, near_light=3.0)
    assert (measure_time_of_flight(VIEW, seen, KINECT)[:, 100:] == 0).all()


def test_readings_repeat_for_a_seed_and_no_other():
    first, again, other = (
        measure_time_of_flight(VIEW, wall(1.0), replace(KINECT, noise_seed=seed))
        for seed in (1, 1, 2)
    )
    assert first.dtype == np.float32
    assert (first == again).all()
    assert (first != other).mean() > 0.9
