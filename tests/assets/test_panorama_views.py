"""Perspective views of environment maps, checked against directions."""

import math

import numpy as np
import pytest

from sim2cam.assets.environment_map import compute_texel_directions
from sim2cam.assets.panorama_views import (
    ENLARGEMENT_RANGE,
    PanoramaView,
    project_view,
    sample_view,
)

ROWS = 128


@pytest.fixture(scope="module")
def direction_map():
    """A map whose radiance is the unit direction of each texel."""
    return compute_texel_directions(ROWS).astype(np.float32)


@pytest.mark.parametrize(
    ("azimuth_deg", "elevation_deg", "roll_deg"),
    [(0, 0, 0), (90, 0, 0), (200, -60, 0), (-30, 25, 40), (359, -85, 170)],
)
def test_each_pixel_shows_what_lies_in_its_direction(
    direction_map, azimuth_deg, elevation_deg, roll_deg
):
    angles = np.radians([azimuth_deg, elevation_deg, roll_deg])
    view = PanoramaView(*map(float, angles), math.radians(80), 64, 48)
    expected = view.compute_directions()
    expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
    shown = project_view(direction_map, view)
    assert shown.shape == (48, 64, 3)
    assert np.abs(shown - expected).max() < 0.01  # half a texel is 0.012 rad


def test_axes_are_those_of_a_camera():
    view = PanoramaView(math.pi / 2, math.radians(30), 0.0, math.radians(90), 201, 101)
    rays = view.compute_directions()
    assert view.focal_px == pytest.approx(100.5)
    assert rays[50, 100] == pytest.approx([math.cos(math.radians(30)), 0, 0.5])  # towards x, upward
    assert rays[50, 200, 1] < rays[50, 0, 1]  # facing x, the right hand is at -y
    assert rays[100, 100, 2] < rays[0, 100, 2]  # rows go down
    left, right = (rays[50, column] / np.linalg.norm(rays[50, column]) for column in (0, 200))
    assert math.acos(left @ right) == pytest.approx(2 * math.atan(100 / 100.5))  # pixel centres
    rolled = PanoramaView(0.0, 0.0, math.radians(10), 1.0, 101, 101).compute_directions()
    assert rolled[50, 100, 2] < 0 < rolled[50, 0, 2]  # the right side looks further down


def test_level_cameras_see_the_horizon_level(direction_map):
    view = PanoramaView(1.0, 0.0, 0.0, 1.2, 65, 65)
    assert np.abs(project_view(direction_map, view)[32, :, 2]).max() < 1e-3


@pytest.mark.parametrize("rows", [16, 256, 512])
def test_sampled_views_do_not_magnify_beyond_the_limit(rows):
    rng = np.random.default_rng(0)
    views = [sample_view(rows, rng) for _ in range(200)]
    for view in views:
        magnification = view.focal_px / (rows / math.pi)
        assert ENLARGEMENT_RANGE[0] - 1e-9 <= magnification <= ENLARGEMENT_RANGE[1] + 1e-9
        assert view.height == max(round(0.75 * view.width), 1)
    assert len({round(view.azimuth_rad) for view in views}) > 5
    below = np.mean([view.elevation_rad < 0 for view in views])
    assert 0.6 < below < 0.8
