"""Keypoints and symmetries of object kinds."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Quaternion, Vec3
from sim2cam.scene.fasteners import Bolt
from sim2cam.scene.packages import Carton, Tin
from sim2cam.scene.shape import (
    CARD_FACES,
    DIE_FACE_NORMALS,
    Asset,
    Block,
    Board,
    Card,
    Cuboid,
    Cylinder,
    Die,
    MeshFile,
)
from sim2cam.scene.twisty import CORNERS, TwistyCube

_SIDES = ("-x", "+x", "-y", "+y", "-z", "+z")
_HALF_TURNS: tuple[Quaternion, ...] = (
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
)


@dataclass(frozen=True)
class Symmetries:
    """Rotations about the object's origin that leave it unchanged, without the identity.

    They correspond to ``symmetries_discrete`` and ``symmetries_continuous`` of BOP's ``models_info.json``, with zero
    offset.

    Attributes:
        rotations_wxyz: Discrete rotations as unit quaternions.
        axes: Unit vectors of continuous symmetry.
    """

    rotations_wxyz: tuple[Quaternion, ...] = ()
    axes: tuple[Vec3, ...] = ()


@dataclass(frozen=True)
class ObjectKind:
    """Keypoints and symmetries that all objects of a kind share.

    Attributes:
        keypoints: Names of the keypoints, in the order of ``get_keypoints``.
        symmetries: Symmetries of shape and marks, regardless of the material's colours.
        shape_symmetries: Symmetries of the shape alone, as visible in depth.
    """

    keypoints: tuple[str, ...]
    symmetries: Symmetries
    shape_symmetries: Symmetries


HALF_TURN_FACES = tuple(
    face
    for face in CARD_FACES
    if face[:-1] in ("2", "4", "10") or (face[-1] == "D" and face[:-1] in "A35689")
)
"""Cards with a half-turn symmetry, without a central pip other than diamonds."""


def get_keypoints(asset: Asset) -> dict[str, Vec3]:
    """Return the named points of an asset in its own frame, metres.

    Keypoints of built-in shapes are centres of faces or ends: the faces of a die by value, those of a box or carton by
    side (-x, +x, -y, ...), the ends of a cylinder or tin (-z, +z), the sides of a card (front, back). Spheres and the
    ground have none. Boards have their inner corners, numbered as in OpenCV; boards of markers alone have the marker
    corners, clockwise from the upper left, as 7.0 for the first corner of marker 7. Twisty cubes have their corners,
    named by the core faces that meet there (URF, UFL, ...); those of a turned face turn with it. Bolts have the centres
    of head and tip. Objects from files have their annotated points and the origins of moving joints.
    """
    match asset:
        case Die():
            half = asset.edge_m / 2
            return {
                value: _scale_vector(half, normal)
                for value, normal in asset.get_face_normals().items()
            }
        case Cuboid() | Block() | Carton():
            points = np.concatenate([[-row, row] for row in np.diag(asset.size_m) / 2])
            return {name: _scale_vector(1.0, row) for name, row in zip(_SIDES, points, strict=True)}
        case (
            Cylinder(height_m=thickness) | Tin(height_m=thickness) | Card(size_m=(_, _, thickness))
        ):
            low, high = OBJECT_KINDS[asset.kind].keypoints
            return {low: (0.0, 0.0, -thickness / 2), high: (0.0, 0.0, thickness / 2)}
        case Board():
            return (
                _compute_marker_corners(asset)
                if asset.pattern == "markers"
                else _compute_inner_corners(asset)
            )
        case TwistyCube() | Bolt() | MeshFile():
            return dict(asset.keypoints)
        case _:
            return {}


def get_symmetries(asset: Asset) -> Symmetries:
    """Return the symmetries of an asset; none for files, whose metadata holds them."""
    kind: str = asset.kind
    if isinstance(asset, Block) and len(set(asset.size_m)) == 1:
        kind = "cube"
    elif isinstance(asset, Card) and asset.face in HALF_TURN_FACES:
        kind = "turnable card"
    return OBJECT_KINDS[kind].symmetries if kind in OBJECT_KINDS else _NONE


def _compute_inner_corners(board: Board) -> dict[str, Vec3]:
    corners = itertools.product(range(1, board.rows), range(1, board.columns))
    return {
        str(index): board.compute_point_m(column, row)
        for index, (row, column) in enumerate(corners)
    }


def _compute_marker_corners(board: Board) -> dict[str, Vec3]:
    half = board.marker_share / 2
    offsets = ((-half, -half), (half, -half), (half, half), (-half, half))
    return {
        f"{marker}.{corner}": board.compute_point_m(column + 0.5 + right, row + 0.5 + down)
        for (row, column), marker in board.markers.items()
        for corner, (right, down) in enumerate(offsets)
    }


def _scale_vector(length_m: float, vector: Vec3) -> Vec3:
    x, y, z = vector
    return length_m * float(x) + 0.0, length_m * float(y) + 0.0, length_m * float(z) + 0.0


def _make_cube_rotations() -> tuple[Quaternion, ...]:
    """Return the 23 rotations of a cube onto itself, without the identity."""
    rotations = []
    for axes, signs in itertools.product(
        itertools.permutations(range(3)), itertools.product((-1.0, 1.0), repeat=3)
    ):
        matrix = np.array(signs)[:, None] * np.eye(3)[list(axes)]
        if np.linalg.det(matrix) > 0 and not np.array_equal(matrix, np.eye(3)):
            x, y, z, w = Rotation.from_matrix(matrix).as_quat(canonical=True).round(12) + 0.0
            rotations.append((float(w), float(x), float(y), float(z)))
    return tuple(rotations)


def _make_hexagon_rotations(*, half_turns: bool = False) -> tuple[Quaternion, ...]:
    """Return the rotations of a hexagon about z, or its half turns about axes in its plane."""
    angles = [step * math.pi / 6 for step in (range(6) if half_turns else range(1, 6))]
    if half_turns:
        return tuple((0.0, math.cos(angle), math.sin(angle), 0.0) for angle in angles)
    return tuple((math.cos(angle), 0.0, 0.0, math.sin(angle)) for angle in angles)


_NONE = Symmetries()
_CUBE = Symmetries(_make_cube_rotations())
_BOX = Symmetries(_HALF_TURNS)
_CYLINDER = Symmetries(_HALF_TURNS[:1], ((0.0, 0.0, 1.0),))
_HEXAGON_TURNS = Symmetries(_make_hexagon_rotations())
_HEXAGON = Symmetries((*_make_hexagon_rotations(), *_make_hexagon_rotations(half_turns=True)))
_SPHERE = Symmetries(axes=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))

OBJECT_KINDS: dict[str, ObjectKind] = {
    "die": ObjectKind(tuple(DIE_FACE_NORMALS), _NONE, _CUBE),
    "box": ObjectKind(_SIDES, _BOX, _BOX),
    "cylinder": ObjectKind(("-z", "+z"), _CYLINDER, _CYLINDER),
    "sphere": ObjectKind((), _SPHERE, _SPHERE),
    "block": ObjectKind(_SIDES, _BOX, _BOX),
    "cube": ObjectKind(_SIDES, _CUBE, _CUBE),
    "board": ObjectKind((), _NONE, _BOX),
    "card": ObjectKind(("back", "front"), _NONE, _BOX),
    "tin": ObjectKind(("-z", "+z"), _NONE, _CYLINDER),
    "carton": ObjectKind(_SIDES, _NONE, _BOX),
    "bolt": ObjectKind(("head", "tip"), _HEXAGON_TURNS, _HEXAGON_TURNS),
    "nut": ObjectKind((), _HEXAGON, _HEXAGON),
    "twisty": ObjectKind(CORNERS, _NONE, _CUBE),
    "turned twisty": ObjectKind(CORNERS, _NONE, _NONE),
    "turnable card": ObjectKind(("back", "front"), Symmetries(_HALF_TURNS[2:]), _BOX),
}
"""Object kinds by ``kind`` of their asset. A cube is a block with equal sides, a turnable card one of
``HALF_TURN_FACES``, a turned twisty cube one with a partly turned face. Keypoints of boards depend on the board. A
die has no symmetry, because its faces differ. Boxes are taken to have three different sides, and threads of bolts
and nuts to be rings.
"""
