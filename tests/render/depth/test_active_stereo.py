from dataclasses import replace

import cv2
import numpy as np
import pytest
from render_fixtures import compute_lambertian_return

from sim2cam.geometry.poses import Pose
from sim2cam.render.depth.active_stereo import measure_active_stereo, render_infrared_pair
from sim2cam.render.depth.infrared import DepthCameraInput
from sim2cam.render.gbuffer import PinholeView
from sim2cam.scene.depth_camera import ActiveStereo

D415 = ActiveStereo(min_range_m=0.4)
CLEAN = replace(D415, speckle_contrast=0.0, read_noise_e=0.0, full_well_e=1e9)
VIEW = PinholeView(Pose(), 240, 160, 460.0, 119.5, 79.5)
PIXEL_M = 460 * 0.055  # focal length times baseline


def plane(depth_m, tilt_rad=0.0, *, reflectance=0.5):
    """A matt plane through the axis, turned about the vertical."""
    x = (np.arange(240) - VIEW.cx_px) / VIEW.focal_px
    depth = np.broadcast_to(depth_m / (1 - np.tan(tilt_rad) * x), (160, 240)).astype(np.float32)
    normal = np.float32([np.sin(tilt_rad), 0, -np.cos(tilt_rad)])
    normals = np.broadcast_to(normal, (160, 240, 3))
    light = compute_lambertian_return(VIEW, depth, np.full_like(depth, reflectance), normals)
    return DepthCameraInput(depth, light, normals)


def board(near_m=0.6, far_m=1.0):
    """A board over columns 100 to 159 and rows 50 to 109, before a wall."""
    seen = plane(far_m)
    seen.depth_m[50:110, 100:160] = near_m
    seen.returned_light[50:110, 100:160] = 0.5 / near_m**2
    return seen


def both_see(depth_m):
    return np.arange(240) >= PIXEL_M / depth_m


@pytest.mark.parametrize(("depth_m", "tilt_rad"), [(0.6, 0.0), (0.8, 0.7), (1.0, -0.7), (2.0, 0.5)])
def test_a_slanted_plane_is_read_whole_and_to_a_tenth_of_a_pixel(depth_m, tilt_rad):
    seen = plane(depth_m, tilt_rad)
    read = measure_active_stereo(VIEW, seen, D415)
    in_range = both_see(seen.depth_m) & (seen.depth_m > 0.42)
    assert (read[in_range] > 0).mean() > 0.98
    kept = in_range & (read > 0)
    error_px = PIXEL_M / read[kept] - PIXEL_M / seen.depth_m[kept]
    assert np.median(np.abs(error_px)) < 0.1
    assert np.sqrt(np.mean(error_px**2)) < 0.2
    assert np.median(np.abs(read[kept] - seen.depth_m[kept])) < 0.1 * (depth_m * 1.2) ** 2 / PIXEL_M


def test_noise_grows_with_the_squared_depth():
    spread = []
    for depth_m in (0.6, 1.8):
        read = measure_active_stereo(VIEW, plane(depth_m), D415)
        spread.append(read[read > 0].std())
    assert spread[1] / spread[0] == pytest.approx(9, rel=0.6)


def test_disparities_are_whole_steps():
    read = measure_active_stereo(VIEW, plane(0.8, 0.5), D415)
    steps = 32 * PIXEL_M / read[read > 0].astype(np.float64)
    assert np.abs(steps - np.rint(steps)).max() < 1e-2


def test_what_the_right_camera_cannot_see_is_mostly_empty():
    read = measure_active_stereo(VIEW, board(), D415)
    hidden = round(PIXEL_M * (1 / 0.6 - 1 / 1.0))
    shadow = read[60:100, 100 - hidden : 100]
    assert (shadow == 0).mean() > 0.4
    assert (read[:, : int(PIXEL_M / 1.0)] == 0).mean() > 0.95  # the left camera alone sees these
    assert (read[60:100, 165:] > 0).mean() > 0.97


def test_edges_of_the_foreground_lie_within_the_window():
    read = measure_active_stereo(VIEW, board(), D415)
    near = np.abs(read - 0.6) < 0.05
    assert near[56:104, 106:154].mean() > 0.98
    assert not near[:, 168:].any()
    assert not near[:42].any()
    assert not near[118:].any()


@pytest.mark.parametrize("light", [0.0, 0.002], ids=["black", "nearly black"])
def test_dark_surfaces_lose_their_readings(light):
    seen = plane(0.8)
    seen.returned_light[40:120, 120:200] = light
    read = measure_active_stereo(VIEW, seen, D415)
    assert (read[50:110, 130:190] > 0).mean() < 0.4
    assert (read[10:30, 60:] > 0).mean() > 0.98


def test_grazing_surfaces_lose_their_readings():
    filled = [
        (measure_active_stereo(VIEW, plane(0.8, tilt), D415) > 0)[:, 110:130].mean()
        for tilt in (0.7, 1.53)
    ]
    assert filled[0] > 0.95
    assert filled[1] < 0.5


def test_without_dots_a_blank_wall_cannot_be_read():
    blurred = replace(D415, dot_radius_rad=0.05)
    assert (measure_active_stereo(VIEW, plane(0.8), blurred) > 0).mean() < 0.3


def test_nothing_stays_nothing():
    seen = plane(0.8)
    seen.depth_m[40:120, 120:200] = 0
    assert (measure_active_stereo(VIEW, seen, D415)[40:120, 120:200] == 0).all()
    assert (measure_active_stereo(VIEW, plane(0.0), D415) == 0).all()


def test_depths_out_of_range_are_empty():
    read = measure_active_stereo(VIEW, plane(0.8), replace(D415, max_range_m=0.7))
    assert (read == 0).all()


@pytest.mark.parametrize(("projector_m", "share"), [(0.0, 0.0), (0.0275, 0.5), (0.055, 1.0)])
def test_the_dots_move_between_the_images_by_the_disparity(projector_m, share):
    still = replace(CLEAN, projector_m=projector_m)
    near, far = (
        render_infrared_pair(VIEW, plane(PIXEL_M / shift_px), still) for shift_px in (32, 16)
    )
    for (left, right), shift_px in ((near, 32), (far, 16)):
        assert np.abs(left[:, shift_px:].astype(int) - right[:, :-shift_px]).max() <= 1
    fit = cv2.matchTemplate(near[0], far[0][:, 60:180], cv2.TM_CCOEFF_NORMED)
    assert cv2.minMaxLoc(fit)[3] == (60 + (32 - 16) * share, 0)


def test_the_right_camera_sees_the_wall_behind_the_board():
    with_board, without = (
        render_infrared_pair(VIEW, seen, CLEAN) for seen in (board(), plane(1.0))
    )
    behind = np.s_[52:108, 120:132]  # from the board's right edge to where the left camera sees on
    likeness = [
        np.corrcoef(a[behind].ravel(), b[behind].ravel())[0, 1]
        for a, b in zip(with_board, without, strict=True)
    ]
    assert likeness[0] < 0.5
    assert likeness[1] > 0.95


def test_readings_repeat_for_seeds_and_no_others():
    read = [
        measure_active_stereo(VIEW, plane(0.8), replace(D415, **seeds))
        for seeds in ({}, {}, {"noise_seed": 1}, {"pattern_seed": 1})
    ]
    assert read[0].dtype == np.float32
    assert (read[0] == read[1]).all()
    assert (read[0] != read[2]).any()
    assert (read[0] != read[3]).any()


def test_readings_do_not_depend_on_the_number_of_threads():
    threads = cv2.getNumThreads()
    try:
        read = []
        for count in (1, 2):
            cv2.setNumThreads(count)
            read.append(measure_active_stereo(VIEW, board(), D415))
    finally:
        cv2.setNumThreads(threads)
    assert (read[0] == read[1]).all()
