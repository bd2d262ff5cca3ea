"""The visible surface discrepancy of boards, and depth against rays."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.metrics.surface_discrepancy import VSD_TAUS, compute_vsd, rasterize_depth

CAMERA = np.array([[50.0, 0, 20], [0, 55, 15], [0, 0, 1]])
WIDTH, HEIGHT = 40, 30


def at(z, x=0.0):
    pose = np.eye(4)
    pose[:3, 3] = x, 0, z
    return pose


BOARD = np.array(
    [
        [[-0.1, -0.1, 0], [0.1, -0.1, 0], [0.1, 0.1, 0]],
        [[-0.1, -0.1, 0], [0.1, 0.1, 0], [-0.1, 0.1, 0]],
    ]
)


def board(pose):
    return rasterize_depth(BOARD, pose, CAMERA, WIDTH, HEIGHT)


def test_depth_is_that_of_rays():
    rng = np.random.default_rng(0)
    triangles = rng.normal(size=(40, 3, 3)) * 0.15
    pose = at(1.0)
    pose[:3, :3] = Rotation.from_rotvec([0.3, -0.5, 1.0]).as_matrix()
    depth = rasterize_depth(triangles, pose, CAMERA, WIDTH, HEIGHT)
    corners = triangles @ pose[:3, :3].T + pose[:3, 3]
    for y in range(HEIGHT):
        for x in range(WIDTH):
            ray = np.linalg.solve(CAMERA, [x, y, 1.0])  # its third number is 1: t is the depth
            hits = [0.0]
            for a, b, c in corners:
                t, u, v = np.linalg.solve(np.stack([ray, a - b, a - c], axis=1), a)
                if u >= 0 and v >= 0 and u + v <= 1:
                    hits.append(t)
            expected = min(hits[1:], default=0.0)
            assert depth[y, x] == pytest.approx(expected, abs=1e-9), (x, y)


def test_what_is_behind_the_camera_or_beside_the_picture_is_not_drawn():
    assert not board(at(-1.0)).any()
    assert not board(at(1.0, x=3.0)).any()
    assert (board(at(0.05)) > 0).all()


def test_edge_on_triangles_are_not_drawn():
    """Their projection has no area, up to rounding; dividing by it would warn."""
    edge = np.array([[[-0.1, -0.1, 0], [0.1, 0.1, 0], [0.3, 0.3, 0]]])
    assert not rasterize_depth(edge, at(1.0), CAMERA, WIDTH, HEIGHT).any()
    together = rasterize_depth(np.concatenate([BOARD, edge]), at(1.0), CAMERA, WIDTH, HEIGHT)
    assert (together == board(at(1.0))).all()


def test_the_same_pose_has_no_discrepancy():
    depth = board(at(1.0))
    assert not compute_vsd(depth, depth, depth, CAMERA, 0.2).any()
    unknown = np.zeros_like(depth)
    assert not compute_vsd(unknown, depth, depth, CAMERA, 0.2).any()


def test_a_shift_along_the_axis_counts_from_its_tau_on():
    truth, found = board(at(1.0)), board(at(0.96))  # 0.04 m is 0.2 of the diameter, on the axis
    truth, found = truth * (found > 0), found * (truth > 0)
    errors = compute_vsd(truth, truth, found, CAMERA, 0.2)
    np.testing.assert_array_equal(errors[VSD_TAUS < 0.19], 1)
    np.testing.assert_array_equal(errors[VSD_TAUS > 0.21], 0)


def test_pixels_of_one_pose_alone_are_wrong():
    truth, found = board(at(1.0)), board(at(1.0, x=0.1))
    either, both = ((truth > 0) | (found > 0)).sum(), ((truth > 0) & (found > 0)).sum()
    assert both > 0
    errors = compute_vsd(np.zeros_like(truth), truth, found, CAMERA, 0.2)
    np.testing.assert_allclose(errors, 1 - both / either)


def test_what_is_hidden_in_both_poses_does_not_count():
    truth, found = board(at(1.0)), board(at(1.0, x=0.1))
    hidden = np.full_like(truth, 0.5)
    assert (compute_vsd(hidden, truth, found, CAMERA, 0.2) == 1).all()  # nothing of either is seen
    half = np.where(np.arange(WIDTH) < 21, 0.5, 0.0) * np.ones((HEIGHT, 1))
    errors = compute_vsd(half, truth, found, CAMERA, 0.2)
    right = np.arange(WIDTH) >= 21
    a, b = (truth > 0) & right, (found > 0) & right
    np.testing.assert_allclose(errors, 1 - (a & b).sum() / (a | b).sum())
