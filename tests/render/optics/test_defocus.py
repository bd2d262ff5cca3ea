"""Defocus against the thin lens: its formula, and pictures through many points of its aperture."""

from dataclasses import replace

import numpy as np
import pytest

from sim2cam.geometry.poses import Pose
from sim2cam.render.optics.defocus import (
    MAX_RADIUS_PX,
    apply_defocus,
    compute_blur_radius,
    make_disk_kernel,
)
from sim2cam.render.renderer import Stage
from sim2cam.scene.lens_effects import Defocus


@pytest.mark.parametrize("f_m", [0.004, 0.025, 0.05])
@pytest.mark.parametrize(("depth_m", "focus_m"), [(0.3, 0.5), (2.0, 0.5), (0.4, 0.4)])
def test_a_disk_is_as_wide_as_a_thin_lens_makes_it(f_m, depth_m, focus_m):
    """The formula of textbooks, in metres on a sensor whose pixels are 5 um wide."""
    aperture_m, pixel_m = 0.003, 5e-6
    wanted = aperture_m * f_m * abs(depth_m - focus_m) / (depth_m * (focus_m - f_m)) / pixel_m / 2
    behind_m = f_m * focus_m / (focus_m - f_m)  # where the sensor stands: 1/f = 1/s + 1/v
    found = compute_blur_radius(
        np.array([[depth_m]]), Defocus(aperture_m, focus_m), behind_m / pixel_m
    )
    assert abs(found.item()) == pytest.approx(min(wanted, MAX_RADIUS_PX), rel=1e-5, abs=1e-6)
    assert np.sign(found.item()) == np.sign(depth_m - focus_m)


def test_nothing_is_infinitely_far():
    far, nothing = compute_blur_radius(np.array([1e9, 0.0]), Defocus(0.01, 0.5), 500.0)
    assert nothing == pytest.approx(far)
    assert nothing == pytest.approx(5.0)


@pytest.mark.parametrize("radius", [0.5, 0.7, 1.5, 3.2, 12.0])
def test_a_disk_is_whole_round_and_as_wide_as_it_says(radius):
    shares = make_disk_kernel(radius)
    n = len(shares)
    assert shares.shape == (n, n)
    assert shares.sum() == pytest.approx(1, abs=1e-5)
    assert np.allclose(shares, shares.T)
    assert np.allclose(shares, shares[::-1])
    variance = (shares.sum(axis=0) * (np.arange(n) - n // 2) ** 2).sum()
    assert variance == pytest.approx(radius**2 / 4, abs=0.12)  # a disk's, within a pixel's


@pytest.mark.parametrize("radius", [-2.0, 3.0, 6.3, 20.0])
def test_an_edge_is_as_wide_as_the_disk(radius):
    light = np.zeros((90, 120, 3), np.float32)
    light[:, 60:] = 1.0
    spread = np.diff(apply_defocus(light, np.full((90, 120), radius, np.float32))[45, :, 1])
    middle = (spread * np.arange(119)).sum()
    width = np.sqrt((spread * (np.arange(119) - middle) ** 2).sum())
    assert spread.sum() == pytest.approx(1, abs=1e-4)
    assert width == pytest.approx(np.sqrt(radius**2 / 4 + 1 / 12), rel=0.07)  # layers are steps


def test_what_is_in_focus_keeps_its_bytes():
    light = np.random.default_rng(0).uniform(0, 1, (20, 30, 3)).astype(np.float32)
    assert apply_defocus(light, np.full((20, 30), 0.2, np.float32)) is light


def test_a_flat_image_stays_flat_however_deep_it_is():
    radius = np.linspace(-9, 9, 80 * 100, dtype=np.float32).reshape(80, 100)
    radius[30:50, 40:60] = -4.0
    flat = apply_defocus(np.full((80, 100, 3), 0.3, np.float32), radius)
    assert np.allclose(flat, 0.3, atol=1e-4)


def test_a_sharp_body_takes_nothing_from_what_is_blurred_behind_it():
    light = np.full((60, 60, 3), 1.0, np.float32)
    light[20:40, 20:40] = 0.0
    radius = np.full((60, 60), 6.0, np.float32)
    radius[20:40, 20:40] = 0.0
    found = apply_defocus(light, radius)
    assert found[20:40, 20:40].max() < 1e-4
    assert found[5:15].min() > 0.99
    assert found[18:20, 25:35].min() > 0.8  # nor does its darkness reach out


def test_a_blurred_body_is_transparent_on_both_sides_of_its_edge():
    light = np.full((60, 80, 3), 1.0, np.float32)
    light[:, :40] = 0.0
    radius = np.where(light[..., 0] > 0, 0.0, -6.0).astype(np.float32)
    row = apply_defocus(light, radius)[30, :, 0]
    assert row[:32].max() < 1e-3
    assert row[48:].min() > 0.999
    assert (np.diff(row[33:47]) > 0).all()
    assert row[39:41].mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("aperture_m", "focus_m", "most"),
    [(0.02, 0.46, 0.33), (0.02, 0.25, 0.3), (0.03, 0.33, 0.5)],
    ids=["far", "near", "mid"],
)
def test_it_is_what_many_points_of_an_aperture_see(make, egl, aperture_m, focus_m, most):
    """A camera that moves over its aperture, its sensor shifted so that the focus stays put."""
    focal = 220.0
    of = make.camera(
        (0.0, -0.1, 0.45), width=160, height=120, focal_px=focal, cx_px=79.5, cy_px=59.5
    )
    stage = Stage(
        make.scene(
            make.ground(),
            make.body("die/0", make.die(0.03), (0.0, 0.0, 0.1)),
            make.body("die/1", make.die(0.03), (0.05, -0.02, 0.015)),
            make.body("die/2", make.die(0.03), (-0.05, 0.03, 0.2), make.GREY),
        ),
        egl,
    )
    straight = make.view(of)
    sharp = stage.render(straight, ("radiance", "depth_m"))
    points = [(x, y) for x in np.linspace(-0.9, 0.9, 7) for y in np.linspace(-0.9, 0.9, 7)]
    inside = [(aperture_m / 2 * x, aperture_m / 2 * y) for x, y in points if x * x + y * y <= 1]
    seen = [
        stage.render(
            replace(
                straight,
                pose=straight.pose @ Pose(position_m=(x, y, 0.0)),
                cx_px=straight.cx_px + focal * x / focus_m,
                cy_px=straight.cy_px + focal * y / focus_m,
            ),
            ("radiance",),
        )["radiance"]
        for x, y in inside
    ]
    truth = np.mean(seen, axis=0)
    radius = compute_blur_radius(sharp["depth_m"], Defocus(aperture_m, focus_m), focal)
    left = np.abs(apply_defocus(sharp["radiance"], radius) - truth).mean()
    assert left < most * np.abs(sharp["radiance"] - truth).mean()
