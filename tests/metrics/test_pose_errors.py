"""Pose errors against values known by hand and sums written out."""

import itertools
import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.metrics.pose_errors import (
    compute_add,
    compute_add_s,
    compute_mspd,
    compute_mssd,
    compute_symmetry_transforms,
)

CAMERA = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
CUBE = np.array(list(itertools.product((-0.05, 0.05), repeat=3)))
NONE = compute_symmetry_transforms([], [])
RING = (
    np.array([(math.cos(a), math.sin(a), 0) for a in np.linspace(0, 2 * math.pi, 629)[:-1]]) * 0.05
)


def pose(position=(0, 0, 1), turn=(0, 0, 0)):
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_rotvec(turn).as_matrix()
    matrix[:3, 3] = position
    return matrix


def random_pose(rng):
    return pose(rng.uniform((-0.1, -0.1, 0.5), (0.1, 0.1, 1)), rng.normal(size=3))


def test_what_lies_in_the_cameras_plane_is_not_seen():
    point = np.zeros((1, 3))
    assert compute_mspd(pose((0, 0, 0)), pose(), point, NONE, CAMERA) == math.inf


def test_turns_about_an_axis_are_found_within_a_step():
    axis, point = np.array([0, 0, 2.0]), np.array([0.02, 0, 0])
    ring = RING + point
    symmetries = compute_symmetry_transforms([], [(axis, point)])
    assert len(symmetries) == 315  # a circle of pi diameters in steps of at most a hundredth of one
    assert np.array_equal(symmetries[0], np.eye(4))
    about = pose(point) @ pose((0, 0, 0), (0, 0, 1.0)) @ pose(-point)
    found = pose((0, 0, 1)) @ about
    assert compute_mssd(found, pose((0, 0, 1)), ring, NONE) > 0.04
    assert compute_mssd(found, pose((0, 0, 1)), ring, symmetries) <= 0.01 * 0.1 / 2 + 1e-9
    moved = np.concatenate([symmetry[:3, :3] @ point + symmetry[:3, 3] for symmetry in symmetries])
    np.testing.assert_allclose(moved.reshape(-1, 3), np.tile(point, (315, 1)), atol=1e-12)


def test_single_symmetries_and_turns_go_together():
    flip = pose((0, 0, 0.01), (math.pi, 0, 0))
    both = compute_symmetry_transforms([flip], [(np.array([0, 0, 1.0]), np.zeros(3))])
    assert len(both) == 2 * 315
    turned_after = pose((0, 0, 0), (0, 0, 2 * math.pi * 7 / 315)) @ flip
    assert min(np.abs(both - turned_after).max(axis=(1, 2))) < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_against_sums_written_out(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(30, 3)) * 0.03
    found, truth = random_pose(rng), random_pose(rng)
    symmetries = np.stack([np.eye(4), random_pose(rng)])

    def place(matrix, p):
        return [sum(matrix[i][k] * p[k] for k in range(3)) + matrix[i][3] for i in range(3)]

    def see(matrix, p):
        x, y, z = place(matrix, p)
        return 500 * x / z + 320, 510 * y / z + 240

    chosen = [truth @ s for s in symmetries]
    expected = min(max(math.dist(place(found, p), place(t, p)) for p in points) for t in chosen)
    assert compute_mssd(found, truth, points, symmetries) == pytest.approx(expected)
    expected = min(max(math.dist(see(found, p), see(t, p)) for p in points) for t in chosen)
    assert compute_mspd(found, truth, points, symmetries, CAMERA) == pytest.approx(expected)
    apart = [math.dist(place(found, p), place(truth, p)) for p in points]
    assert compute_add(found, truth, points) == pytest.approx(sum(apart) / 30)
    nearest = [min(math.dist(place(found, q), place(truth, p)) for q in points) for p in points]
    assert compute_add_s(found, truth, points) == pytest.approx(sum(nearest) / 30)
