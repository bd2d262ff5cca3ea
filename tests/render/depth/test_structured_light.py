from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.render.depth.infrared import DepthCameraInput, compute_incidence_cosines
from sim2cam.render.depth.structured_light import measure_structured_light
from sim2cam.render.gbuffer import PinholeView
from sim2cam.scene.depth_camera import StructuredLight

KINECT = StructuredLight()
EXACT = replace(
    KINECT, axial_noise_m=0.0, axial_growth_per_m=0.0, axial_slant_m=0.0, lateral_noise_px=0.0,
    lateral_slant_px=0.0, speckle_contrast=0.0,
)  # fmt: skip
PIXEL_M = 580 * 0.075  # focal length times baseline


def view(width=240, height=160):
    return PinholeView(Pose(), width, height, 580.0, (width - 1) / 2, (height - 1) / 2)


def wall(depth_m, *, light=0.5, width=240, height=160):
    size = (height, width)
    return DepthCameraInput(np.full(size, depth_m, np.float32), np.full(size, light, np.float32))


def slanted(depth_m, tilt_rad, **options):
    """A plane through the axis, turned about the vertical."""
    seen, of = wall(depth_m, **options), view()
    x = (np.arange(240) - of.cx_px) / of.focal_px
    depth = depth_m / (1 - np.tan(tilt_rad) * x)
    normal = np.float32([np.sin(tilt_rad), 0, -np.cos(tilt_rad)])
    return replace(
        seen,
        depth_m=np.broadcast_to(depth, (160, 240)).astype(np.float32),
        normals=np.broadcast_to(normal, (160, 240, 3)),
    )


def board(near_m=0.8, far_m=1.6, *, near_light=1.0, far_light=0.25):
    """A near board over columns 100 to 149 and rows 60 to 99, before a wall."""
    seen = wall(far_m, light=far_light)
    seen.depth_m[60:100, 100:150] = near_m
    seen.returned_light[60:100, 100:150] = near_light
    return seen


@pytest.mark.parametrize("depth_m", [0.7, 1.0, 2.0, 3.0, 4.5])
def test_noise_grows_with_depth_as_nguyen_measured(depth_m):
    read = [
        measure_structured_light(view(), wall(depth_m), replace(KINECT, noise_seed=seed))
        for seed in range(4)
    ]
    expected = 0.0012 + 0.0019 * (depth_m - 0.4) ** 2
    kept = np.stack(read)[np.stack(read) > 0]
    assert kept.std() == pytest.approx(expected, rel=0.08)
    assert kept.mean() == pytest.approx(depth_m, abs=0.1 * expected)


@pytest.mark.parametrize("tilt_rad", [0.6, 1.1, 1.3])
def test_noise_grows_with_incidence_as_nguyen_measured(tilt_rad):
    seen = slanted(1.0, tilt_rad)
    errors = [
        (measure_structured_light(view(), seen, replace(KINECT, noise_seed=seed)) - seen.depth_m)[
            :, 112:128
        ]
        for seed in range(12)
    ]
    incidence = np.arccos(compute_incidence_cosines(view(), seen))[:, 112:128].mean()
    slant = incidence / (np.pi / 2 - incidence)
    expected = 0.0012 + 0.0019 * 0.6**2 + 0.0001 * slant**2
    assert np.std(errors) == pytest.approx(expected, rel=0.12)


@pytest.mark.parametrize("noise", [EXACT, KINECT], ids=["exact", "noisy"])
def test_disparities_are_whole_eighths_of_a_pixel(noise):
    read = measure_structured_light(view(), slanted(1.5, 0.7), noise)
    steps = 8 * PIXEL_M / read[read > 0].astype(np.float64)
    assert np.abs(steps - np.rint(steps)).max() < 1e-3
    assert len(np.unique(np.rint(steps))) > 20


def test_a_step_of_depth_is_seven_centimetres_at_five_metres():
    read = measure_structured_light(view(), slanted(4.6, 0.5), EXACT)
    levels = np.unique(read[read > 4.7])
    assert np.diff(levels).max() == pytest.approx(0.07, abs=0.003)


def test_without_noise_a_plane_is_read_to_half_a_step():
    seen = slanted(1.0, 1.0)
    read = measure_structured_light(view(), seen, EXACT)
    inner = np.s_[8:-8, 8:-8]
    error = np.abs(PIXEL_M / read[inner] - PIXEL_M / seen.depth_m[inner])
    assert error.max() <= 0.125 / 2 + 1e-3


def test_a_bright_foreground_grows_by_half_the_window_where_no_shadow_lies():
    for window_px in (5, 9):
        read = measure_structured_light(view(), board(), replace(EXACT, window_px=window_px))
        is_near = np.abs(read - 0.8) < 0.1
        half = window_px // 2
        assert np.flatnonzero(is_near[:, 125]).tolist() == list(range(60 - half, 100 + half))
        assert np.flatnonzero(is_near[80]).tolist() == list(range(100, 150 + half))


def test_a_foreground_as_bright_as_the_ground_keeps_its_edges():
    read = measure_structured_light(view(), board(near_light=0.3, far_light=0.3), EXACT)
    assert np.flatnonzero(np.abs(read[80] - 0.8) < 0.1).tolist() == list(range(100, 150))


def test_the_projector_s_shadow_is_empty_and_as_wide_as_the_disparities_differ():
    read = measure_structured_light(view(), board(), EXACT)
    expected = PIXEL_M * (1 / 0.8 - 1 / 1.6)
    hidden = read[80] == 0
    assert abs(hidden.sum() - expected) <= 1
    assert hidden[100 - round(expected) + 1 : 100].all()


@pytest.mark.parametrize(
    ("spoilt", "value"),
    [("returned_light", 0.005), ("returned_light", 50.0), ("depth_m", 0.3), ("depth_m", 0.0)],
    ids=["dark", "glint", "too near", "nothing"],
)
def test_there_are_holes_where_the_light_or_the_range_ends_and_nowhere_else(spoilt, value):
    seen = wall(1.0)
    getattr(seen, spoilt)[60:100, 200:] = (
        value  # at the right edge: its shadow would fall elsewhere
    )
    empty = measure_structured_light(view(), seen, KINECT) == 0
    margin = 4 + 3  # half a window, and as far as edges move
    assert empty[60 + margin : 100 - margin, 200 + margin :].all()
    spread = np.zeros_like(empty)
    spread[60 - margin : 100 + margin, 200 - margin :] = True
    if value == 0.3:  # a near thing hides the wall beside it
        spread[60 - margin : 100 + margin, : 200 - margin] = True
    assert not (empty & ~spread).any()


def test_a_gap_of_nothing_stays_empty_however_small():
    seen = wall(1.0)
    seen.depth_m[80:82, 120:123] = 0
    read = measure_structured_light(view(), seen, KINECT)
    assert (read[80:82, 120:123] == 0).all()
    assert (read > 0).sum() == read.size - 6


def test_grazing_surfaces_give_no_reading():
    assert (measure_structured_light(view(), slanted(1.0, 1.2), KINECT) > 0).mean() > 0.95
    assert (measure_structured_light(view(), slanted(1.0, 1.55), KINECT)[:, 119:121] == 0).all()


def test_edges_waver_by_about_the_lateral_noise():
    seen = board(near_light=0.3, far_light=0.3)
    right = [
        (
            np.abs(
                measure_structured_light(view(), seen, replace(KINECT, noise_seed=seed))[60:100]
                - 0.8
            )
            < 0.1
        )
        for seed in range(20)
    ]
    last = np.array([[np.flatnonzero(row).max() for row in edges[8:-8]] for edges in right])
    assert last.mean() == pytest.approx(149, abs=0.5)
    assert last.std() == pytest.approx(0.8, abs=0.3)


def test_readings_repeat_for_a_seed_and_no_other():
    first, again, other = (
        measure_structured_light(view(), board(), replace(KINECT, noise_seed=seed))
        for seed in (1, 1, 2)
    )
    assert first.dtype == np.float32
    assert (first == again).all()
    assert (first != other).any()
