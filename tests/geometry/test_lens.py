"""Lenses agree with OpenCV, invert exactly, and refuse what they cannot see."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sim2cam.geometry.lens import BrownConrady

PINHOLE = BrownConrady(600.0, 590.0, 319.5, 239.5)
BARREL = BrownConrady(560.2, 561.3, 651.2, 499.0, -0.2328, 0.0616, -1e-4, 1e-4, -0.0075)
PINCUSHION = BrownConrady(800.0, 800.0, 320.0, 240.0, 0.18, 0.05, 1e-3, -2e-3, 0.01)
FOLDING = BrownConrady(500.0, 500.0, 320.0, 240.0, k1=-0.5)
TWICE_FOLDING = BrownConrady(500.0, 500.0, 320.0, 240.0, k1=-0.8, k2=0.25)
LENSES = pytest.mark.parametrize("lens", [PINHOLE, BARREL, PINCUSHION], ids=str)

small = st.floats(-0.002, 0.002)
lenses = st.builds(
    BrownConrady,
    st.floats(200, 2000),
    st.floats(200, 2000),
    st.floats(0, 1000),
    st.floats(0, 1000),
    k1=st.floats(-0.4, 0.4),
    k2=st.floats(-0.2, 0.2),
    p1=small,
    p2=small,
    k3=st.floats(-0.05, 0.05),
)


def points_before(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    depth = rng.uniform(0.2, 4.0, (count, 1))
    return np.concatenate([rng.uniform(-0.5, 0.5, (count, 2)) * depth, depth], axis=1)


@LENSES
def test_project_agrees_with_opencv(lens):
    points = points_before(500)
    expected, _ = cv2.projectPoints(
        points, np.zeros(3), np.zeros(3), lens.matrix(), lens.coefficients()
    )
    assert np.abs(lens.project(points) - expected[:, 0]).max() < 1e-6


@LENSES
def test_unproject_agrees_with_opencv(lens):
    pixels = lens.project(points_before(500))
    exactly = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 500, 1e-12)
    expected = cv2.undistortPoints(
        pixels[:, None], lens.matrix(), lens.coefficients(), criteria=exactly
    )
    assert np.abs(lens.unproject(pixels) - expected[:, 0]).max() * lens.fx_px < 0.01


@given(lens=lenses, seed=st.integers(0, 1000))
def test_unproject_is_the_inverse_of_project(lens, seed):
    rays = np.random.default_rng(seed).uniform(-0.5, 0.5, (50, 2))
    reach = np.linspace(0, 0.71, 50)[1:]
    slope = 1 + reach**2 * (3 * lens.k1 + reach**2 * (5 * lens.k2 + reach**2 * 7 * lens.k3))
    assume(slope.min() > 0.1)
    pixels = lens.project(np.c_[rays, np.ones(50)])
    assert np.abs(lens.unproject(pixels) - rays).max() < 1e-6


@given(lens=lenses, x=st.floats(-1e5, 1e5), y=st.floats(-1e5, 1e5))
def test_a_pixel_is_met_or_refused(lens, x, y):
    pixel = np.array([[x, y]])
    try:
        ray = lens.unproject(pixel)
    except ValueError as error:
        assert "outside the domain" in str(error)  # noqa: PT017
        return
    assert np.abs(lens.project(np.c_[ray, 1.0]) - pixel).max() < 1e-3


def test_one_bad_pixel_is_the_one_that_is_named():
    pixels = np.array([[320.0, 240.0], [100.0, 90.0], [10_000.0, 240.0]])
    with pytest.raises(ValueError, match=r"^pixel \(10000\.0, 240\.0\) lies outside the domain of"):
        FOLDING.unproject(pixels)


def test_beyond_the_fold_is_refused_even_where_a_second_branch_has_an_answer():
    radius_m = 3.0
    pixel = TWICE_FOLDING.project(np.array([[radius_m, 0.0, 1.0]]))
    with pytest.raises(ValueError, match="the distortion folds back there"):
        TWICE_FOLDING.unproject(pixel)


def test_pixels_up_to_the_fold_are_met():
    fold = np.sqrt(1 / 1.5)  # where d(r - r^3 / 2)/dr = 0
    rays = np.array([[0.999 * fold, 0.0], [0.0, -0.99 * fold]])
    met = FOLDING.unproject(FOLDING.project(np.c_[rays, np.ones(2)]))
    assert met == pytest.approx(rays, abs=1e-6)


def test_a_pinhole_is_its_matrix():
    points = points_before(20)
    homogeneous = points @ PINHOLE.matrix().T
    assert PINHOLE.project(points) == pytest.approx(homogeneous[:, :2] / homogeneous[:, 2:])
    assert PINHOLE.is_pinhole()
    assert not BARREL.is_pinhole()


def test_no_pixels_give_no_rays():
    assert BARREL.unproject(np.zeros((0, 2))).shape == (0, 2)


def test_the_derivative_agrees_with_finite_differences():
    rays, step = np.random.default_rng(1).uniform(-0.5, 0.5, (40, 2)), 1e-6
    xx, xy, yy = BARREL._jacobian(rays)
    for shift, expected in ((np.array([step, 0]), (xx, xy)), (np.array([0, step]), (xy, yy))):
        slope = (BARREL._distort(rays + shift) - BARREL._distort(rays - shift)) / (2 * step)
        assert np.stack(expected, 1) == pytest.approx(slope, abs=1e-8)
