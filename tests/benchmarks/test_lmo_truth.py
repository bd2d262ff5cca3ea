"""Recovery of known poses from image edges."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from lmo_truth import Shape, _compute_medians, _fit_object

from sim2cam.data.formats.bop.poses import BopModel
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.geometry.lens import BrownConrady
from sim2cam.geometry.poses import Pose

LENS = BrownConrady(500.0, 500.0, 160.0, 120.0, k1=-0.1)
POSE = Pose((0.9, 0.2, 0.3, 0.245), (0.05, -0.02, 0.8))
CORNERS = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float) * (
    0.04,
    0.03,
    0.05,
)


@pytest.fixture(scope="module")
def box():
    quads = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
    faces = [triple for a, b, c, d in quads for triple in ((a, b, c), (a, c, d))]
    diameter = float(np.linalg.norm(CORNERS[0] - CORNERS[-1]))
    return Shape(
        CORNERS[faces], CORNERS, BopModel("box", Path("box.ply"), diameter, np.eye(4)[None])
    )


def seen_at(depth_m, shift_m):
    """Render the blurred box at a shifted pose."""
    pose = POSE.matrix()
    pose[:3, 3] *= depth_m / pose[2, 3]
    pose[:2, 3] += shift_m
    pixels = LENS.project(CORNERS @ pose[:3, :3].T + pose[:3, 3])
    hull = cv2.convexHull(((pixels + 0.5) * 8 - 0.5).astype(np.float32))
    large = np.full((240 * 8, 320 * 8, 3), 90, np.uint8)
    cv2.fillConvexPoly(large, hull.round().astype(np.int32), (140, 120, 60))
    small = cv2.resize(large, (320, 240), interpolation=cv2.INTER_AREA)
    return cv2.GaussianBlur(small.astype(np.float32), (0, 0), 0.8), pose


@pytest.mark.parametrize(
    ("depth_m", "shift_m"), [(0.8, (0.0, 0.0)), (0.784, (0.0032, 0.0)), (0.824, (0.0, -0.0016))]
)
def test_where_an_object_is_seen_is_found_again(box, depth_m, shift_m):
    rgb, seen = seen_at(depth_m, shift_m)
    label = ObjectLabel("box", (0, 0, 1, 1), 1.0, visible_fraction=1.0, pose=POSE)
    sample = Sample("one", Path("one.png"), 320, 240, (label,), "real", lens=LENS)
    found = _fit_object(rgb, sample, label, box)
    assert found.scale == pytest.approx(0.8 / depth_m, abs=0.006)
    before, after = (LENS.project(pose[None, :3, 3])[0] for pose in (POSE.matrix(), seen))
    moved = np.array([found.right_px, found.down_px])
    assert moved == pytest.approx(after - before, abs=0.5)
    away = np.linalg.norm(seen[:3, 3] - POSE.position_m) / box.entry.diameter_m
    assert found.error == pytest.approx(away, abs=0.05)


def test_what_is_small_or_at_the_edge_is_left_out(box):
    rgb, _ = seen_at(0.8, (0.0, 0.0))
    for position in ((0.05, -0.02, 8.0), (0.24, 0.0, 0.8)):
        label = ObjectLabel(
            "box", (0, 0, 1, 1), 1.0, visible_fraction=1.0, pose=Pose(POSE.rotation_wxyz, position)
        )
        sample = Sample("one", Path("one.png"), 320, 240, (label,), "real", lens=LENS)
        assert _fit_object(rgb, sample, label, box) is None


def test_medians_are_those_of_repeated_values():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=7), rng.integers(0, 4, (20, 7))
    wanted = [np.sort(np.repeat(values, row))[(row.sum() - 1) // 2] for row in weights]
    assert _compute_medians(values, weights) == pytest.approx(wanted)
