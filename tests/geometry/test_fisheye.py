import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim2cam.errors import LensError
from sim2cam.geometry.lens import KannalaBrandt, RadialTable
from tests.support.errors import error_text

EQUIDISTANT = KannalaBrandt(200.0, 200.0, 319.5, 239.5)
MEASURED = KannalaBrandt(285.1, 286.4, 420.5, 400.2, -0.0137, 0.0207, -0.0127, 0.0025)
TURNING = KannalaBrandt(300.0, 300.0, 320.0, 240.0, k1=-0.1)  # back at sqrt(1 / 0.3) rad
SHORT = RadialTable(320.0, 240.0, (0.0, 0.4, 0.9, 1.6), (0.0, 150.0, 320.0, 500.0))
LENSES = pytest.mark.parametrize(
    "lens", [EQUIDISTANT, MEASURED, TURNING, SHORT],
    ids=["equidistant", "measured", "turning", "table"],
)  # fmt: skip


def table_of(widths, heights, limit):
    count = min(len(widths), len(heights))
    angles = np.cumsum(widths[:count])
    angles = np.minimum(angles * (limit / angles[-1]), math.pi)
    radii = np.cumsum(heights[:count]) * 300
    return RadialTable(320.0, 240.0, (0.0, *angles.tolist()), (0.0, *radii.tolist()))


coefficients = st.floats(-0.02, 0.02)
polynomials = st.builds(
    KannalaBrandt,
    st.floats(100, 1000),
    st.floats(100, 1000),
    st.floats(-500, 1500),
    st.floats(-500, 1500),
    *[coefficients] * 4,
)
rises = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12)
tables = st.builds(table_of, rises, rises, st.floats(0.2, math.pi))


def rays_within(limit_rad, count, seed=0):
    """Unit rays all over a cap around the axis."""
    rng = np.random.default_rng(seed)
    angle, turn = rng.uniform(0, limit_rad, count), rng.uniform(0, 2 * math.pi, count)
    sine = np.sin(angle)
    return np.stack([sine * np.cos(turn), sine * np.sin(turn), np.cos(angle)], axis=1)


def of_opencv(lens, points):
    zero = np.zeros((1, 3))
    projected, _ = cv2.fisheye.projectPoints(
        points[:, None], zero, zero, lens.matrix(), lens.coefficients()
    )
    return projected[:, 0]


@pytest.mark.parametrize("seed", range(40))
def test_random_coefficients_agree_with_opencv(seed):
    rng = np.random.default_rng(seed)
    lens = KannalaBrandt(
        *rng.uniform(100, 1000, 2).tolist(),
        *rng.uniform(-500, 1500, 2).tolist(),
        *(rng.uniform(-1, 1, 4) * [0.1, 0.03, 0.02, 0.005]).tolist(),
    )
    points = rays_within(min(1.5, lens.get_max_angle_rad()), 300, seed) * rng.uniform(
        0.2, 4, (300, 1)
    )
    pixels = lens.project(points)
    assert np.abs(pixels - of_opencv(lens, points)).max() < 1e-8
    rays = lens.unproject(pixels)
    assert np.abs(rays - points / np.linalg.norm(points, axis=1)[:, None]).max() < 1e-6
    exactly = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 1000, 1e-14)
    theirs = cv2.fisheye.undistortPoints(
        pixels[:, None], lens.matrix(), lens.coefficients(), criteria=exactly
    )[:, 0]
    theirs = np.c_[theirs, np.ones(300)]
    found = lens.can_project(theirs) & (np.abs(of_opencv(lens, theirs) - pixels).max(axis=1) < 1e-6)
    assert found.mean() > 0.8  # its iteration does not meet every pixel
    assert np.abs(lens.project(theirs[found]) - pixels[found]).max() < 1e-5


def test_known_angles_fall_on_known_pixels():
    angles = np.radians([0, 30, 90, 120, 179])
    points = np.stack([np.sin(angles), 0 * angles, np.cos(angles)], axis=1)
    pixels = EQUIDISTANT.project(3.7 * points)
    assert pixels[:, 0] == pytest.approx(319.5 + 200 * angles)
    assert pixels[:, 1] == pytest.approx(np.full(5, 239.5))
    bent = MEASURED.project(points[3:4])[0, 0]
    t = angles[3]
    expected = t - 0.0137 * t**3 + 0.0207 * t**5 - 0.0127 * t**7 + 0.0025 * t**9
    assert bent == pytest.approx(420.5 + 285.1 * expected)


@LENSES
def test_rays_beside_and_behind_come_back(lens):
    rays = rays_within(0.999 * lens.get_max_angle_rad(), 500)
    assert lens is TURNING or lens.get_max_angle_rad() > math.pi / 2
    pixels = lens.project(2.5 * rays)
    assert lens.unproject(pixels) == pytest.approx(rays, abs=1e-9)


@given(lens=polynomials, seed=st.integers(0, 1000))
def test_unproject_is_the_inverse_of_project(lens, seed):
    pixels = lens.project(rays_within(lens.get_max_angle_rad() * (1 - 1e-9), 50, seed))
    assert np.abs(lens.project(lens.unproject(pixels)) - pixels).max() < 1e-6


@given(lens=tables, seed=st.integers(0, 1000))
def test_tables_invert(lens, seed):
    pixels = lens.project(rays_within(lens.get_max_angle_rad() * (1 - 1e-9), 50, seed))
    assert np.abs(lens.project(lens.unproject(pixels)) - pixels).max() < 1e-6


@given(lens=polynomials, x=st.floats(-1e4, 1e4), y=st.floats(-1e4, 1e4))
def test_a_pixel_is_met_or_refused(lens, x, y):
    pixel = np.array([[x, y]])
    try:
        ray = lens.unproject(pixel)
    except LensError as error:
        assert "outside the domain" in str(error)  # noqa: PT017
        return
    assert np.linalg.norm(ray) == pytest.approx(1)
    assert np.abs(lens.project(ray) - pixel).max() < 1e-3


@LENSES
def test_the_derivative_agrees_with_finite_differences(lens):
    angles, step = np.linspace(0.01, 0.99 * lens.get_max_angle_rad(), 50), 1e-6
    _, slope = lens._compute_radius(angles)
    after, before = (lens._compute_radius(angles + off)[0] for off in (step, -step))
    assert slope == pytest.approx((after - before) / (2 * step), rel=1e-6, abs=1e-6)


def test_the_principal_point_looks_along_the_axis():
    for lens in (EQUIDISTANT, SHORT):
        centre = np.array([[lens.cx_px, lens.cy_px]])
        assert lens.unproject(centre).tolist() == [[0.0, 0.0, 1.0]]
        assert lens.project(np.array([[0.0, 0.0, 2.0]])).tolist() == centre.tolist()


def test_a_table_of_an_equidistant_lens_is_that_lens():
    angles = np.linspace(0, 2.1, 8)
    table = RadialTable(319.5, 239.5, tuple(angles.tolist()), tuple((200 * angles).tolist()))
    rays = rays_within(2.1 * (1 - 1e-12), 400)
    assert np.abs(table.project(rays) - EQUIDISTANT.project(rays)).max() < 1e-9
    pixels = EQUIDISTANT.project(rays)
    assert np.abs(table.unproject(pixels) - EQUIDISTANT.unproject(pixels)).max() < 1e-9


def test_a_table_of_two_entries_is_a_straight_line():
    table = RadialTable(0.0, 0.0, (0.0, 1.0), (0.0, 300.0))
    point = np.array([[math.sin(0.25), 0.0, math.cos(0.25)]])
    assert table.project(point) == pytest.approx(np.array([[75.0, 0.0]]))


def test_a_fine_table_of_a_measured_lens_is_near_it():
    lens = KannalaBrandt(285.0, 285.0, 420.5, 400.2, -0.0137, 0.0207, -0.0127, 0.0025)
    angles = np.radians(np.arange(0, 101))  # makers give one entry a degree
    radii = 285.0 * lens._compute_radius(angles)[0]
    table = RadialTable(420.5, 400.2, tuple(angles.tolist()), tuple(radii.tolist()))
    rays = rays_within(math.radians(100), 400)
    assert np.abs(table.project(rays) - lens.project(rays)).max() < 0.01


REFUSED = [
    (
        TURNING, "project", [[1.0, 0.0, -1.0]],
        "point (1, 0, -1) is 135.0 degrees off the axis of the lens: the distortion folds back 104.6 degrees off the axis. Remove points outside the field of view.",
    ),
    (
        TURNING, "unproject", [[320.0, 700.0]],
        "pixel (320.0, 700.0) is outside the domain of the lens: the "
        "distortion folds back 104.6 degrees off the axis. Use a smaller image or a lens with less distortion.",
    ),
    (
        EQUIDISTANT, "unproject", [[319.5, 239.5], [1000.0, 239.5]],
        "pixel (1000.0, 239.5) is outside the domain of the lens: it covers 180.0 degrees off the axis. Use a smaller image or a lens with less distortion.",
    ),
    (
        EQUIDISTANT, "project", [[0.0, 0.0, -2.0]],
        "point (0, 0, -2) is 180.0 degrees off the axis of the lens: it covers 180.0 degrees off the axis. "
        "Remove points outside the field of view.",
    ),
    (
        SHORT, "unproject", [[820.5, 240.0]],
        "pixel (820.5, 240.0) is outside the domain of the lens: its table ends 91.7 degrees off the axis, 500.0 px from the principal point. Use "
        "a smaller image or a lens with less distortion.",
    ),
    (
        SHORT, "project", [[0.0, 1.0, -1.0]],
        "point (0, 1, -1) is 135.0 degrees off the axis of the lens: its table ends 91.7 degrees off the axis, 500.0 px from the principal point. "
        "Remove points outside the field of view.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("lens", "verb", "places", "text"), REFUSED)
def test_what_lies_outside_the_domain_is_refused(lens, verb, places, text):
    assert error_text(lambda: getattr(lens, verb)(np.array(places)), error=LensError) == text


def test_the_edge_itself_is_seen():
    edge = np.array([[math.sin(1.6), 0.0, math.cos(1.6)]])
    assert SHORT.project(edge) == pytest.approx(np.array([[820.0, 240.0]]))
    assert SHORT.unproject(np.array([[820.0, 240.0]])) == pytest.approx(edge)
    nowhere = np.array([[0.0, 0.0, 0.0], [np.nan, 0.0, 1.0]])
    assert not SHORT.can_project(nowhere).any()


NO_TABLES = [
    (
        (0.0, 1.0), (0.0,),
        "a radial table has 2 angles_rad and 1 radii_px. It needs equal numbers of both, at least 2.",
    ),
    (
        (0.0,), (0.0,),
        "a radial table has 1 angles_rad and 1 radii_px. It needs equal numbers of both, at least 2.",
    ),
    ((0.1, 1.0), (0.0, 9.0), "angles_rad of a radial table starts at 0.1. It must start at 0."),
    (
        (0.0, 1.0, 2.0), (0.0, 9.0, 9.0),
        "radii_px of a radial table goes from 9.0 to 9.0. It must be strictly increasing. Sort the table and remove duplicates.",
    ),
    (
        (0.0, 1.0), (0.0, math.nan),
        "radii_px of a radial table goes from 0.0 to nan. It must be strictly increasing. Sort the table and remove duplicates.",
    ),
    (
        (0.0, 3.2), (0.0, 9.0),
        "angles_rad of a radial table ends at 3.2, above pi. Give angles off the axis, in radians.",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("angles", "radii", "text"), NO_TABLES)
def test_what_is_no_table_is_refused(angles, radii, text):
    assert error_text(RadialTable, 0.0, 0.0, angles, radii, error=LensError) == text
