"""Points of surfaces give back the pose that they were seen from, through any lens."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from sim2cam.errors import UsageError
from sim2cam.geometry.boxes import compute_box_corners
from sim2cam.geometry.lens import BrownConrady, KannalaBrandt, Rational
from sim2cam.geometry.poses import Pose
from sim2cam.models.card import DetectorCard
from sim2cam.models.inference.detections import MIN_SURFACE_POINTS
from sim2cam.models.inference.detector import NativeDetector, SurfacePoints
from sim2cam.models.inference.poses import check_poses, solve_pose
from sim2cam.models.network.detector import DetectorNetwork

PINHOLE = BrownConrady(600.0, 610.0, 319.0, 241.0)
LENSES = {
    "pinhole": PINHOLE,
    "brown": BrownConrady(600.0, 610.0, 319.0, 241.0, -0.2, 0.05, 0.001, -0.002, 0.0),
    "rational": Rational(600.0, 610.0, 319.0, 241.0, 0.1, 0.01, k4=0.05),
    "fisheye": KannalaBrandt(200.0, 201.0, 319.0, 241.0, 0.01, -0.002),
}
BRICK = (-0.03, -0.02, -0.01), (0.03, 0.02, 0.05)  # its origin is not its middle
CARD = (-0.044, -0.0315, -0.00015), (0.044, 0.0315, 0.00015)
CORNERS = compute_box_corners(*BRICK)


def random_pose(rng, direction=(0.0, 0.0, 1.0), spread=0.3):
    ray = np.array(direction) + spread * rng.uniform(-1, 1, 3)
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.random(rng=rng).as_matrix()
    matrix[:3, 3] = rng.uniform(0.2, 1.5) * ray / np.linalg.norm(ray)
    return Pose.from_matrix(matrix)


def surface_of(box, pose, count, rng):
    """Points (count, 3) of the sides of a box that are turned to the camera, by their size."""
    low, high = map(np.array, box)
    eye = np.array(pose.inverse().position_m)
    visible = [(axis, end) for axis in range(3) for end in (low, high)
               if (eye[axis] - end[axis]) * (end[axis] - (low + high)[axis] / 2) > 0]  # fmt: skip
    sizes = np.array([np.prod(np.delete(high - low, axis)) for axis, _ in visible])
    points = rng.uniform(low, high, (count, 3))
    for point, side in zip(
        points, rng.choice(len(visible), count, p=sizes / sizes.sum()), strict=True
    ):
        axis, end = visible[side]
        point[axis] = end[axis]
    return points


def seen(pose, points, lens, spread_px=1.0):
    places = lens.project(pose.apply(points)) + 0.5  # boxes count from the pixel's corner
    return SurfacePoints(points, places, np.full(len(points), spread_px))


def moved(surface, chosen, offset, spread_px=None):
    places, spreads = surface.image_points.copy(), surface.uncertainties_px.copy()
    places[chosen] += offset
    if spread_px is not None:
        spreads[chosen] = spread_px
    return SurfacePoints(surface.object_points_m, places, spreads)


def apart(found, truth, points):
    """The mean distance of points from where they should be (ADD)."""
    return np.linalg.norm(found.apply(points) - truth.apply(points), axis=1).mean()


@pytest.mark.parametrize("shape", ["brick", "card", "corners"])
@pytest.mark.parametrize("name", sorted(LENSES))
def test_exact_points_give_the_pose_back(name, shape):
    rng = np.random.default_rng(0)
    for _ in range(8):
        truth = random_pose(rng)
        box = CARD if shape == "card" else BRICK
        points = CORNERS if shape == "corners" else surface_of(box, truth, 40, rng)
        found = solve_pose(seen(truth, points, LENSES[name]), LENSES[name])
        assert found.matrix() == pytest.approx(truth.matrix(), abs=1e-6)


@pytest.mark.parametrize("distance_m", [10.0, 40.0])
def test_what_is_far_away_has_a_pose_too(distance_m):
    """OpenCV's SQPNP refuses points that are seen nearly at one place."""
    rng = np.random.default_rng(2)
    for _ in range(5):
        truth = Pose(random_pose(rng).rotation_wxyz, (0.1, -0.2, distance_m))
        for points in (CORNERS, surface_of(BRICK, truth, 40, rng)):
            found = solve_pose(seen(truth, points, PINHOLE), PINHOLE)
            assert found.position_m == pytest.approx(
                truth.position_m, rel=0.02, abs=1e-3 * distance_m
            )


def test_a_fisheye_places_what_lies_beside_the_camera():
    rng = np.random.default_rng(1)
    beside = 0
    for _ in range(20):
        truth = random_pose(rng, (1.0, 0.3, 0.0), spread=0.1)
        beside += truth.position_m[2] < 0
        points = surface_of(BRICK, truth, 40, rng)
        found = solve_pose(seen(truth, points, LENSES["fisheye"]), LENSES["fisheye"])
        assert found.matrix() == pytest.approx(truth.matrix(), abs=1e-6)
    assert beside > 3


def test_with_equal_and_small_errors_it_is_the_pose_of_least_squares():
    rng = np.random.default_rng(2)
    square = BrownConrady(
        600.0, 600.0, 319.0, 241.0
    )  # errors count alike in pixels and on the plane
    for _ in range(8):
        truth = random_pose(rng, spread=0.02)
        points = surface_of(BRICK, truth, 30, rng)
        exact = seen(truth, points, square, spread_px=20.0)  # far above the errors: all count
        noisy = moved(exact, slice(None), rng.normal(0, 0.5, (30, 2)))
        found = solve_pose(noisy, square)
        known = (points, noisy.image_points - 0.5, square.matrix(), None)
        start = cv2.Rodrigues(truth.matrix()[:3, :3])[0], np.array(truth.position_m)[:, None]
        turn, shift = cv2.solvePnPRefineLM(*known, *start)
        peer = np.eye(4)
        peer[:3, :3], peer[:3, 3] = cv2.Rodrigues(turn)[0], shift.ravel()
        off = apart(Pose.from_matrix(peer), truth, CORNERS)
        assert apart(found, Pose.from_matrix(peer), CORNERS) < 0.1 * off


def test_points_that_are_far_off_do_not_pull_the_others():
    rng = np.random.default_rng(3)
    ours, plain = [], []
    for _ in range(15):
        truth = random_pose(rng)
        points = surface_of(BRICK, truth, 40, rng)
        bad = moved(seen(truth, points, PINHOLE), rng.permutation(40)[:10], (25.0, -18.0))
        ours.append(apart(solve_pose(bad, PINHOLE), truth, CORNERS))
        _, turn, shift = cv2.solvePnP(points, bad.image_points - 0.5, PINHOLE.matrix(), None)
        matrix = np.eye(4)
        matrix[:3, :3], matrix[:3, 3] = cv2.Rodrigues(turn)[0], shift.ravel()
        plain.append(apart(Pose.from_matrix(matrix), truth, CORNERS))
    assert np.median(ours) < 0.05 * np.median(plain)


def test_a_point_counts_as_much_as_it_is_sure():
    rng = np.random.default_rng(4)
    told, untold = [], []
    for _ in range(6):
        truth = random_pose(rng)
        points = surface_of(BRICK, truth, 30, rng)
        chosen, offset = rng.permutation(30)[:20], rng.laplace(0, 8, (20, 2))
        exact = seen(truth, points, PINHOLE)
        for spread_px, off in ((50.0, told), (None, untold)):
            found = solve_pose(moved(exact, chosen, offset, spread_px), PINHOLE)
            off.append(apart(found, truth, CORNERS))
    assert np.mean(told) < 0.5 * np.mean(untold)


def test_points_that_are_known_to_3_percent_place_an_object_within_millimetres():
    """Of an object of 0.1 m, 1 m away and 60 px large: 150 points, each off by 3 % of its reach an axis."""
    rng = np.random.default_rng(6)
    off_m = []
    for _ in range(25):
        matrix = random_pose(rng).matrix()
        matrix[:3, 3] = (0.05, -0.03, 1.0)
        truth = Pose.from_matrix(matrix)
        points = surface_of(((-0.05, -0.05, -0.05), (0.05, 0.05, 0.05)), truth, 150, rng)
        exact = seen(truth, points, PINHOLE)
        noisy = SurfacePoints(
            points + rng.normal(0, 0.03 * 0.05, (150, 3)),
            exact.image_points,
            exact.uncertainties_px,
        )
        found = solve_pose(noisy, PINHOLE)
        off_m.append(np.abs(np.subtract(found.position_m, truth.position_m)))
    beside, away = np.hypot(*np.array(off_m)[:, :2].T), np.array(off_m)[:, 2]
    assert np.median(beside) < 0.5e-3  # 0.26 mm when this was written, and 2.2 mm away
    assert np.median(away) < 4e-3


BENT = BrownConrady(600.0, 600.0, 320.0, 240.0, -0.5)  # folds back 0.8 from its axis
EVERYWHERE = np.linspace(100, 300, 16).reshape(8, 2) * (1.0, 0.7) + [[0.0, 9.0], [7.0, 0.0]] * 4
NO_POSE = {
    "in one place": SurfacePoints(CORNERS, np.full((8, 2), 100.0), np.ones(8)),
    "places not finite": SurfacePoints(CORNERS, np.full((8, 2), np.nan), np.ones(8)),
    "points not finite": SurfacePoints(np.full((8, 3), np.inf), EVERYWHERE, np.ones(8)),
    "beyond the lens": SurfacePoints(
        CORNERS, np.linspace(5000, 6000, 16).reshape(8, 2), np.ones(8)
    ),
    "too few": SurfacePoints(
        *(v[: MIN_SURFACE_POINTS - 1] for v in (CORNERS, EVERYWHERE, np.ones(8)))
    ),
    "too few that are finite": SurfacePoints(
        np.where(np.arange(8)[:, None] < MIN_SURFACE_POINTS - 1, CORNERS, np.nan),
        EVERYWHERE,
        np.ones(8),
    ),
    "none": SurfacePoints(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0)),
    "one point everywhere": SurfacePoints(np.tile(CORNERS[:1], (8, 1)), EVERYWHERE, np.ones(8)),
}


@pytest.mark.parametrize("name", sorted(NO_POSE))
def test_points_that_no_pose_explains_have_none(name):
    assert solve_pose(NO_POSE[name], BENT) is None


def test_points_that_opencv_has_no_answer_for_have_no_pose(monkeypatch):
    monkeypatch.setattr(cv2, "solvePnPRansac", lambda *_, **__: (False, None, None, None))
    monkeypatch.setattr(cv2, "solvePnP", lambda *_, **__: (False, None, None))
    assert solve_pose(SurfacePoints(CORNERS, EVERYWHERE, np.ones(8)), PINHOLE) is None


def test_points_that_are_not_finite_or_beyond_the_lens_are_left_out():
    rng = np.random.default_rng(5)
    truth = random_pose(rng)
    exact = seen(truth, surface_of(BRICK, truth, 20, rng), BENT)
    lost = moved(exact, [1, 4], (9000.0, 0.0))
    lost.object_points_m[7] = np.nan
    assert solve_pose(lost, BENT).matrix() == pytest.approx(truth.matrix(), abs=1e-6)


def test_a_detector_of_boxes_has_no_poses():
    network = DetectorNetwork("nano", 1, torch.Generator().manual_seed(0)).eval()
    detector = NativeDetector(network, DetectorCard("nano", ("brick",), 0, {}, ()))
    with pytest.raises(UsageError) as caught:
        check_poses(detector)
    assert str(caught.value) == (
        "the weights predict no poses. Train with poses = true in the recipe's [train]."
    )
