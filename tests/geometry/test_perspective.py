import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.errors import LensError
from sim2cam.geometry.lens import BrownConrady, Rational, ThinPrism
from tests.support.errors import error_text

PINHOLE = BrownConrady(600.0, 590.0, 319.5, 239.5)
BARREL = BrownConrady(560.2, 561.3, 651.2, 499.0, -0.2328, 0.0616, -1e-4, 1e-4, -0.0075)
PINCUSHION = BrownConrady(800.0, 800.0, 320.0, 240.0, 0.18, 0.05, 1e-3, -2e-3, 0.01)
FOLDING = BrownConrady(500.0, 500.0, 320.0, 240.0, k1=-0.5)
TWICE_FOLDING = BrownConrady(500.0, 500.0, 320.0, 240.0, k1=-0.8, k2=0.25)
WIDE = Rational(520.0, 521.0, 640.0, 360.0, 5.1, 2.1, 1e-4, -2e-4, 0.09, 5.4, 3.5, 0.5)
POLE = Rational(500.0, 500.0, 320.0, 240.0, k4=-1.0)
SKEW = ThinPrism(
    510.0, 512.0, 330.0, 250.0, -0.2, 0.03, 1e-3, -1e-3, 0.0, 0.05, 0.0, 0.0, 2e-3, -1e-3, -3e-3, 5e-4
)  # fmt: skip
LENSES = pytest.mark.parametrize(
    "lens", [PINHOLE, BARREL, PINCUSHION, WIDE, SKEW],
    ids=["pinhole", "barrel", "pincushion", "wide", "skew"],
)  # fmt: skip


def random_lens(seed):
    """One of the three models, with coefficients up to half of what any real lens has."""
    rng = np.random.default_rng(seed)
    matrix = [*rng.uniform(200, 2000, 2), *rng.uniform(-500, 1500, 2)]
    radial, small = rng.uniform(-0.1, 0.1, 6), rng.uniform(-0.004, 0.004, 6)
    k1, k2, k3, k4, k5, k6 = radial * [3, 2, 1, 1, 1, 1]
    p1, p2, *prism = small
    kind, more = [(BrownConrady, ()), (Rational, (k4, k5, k6)), (ThinPrism, (k4, k5, k6, *prism))][
        seed % 3
    ]
    return kind(*(float(v) for v in [*matrix, k1, k2, p1, p2, k3, *more]))


def points_before(count, seed=0):
    rng = np.random.default_rng(seed)
    depth = rng.uniform(0.2, 4.0, (count, 1))
    return np.concatenate([rng.uniform(-0.5, 0.5, (count, 2)) * depth, depth], axis=1)


def of_opencv(lens, points):
    zero = np.zeros(3)
    return cv2.projectPoints(points, zero, zero, lens.matrix(), lens.coefficients())[0][:, 0]


def rays_of_opencv(lens, pixels):
    exactly = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 1000, 1e-13)
    return cv2.undistortPoints(
        pixels[:, None], lens.matrix(), lens.coefficients(), criteria=exactly
    )[:, 0]


@LENSES
def test_it_agrees_with_opencv(lens):
    points = points_before(500)
    pixels = lens.project(points)
    assert np.abs(pixels - of_opencv(lens, points)).max() < 1e-9
    rays = lens.unproject(pixels)
    assert np.abs(rays[:, :2] / rays[:, 2:] - rays_of_opencv(lens, pixels)).max() < 1e-8


@pytest.mark.parametrize("seed", range(60))
def test_random_coefficients_agree_with_opencv(seed):
    lens, points = random_lens(seed), points_before(200, seed)
    points = points[lens.can_project(points)]
    assert len(points) > 100
    pixels = lens.project(points)
    assert np.abs(pixels - of_opencv(lens, points)).max() < 1e-9
    rays = lens.unproject(pixels)
    assert np.abs(rays - points / np.linalg.norm(points, axis=1)[:, None]).max() < 1e-9


@pytest.mark.parametrize("seed", range(60))
def test_rays_agree_with_those_of_opencv_where_it_finds_any(seed):
    lens, points = random_lens(seed), points_before(200, seed) * [0.5, 0.5, 1]
    pixels = lens.project(points)
    theirs = rays_of_opencv(lens, pixels)
    found = np.abs(theirs - points[:, :2] / points[:, 2:]).max(axis=1) < 1e-3
    assert found.mean() > 0.9  # its iteration does not meet every pixel of strong lenses
    rays = lens.unproject(pixels[found])
    off = np.abs(rays[:, :2] / rays[:, 2:] - theirs[found]) * [lens.fx_px, lens.fy_px]
    assert off.max() < 1e-6


def test_coefficients_are_in_opencv_s_order():
    assert BARREL.coefficients() == pytest.approx([-0.2328, 0.0616, -1e-4, 1e-4, -0.0075])
    assert WIDE.coefficients() == pytest.approx([5.1, 2.1, 1e-4, -2e-4, 0.09, 5.4, 3.5, 0.5])
    assert SKEW.coefficients()[8:] == pytest.approx([2e-3, -1e-3, -3e-3, 5e-4])


def test_larger_models_contain_the_smaller():
    given = (560.2, 561.3, 651.2, 499.0, -0.2328, 0.0616, -1e-4, 1e-4, -0.0075)
    points = points_before(100)
    for larger in (Rational(*given), ThinPrism(*given)):
        assert np.array_equal(larger.project(points), BARREL.project(points))


@given(seed=st.integers(0, 10_000))
def test_unproject_is_the_inverse_of_project(seed):
    lens, points = random_lens(seed), points_before(50, seed) * [1.5, 1.5, 1]
    points = points[lens.can_project(points)]
    pixels = lens.project(points)
    assert np.abs(lens.project(lens.unproject(pixels)) - pixels).max(initial=0) < 1e-6


@given(seed=st.integers(0, 10_000), x=st.floats(-1e5, 1e5), y=st.floats(-1e5, 1e5))
def test_a_pixel_is_met_or_refused(seed, x, y):
    lens, pixel = random_lens(seed), np.array([[x, y]])
    try:
        ray = lens.unproject(pixel)
    except LensError as error:
        assert "outside the domain" in str(error)  # noqa: PT017
        assert not lens.can_unproject(pixel).any()
        return
    assert lens.can_unproject(pixel).all()
    assert np.linalg.norm(ray) == pytest.approx(1)
    assert np.abs(lens.project(ray) - pixel).max() < 1e-3


@LENSES
def test_the_derivative_agrees_with_finite_differences(lens):
    x, y = np.random.default_rng(1).uniform(-0.5, 0.5, (2, 40))
    step = 1e-6
    xx, xy, yx, yy = lens._compute_jacobian(x, y)
    for shift, expected in (((step, 0), (xx, yx)), ((0, step), (xy, yy))):
        after = np.array(lens._distort(x + shift[0], y + shift[1]))
        before = np.array(lens._distort(x - shift[0], y - shift[1]))
        assert np.array(expected) == pytest.approx((after - before) / (2 * step), abs=1e-8)


def test_a_pinhole_is_its_matrix():
    points = points_before(20)
    homogeneous = points @ PINHOLE.matrix().T
    assert PINHOLE.project(points) == pytest.approx(homogeneous[:, :2] / homogeneous[:, 2:])
    assert PINHOLE.is_pinhole()
    assert not BARREL.is_pinhole()


def test_no_pixels_give_no_rays():
    assert BARREL.unproject(np.zeros((0, 2))).shape == (0, 3)
    assert BARREL.project(np.zeros((0, 3))).shape == (0, 2)


def test_many_pixels_are_like_few():
    pixels = np.random.default_rng(0).uniform(200, 900, (70_000, 2))
    rays = BARREL.unproject(pixels)
    assert np.array_equal(rays[-10:], BARREL.unproject(pixels[-10:]))


def test_pixels_up_to_the_fold_are_met():
    fold = np.sqrt(1 / 1.5)  # where d(r - r^3 / 2)/dr = 0
    points = np.array([[0.999 * fold, 0.0, 1.0], [0.0, -0.99 * fold, 1.0]])
    met = FOLDING.unproject(FOLDING.project(points))
    assert met == pytest.approx(points / np.linalg.norm(points, axis=1)[:, None], abs=1e-6)


REFUSED = [
    (
        FOLDING, "unproject", [[320.0, 240.0], [10_000.0, 240.0]],
        "pixel (10000.0, 240.0) is outside the domain of the lens: "
        "the distortion folds back 39.2 degrees off the axis. Use a smaller image or a lens with less distortion.",
    ),
    (
        FOLDING, "project", [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0]],
        "point (1, 0, 1) is 45.0 degrees off the axis of the lens: "
        "the distortion folds back 39.2 degrees off the axis. Remove points outside the field of view.",
    ),
    (
        PINHOLE, "project", [[0.1, 0.0, -1.0]],
        "point (0.1, 0, -1) is 174.3 degrees off the axis of the lens: it ends 90 degrees off the axis, or where tangential distortion "
        "folds back. Remove points outside the field of view.",
    ),
    (
        POLE, "project", [[1.0, 0.0, 1.0]],
        "point (1, 0, 1) is 45.0 degrees off the axis of the lens: the distortion folds back 45.0 degrees off the axis. Remove points outside the field of view.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("lens", "verb", "places", "text"), REFUSED)
def test_what_lies_outside_the_domain_is_refused(lens, verb, places, text):
    assert error_text(lambda: getattr(lens, verb)(np.array(places)), error=LensError) == text


def test_beyond_the_fold_is_refused_even_where_a_second_branch_has_an_answer():
    pixel = of_opencv(TWICE_FOLDING, np.array([[3.0, 0.0, 1.0]]))
    with pytest.raises(LensError, match="the distortion folds back 38"):
        TWICE_FOLDING.unproject(pixel)


def test_seen_is_what_lies_before_the_camera_and_the_fold():
    points = np.array(
        [[0.0, 0.0, 1.0], [0.5, 0.5, 1.0], [0.6, 0.6, 1.0], [0.0, 0.0, -1.0], [1, 0, 0]]
    )
    assert FOLDING.can_project(points).tolist() == [True, True, False, False, False]
    assert PINHOLE.can_project(points).tolist() == [True, True, True, False, False]
    assert not PINHOLE.can_project(np.array([[np.nan, np.nan, np.nan], [1.0, 1.0, 1e-310]])).any()
