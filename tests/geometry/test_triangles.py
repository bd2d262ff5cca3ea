import numpy as np
import pytest

from sim2cam.geometry.triangles import project_triangles, rasterize_triangles

MATRIX = np.array([[100.0, 0, 20], [0, 100, 10], [0, 0, 1]])


@pytest.mark.parametrize("seed", range(5))
def test_a_pixel_is_covered_where_its_middle_is(seed):
    corners = np.random.default_rng(seed).uniform(-15, 45, (6, 3, 2))
    y, x = np.mgrid[-3:21, -5:33]
    inside = np.zeros(x.shape, bool)
    for a, b, c in corners:
        sides = [
            (q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0])
            for p, q in ((a, b), (b, c), (c, a))
        ]
        inside |= np.all(np.array(sides) >= 0, axis=0) | np.all(np.array(sides) <= 0, axis=0)
    assert np.array_equal(rasterize_triangles(corners, (-5, -3, 33, 21)), inside)


def test_a_level_triangle_and_none_cover_what_they_touch():
    level = np.array([[[2.0, 1.0], [5.0, 1.0], [3.0, 1.0]]])
    assert not rasterize_triangles(level, (0, 0, 8, 4)).any()
    assert not rasterize_triangles(np.zeros((0, 3, 2)), (0, 0, 8, 4)).any()


def test_sides_that_triangles_share_leave_no_gap():
    square = np.array([[[2.0, 1.0], [6.0, 1.0], [6.0, 3.0]], [[2.0, 1.0], [6.0, 3.0], [2.0, 3.0]]])
    found = rasterize_triangles(square, (0, 0, 8, 4))
    assert np.argwhere(found).tolist() == [[y, x] for y in (1, 2, 3) for x in range(2, 7)]


def test_a_mesh_is_seen_where_a_pinhole_projects_it():
    points = np.array([[0.0, 0, 1], [0.1, 0, 1], [0, 0.2, 2]])
    found = project_triangles(points, np.array([[0, 1, 2]]), MATRIX)
    assert found == pytest.approx(np.array([[[20, 10], [30, 10], [20, 20]]]))


def test_what_lies_behind_the_camera_is_cut_off():
    points = np.array([[-1.0, 1, -1], [1, 1, -1], [1, 1, 3], [-1, 1, 3]])  # a floor underfoot
    corners = project_triangles(points, np.array([[0, 1, 2], [0, 2, 3]]), MATRIX)
    assert np.isfinite(corners).all()
    found = rasterize_triangles(corners, (0, 0, 41, 200))
    horizon = 10 + 100 / 3  # of its far end
    assert not found[: int(horizon) + 1].any()
    assert found[int(horizon) + 1 :, 20].all()
