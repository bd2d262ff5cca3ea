"""Named points lie on their shapes, and symmetries are those of BOP's definition."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.objects.block import Block
from sim2cam.objects.board import Board
from sim2cam.objects.card import Card
from sim2cam.objects.carton import Carton
from sim2cam.objects.die import Die, Pips
from sim2cam.objects.primitives import Cuboid, Cylinder, Ground, Sphere
from sim2cam.objects.tin import Tin
from sim2cam.objects.twisty import TwistyCube
from sim2cam.render.meshes.mesh import build_mesh
from sim2cam.scene.package_label import PackageLabel
from sim2cam.scene.symmetry import OBJECT_KINDS, get_keypoints

PIPS = Pips("round", 0.1, 0.25, 0.02, (0.0, 0.0, 0.0))
LABEL = PackageLabel("rice", 3, (0.9, 0.9, 0.9), (0.6, 0.02, 0.02), (0.02, 0.05, 0.5))
ASSETS = {
    "die": Die(0.016, 0.1, 0.4, PIPS, False),
    "mirrored die": Die(0.02, 0.2, 0.9, PIPS, True),
    "box": Cuboid((0.02, 0.03, 0.05)),
    "cylinder": Cylinder(0.02, 0.05),
    "sphere": Sphere(0.03),
    "block": Block((0.02, 0.03, 0.05), 0.1, "red"),
    "tin": Tin(0.036, 0.11, LABEL, "beans"),
    "carton": Carton((0.12, 0.05, 0.2), LABEL, "rice"),
    "card": Card("7H", (0.06, 0.09, 0.001), 0.004, (0.0, 0.0, 0.3)),
}
TWISTY = TwistyCube(0.057, 3, ("R",), "U", 0.0, 0.1, 0.9, 0.3, ((0.5, 0.1, 0.1),) * 6)
BOARD = Board("charuco", 5, 4, 0.02, 0.7, "4x4_50", 0, 0.01, 0.004, (0.0, 0.0, 0.0))


def rotations(symmetries):
    """Every single rotation, and some about each axis."""
    found = [Rotation.from_quat(np.roll(q, -1)) for q in symmetries.rotations_wxyz]
    turns = (0.3, 1.0, 2.5)
    return found + [Rotation.from_rotvec(np.multiply(a, t)) for a in symmetries.axes for t in turns]


def distance(points, asset):
    """Signed distances (n,) to the surface of what has no rounded edges."""
    match asset:
        case Cuboid():
            away = np.abs(points) - np.array(asset.size_m) / 2
        case Cylinder():
            across = np.hypot(points[:, 0], points[:, 1]) - asset.radius_m
            away = np.stack([across, np.abs(points[:, 2]) - asset.height_m / 2], axis=1)
        case Sphere():
            return np.linalg.norm(points, axis=1) - asset.radius_m
    return away.max(axis=1)


@pytest.mark.parametrize("name", ASSETS)
def test_keypoints_are_the_middles_of_the_faces_they_name(name):
    asset = ASSETS[name]
    mesh = build_mesh(asset)
    points = get_keypoints(asset)
    assert tuple(sorted(points)) == tuple(sorted(OBJECT_KINDS[asset.kind].keypoints))
    for number, (face, point) in enumerate(points.items(), 1):
        part = {"front": 1, "back": 2}.get(face, int(face) if isinstance(asset, Die) else number)
        on_face = mesh.vertices_m[mesh.parts == part]
        middle = (on_face.min(axis=0) + on_face.max(axis=0)) / 2
        across = np.array(point) == 0
        assert np.allclose(middle[across], 0)
        along = np.array(point) / np.linalg.norm(point)
        assert (on_face @ along).max() == pytest.approx(np.linalg.norm(point))
        assert (mesh.vertices_m @ along).max() == pytest.approx(np.linalg.norm(point))


def test_the_keypoints_of_a_twisty_cube_are_its_corners():
    points = get_keypoints(TWISTY)
    assert tuple(points) == OBJECT_KINDS["twisty"].keypoints
    assert all(np.sign(points["DLF"]) == -1)


def test_the_ground_has_no_keypoints_and_a_box_has_six_different_ones():
    assert get_keypoints(Ground(1.0)) == {}
    assert get_keypoints(ASSETS["box"])["-y"] == (0.0, -0.015, 0.0)
    assert len(set(get_keypoints(ASSETS["box"]).values())) == 6


def test_corners_of_boards_are_numbered_row_by_row_from_the_upper_left():
    points = get_keypoints(BOARD)
    assert list(points) == [str(n) for n in range(12)]
    assert points["0"] == pytest.approx((-0.03, 0.02, 0.002))
    assert points["3"] == pytest.approx((0.03, 0.02, 0.002))
    assert points["11"] == pytest.approx((0.03, -0.02, 0.002))
    tags = get_keypoints(replace(BOARD, pattern="markers", columns=1, rows=1, first_marker=7))
    assert list(tags) == ["7.0", "7.1", "7.2", "7.3"]
    assert tags["7.1"] == pytest.approx((0.007, 0.007, 0.002))


@pytest.mark.parametrize("name", ["box", "cylinder", "sphere"])
def test_shapes_stay_where_they_are_under_their_symmetries(name):
    asset = ASSETS[name]
    points = np.random.default_rng(0).uniform(-0.04, 0.04, (500, 3))
    before = distance(points, asset)
    for rotation in rotations(OBJECT_KINDS[asset.kind].shape_symmetries):
        assert np.allclose(distance(rotation.apply(points), asset), before)
    quarter = Rotation.from_euler("x", 90, degrees=True)
    assert name == "sphere" or not np.allclose(distance(quarter.apply(points), asset), before)


@pytest.mark.parametrize("name", ["die", "mirrored die"])
def test_a_die_s_surface_stays_under_the_turns_of_a_cube(name):
    vertices = build_mesh(ASSETS[name]).vertices_m
    known = {tuple(v) for v in np.round(vertices, 7) + 0.0}
    for rotation in rotations(OBJECT_KINDS["die"].shape_symmetries):
        turned = np.round(rotation.apply(vertices), 7) + 0.0
        assert {tuple(v) for v in turned} == known


def test_the_turns_of_a_cube_are_a_group_of_24():
    turns = [Rotation.identity(), *rotations(OBJECT_KINDS["die"].shape_symmetries)]
    matrices = {tuple(np.round(t.as_matrix().ravel()).astype(int)) for t in turns}
    assert len(turns) == len(matrices) == 24
    products = {
        tuple(np.round((a * b).as_matrix().ravel()).astype(int))
        for a, b in itertools.product(turns, turns)
    }
    assert products == matrices


@pytest.mark.parametrize("name", ["die", "mirrored die"])
def test_no_turn_leaves_a_die_s_marks(name):
    faces = ASSETS[name].get_face_normals()
    assert OBJECT_KINDS["die"].symmetries.rotations_wxyz == ()
    assert OBJECT_KINDS["die"].symmetries.axes == ()
    for rotation in rotations(OBJECT_KINDS["die"].shape_symmetries):
        turned = {value: tuple(np.round(rotation.apply(n)) + 0.0) for value, n in faces.items()}
        assert turned != faces


def test_every_kind_of_object_is_known():
    kinds = {BOARD.kind, TWISTY.kind, "bolt", "nut", *(asset.kind for asset in ASSETS.values())}
    assert set(OBJECT_KINDS) == kinds | {"cube", "turnable card", "turned twisty"}
    for kind in OBJECT_KINDS.values():
        for table in (kind.symmetries, kind.shape_symmetries):
            for turn in table.rotations_wxyz:
                assert np.linalg.norm(turn) == pytest.approx(1)
                assert abs(turn[0]) < 0.99  # not the turn that does nothing
