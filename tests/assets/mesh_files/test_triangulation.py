"""Polygons from files: triangles cover them once, whatever their shape."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim2cam.assets.mesh_files.triangulation import triangulate

U = [(0, 0), (3, 0), (3, 3), (2, 3), (2, 1), (1, 1), (1, 3), (0, 3)]
DART = [(0, 0), (2, 1), (0, 2), (0.5, 1)]


def across(corners):
    a, b, c = np.moveaxis(corners, 1, 0)
    return np.cross(b - a, c - a)


def covers(places, triangles, tolerance=1e-9):
    """Whether triangles cover a flat polygon (n, 3) once: all face its way, and their areas add up."""
    moved = places - places[0]
    normal = np.cross(moved[1:-1], moved[2:]).sum(axis=0)
    area = np.linalg.norm(normal)
    found = across(places[triangles]) @ normal / area
    return (found > -tolerance * area).all() and np.isclose(found.sum(), area)


@pytest.mark.parametrize("flat", [U, DART], ids=["u", "dart"])
def test_concave_polygons_keep_their_notch_from_any_corner(flat):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    for start in range(len(flat)):
        for step in (1, -1):
            ring = np.roll(np.array(flat, float), start, axis=0)[::step]
            places = np.column_stack([ring, np.zeros(len(ring))]) @ turn + 5
            triangles, owner = triangulate(places, np.array([len(ring)]))
            assert len(triangles) == len(ring) - 2
            assert (owner == 0).all()
            assert covers(places, triangles)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.floats(0.2, 1.0), min_size=3, max_size=30), st.integers(0, 2**32 - 1))
def test_stars_of_any_radii_are_covered(radii, seed):
    angles = np.arange(len(radii)) * 2 * np.pi / len(radii)
    ring = np.array(radii)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    places = np.column_stack([ring, np.zeros(len(ring))]) @ turn
    triangles, _ = triangulate(places, np.array([len(ring)]))
    assert len(triangles) == len(ring) - 2
    assert covers(places, triangles, 1e-7)


@pytest.mark.parametrize("start", range(6))
def test_corners_on_an_edge_leave_no_gap(start):
    ring = np.roll([(0, 0), (1, 0), (2, 0), (2, 2), (1, 2), (0, 2)], start, axis=0)
    places = np.column_stack([ring, np.zeros(6)])
    triangles, _ = triangulate(places, np.array([6]))
    assert covers(places, triangles)
    assert (across(places[triangles])[:, 2] > 0.5).all()


def test_convex_polygons_are_fans_in_the_order_of_the_file():
    ring = [(np.cos(a), np.sin(a), 0.0) for a in np.arange(6)]
    places = np.array([*ring[:3], *ring, *ring[:4]])
    triangles, owner = triangulate(places, np.array([3, 6, 4]))
    assert owner.tolist() == [0, 1, 1, 1, 1, 2, 2]
    assert triangles[:5].tolist() == [[0, 1, 2], [3, 4, 5], [3, 5, 6], [3, 6, 7], [3, 7, 8]]
    assert triangles[5:].tolist() == [[9, 10, 11], [9, 11, 12]]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, 0.0])
def test_degenerate_polygons_are_triangulated(bad):
    places = np.array([(bad * x, bad * y, 0.0) for x, y in U])
    triangles, _ = triangulate(places, np.array([8]))
    assert triangles.shape == (6, 3)
    assert triangles.max() < 8
