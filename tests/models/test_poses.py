"""Corners of boxes give back the pose that they were seen from, through any lens."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from sim2cam.errors import UsageError
from sim2cam.geometry.boxes import corners_in_space
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational
from sim2cam.geometry.poses import Pose
from sim2cam.models.card import DetectorCard
from sim2cam.models.detector import Detector
from sim2cam.models.poses import predict_poses, solve_pose
from sim2cam.models.prediction import Corners, LoadedDetector

PINHOLE = BrownConrady(600.0, 610.0, 319.0, 241.0)
LENSES = {
    "pinhole": PINHOLE,
    "brown": BrownConrady(600.0, 610.0, 319.0, 241.0, -0.2, 0.05, 0.001, -0.002, 0.0),
    "rational": Rational(600.0, 610.0, 319.0, 241.0, 0.1, 0.01, k4=0.05),
    "fisheye": KannalaBrandt(200.0, 201.0, 319.0, 241.0, 0.01, -0.002),
}
BRICK = corners_in_space((-0.03, -0.02, -0.01), (0.03, 0.02, 0.05))  # its origin is not its middle
FLAT = corners_in_space((-0.044, -0.0315, -0.00015), (0.044, 0.0315, 0.00015))


def random_pose(rng, direction=(0.0, 0.0, 1.0), spread=0.3):
    ray = np.array(direction) + spread * rng.uniform(-1, 1, 3)
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.random(rng=rng).as_matrix()
    matrix[:3, 3] = rng.uniform(0.2, 1.5) * ray / np.linalg.norm(ray)
    return Pose.from_matrix(matrix)


def seen(pose, points, lens, spread_px=1.0):
    places = lens.project(pose.apply(points)) + 0.5  # boxes count from the pixel's corner
    return Corners(places, np.full(8, spread_px))


def moved(corners, index, offset, spread_px=None):
    places, spreads = corners.places.copy(), corners.spreads_px.copy()
    places[index] += offset
    if spread_px is not None:
        spreads[index] = spread_px
    return Corners(places, spreads)


def apart(found, truth, points):
    """The mean distance of points from where they should be (ADD)."""
    return np.linalg.norm(found.apply(points) - truth.apply(points), axis=1).mean()


@pytest.mark.parametrize("points", [BRICK, FLAT], ids=["brick", "card"])
@pytest.mark.parametrize("name", sorted(LENSES))
def test_exact_corners_give_the_pose_back(name, points):
    rng = np.random.default_rng(0)
    for _ in range(12):
        truth = random_pose(rng)
        found = solve_pose(seen(truth, points, LENSES[name]), points, LENSES[name])
        assert found.matrix() == pytest.approx(truth.matrix(), abs=1e-6)


@pytest.mark.parametrize("distance_m", [10.0, 40.0])
def test_what_is_far_away_has_a_pose_too(distance_m):
    """OpenCV's SQPNP refuses corners that are seen nearly at one place."""
    rng = np.random.default_rng(2)
    for _ in range(5):
        truth = Pose(random_pose(rng).rotation_wxyz, (0.1, -0.2, distance_m))
        found = solve_pose(seen(truth, BRICK, PINHOLE), BRICK, PINHOLE)
        assert found.position_m == pytest.approx(truth.position_m, rel=0.02, abs=1e-3 * distance_m)


def test_a_fisheye_places_what_lies_beside_the_camera():
    rng = np.random.default_rng(1)
    beside = 0
    for _ in range(20):
        truth = random_pose(rng, (1.0, 0.3, 0.0), spread=0.1)
        beside += truth.position_m[2] < 0
        found = solve_pose(seen(truth, BRICK, LENSES["fisheye"]), BRICK, LENSES["fisheye"])
        assert found.matrix() == pytest.approx(truth.matrix(), abs=1e-6)
    assert beside > 3


def test_with_equal_and_small_errors_it_is_the_pose_of_least_squares():
    rng = np.random.default_rng(2)
    square = BrownConrady(
        600.0, 600.0, 319.0, 241.0
    )  # errors count alike in pixels and on the plane
    for _ in range(8):
        truth = random_pose(rng, spread=0.02)
        exact = seen(truth, BRICK, square, spread_px=20.0)  # far above the errors: all count
        noisy = Corners(exact.places + rng.normal(0, 0.5, (8, 2)), exact.spreads_px)
        found = solve_pose(noisy, BRICK, square)
        known = (BRICK, noisy.places - 0.5, square.matrix(), None)
        start = cv2.Rodrigues(truth.matrix()[:3, :3])[0], np.array(truth.position_m)[:, None]
        turn, shift = cv2.solvePnPRefineLM(*known, *start)
        peer = np.eye(4)
        peer[:3, :3], peer[:3, 3] = cv2.Rodrigues(turn)[0], shift.ravel()
        off = apart(Pose.from_matrix(peer), truth, BRICK)
        assert apart(found, Pose.from_matrix(peer), BRICK) < 0.1 * off


def test_one_corner_that_is_far_off_does_not_pull_the_others():
    rng = np.random.default_rng(3)
    ours, plain = [], []
    for _ in range(15):
        truth = random_pose(rng)
        bad = moved(seen(truth, BRICK, PINHOLE), int(rng.integers(8)), (25.0, -18.0))
        ours.append(apart(solve_pose(bad, BRICK, PINHOLE), truth, BRICK))
        _, turn, shift = cv2.solvePnP(BRICK, bad.places - 0.5, PINHOLE.matrix(), None)
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = cv2.Rodrigues(turn)[0], shift.ravel()
        plain.append(apart(Pose.from_matrix(matrix), truth, BRICK))
    assert np.median(ours) < 0.25 * np.median(plain)


def test_a_corner_counts_as_much_as_it_is_sure():
    rng = np.random.default_rng(4)
    told, untold = [], []
    for _ in range(15):
        truth = random_pose(rng)
        index, offset = rng.permutation(8)[:3], rng.laplace(0, 8, (3, 2))
        exact = seen(truth, BRICK, PINHOLE)
        told.append(
            apart(solve_pose(moved(exact, index, offset, 50.0), BRICK, PINHOLE), truth, BRICK)
        )
        untold.append(apart(solve_pose(moved(exact, index, offset), BRICK, PINHOLE), truth, BRICK))
    assert np.mean(told) < 0.5 * np.mean(untold)


BENT = BrownConrady(600.0, 600.0, 320.0, 240.0, -0.5)  # folds back 0.8 from its axis
NO_POSE = {
    "in one place": Corners(np.full((8, 2), 100.0), np.ones(8)),
    "not finite": Corners(np.full((8, 2), np.nan), np.ones(8)),
    "beyond the lens": Corners(np.linspace(5000, 6000, 16).reshape(8, 2), np.ones(8)),
}


@pytest.mark.parametrize("name", sorted(NO_POSE))
def test_corners_that_no_pose_explains_have_none(name):
    assert solve_pose(NO_POSE[name], BRICK, BENT) is None


def test_corners_beyond_the_lens_are_left_out():
    truth = random_pose(np.random.default_rng(5))
    exact = seen(truth, BRICK, BENT)
    lost = moved(exact, [1, 4], (9000.0, 0.0))
    assert solve_pose(lost, BRICK, BENT).matrix() == pytest.approx(truth.matrix(), abs=1e-6)


def test_a_detector_of_boxes_has_no_poses():
    network = Detector("nano", 1, torch.Generator().manual_seed(0)).eval()
    detector = LoadedDetector(network, DetectorCard("nano", ("brick",), 0, {}, ()))
    with pytest.raises(UsageError) as caught:
        predict_poses(detector, np.zeros((32, 32, 3), np.uint8), PINHOLE)
    assert str(caught.value) == (
        "the weights find boxes alone. Train them with poses = true in the recipe's [train]."
    )
