"""What kinds of objects have in common: named points, and turns after which they look the same."""

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
    """Rotations about the object's origin that leave it as it is, besides none at all.

    With the zero offset of an origin they are the ``symmetries_discrete`` and
    ``symmetries_continuous`` of BOP's ``models_info.json``.

    Attributes:
        rotations_wxyz: single ones, as unit quaternions.
        axes: unit vectors about which every rotation does.
    """

    rotations_wxyz: tuple[Quaternion, ...] = ()
    axes: tuple[Vec3, ...] = ()


@dataclass(frozen=True)
class ObjectKind:
    """What every object of one kind of asset has.

    Attributes:
        keypoints: names of its points, in the order of ``keypoints_of``.
        symmetries: of shape and marks together, the colours of its material left aside.
        shape_symmetries: of the shape alone, which is what depth shows.
    """

    keypoints: tuple[str, ...]
    symmetries: Symmetries
    shape_symmetries: Symmetries


HALF_TURN_FACES = tuple(
    face
    for face in CARD_FACES
    if face[:-1] in ("2", "4", "10") or (face[-1] == "D" and face[:-1] in "A35689")
)
"""Cards that look the same after half a turn: no pip of theirs but diamonds is in the middle."""


def get_keypoints(asset: Asset) -> dict[str, Vec3]:
    """Return the named points of an asset in its own frame, metres.

    Those of built-in shapes are middles of their faces or ends, where the surface looks away from the
    origin. The faces of a die go by their values, those of a box or
    carton by their sides (-x, +x, -y, ...), the ends of a cylinder or tin by -z and +z, the sides of a card by front
    and back. A ball has none, and the ground is no object. A board has the inner corners of its
    squares, numbered as OpenCV does; one of markers alone has their corners, clockwise from the upper
    left, the first of marker 7 as 7.0. A twisty cube has its corners, each named by the faces of the core
    that meet there (URF, UFL, ...), and those of a turned face turn with it; a bolt the middles of
    its head and of its tip. A file's object has those that people gave it, inside it or
    on it, and the origins of its joints that move.
    """
    match asset:
        case Die():
            half = asset.edge_m / 2
            return {value: _scale_vector(half, n) for value, n in asset.get_face_normals().items()}
        case Cuboid() | Block() | Carton():
            points = np.concatenate([[-row, row] for row in np.diag(asset.size_m) / 2])
            return {name: _scale_vector(1.0, row) for name, row in zip(_SIDES, points, strict=True)}
        case Cylinder(height_m=thick) | Tin(height_m=thick) | Card(size_m=(_, _, thick)):
            low, high = OBJECT_KINDS[asset.kind].keypoints
            return {low: (0.0, 0.0, -thick / 2), high: (0.0, 0.0, thick / 2)}
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
    """Return the turns after which an asset looks the same; none of a file's, whose card has them."""
    kind: str = asset.kind
    if isinstance(asset, Block) and len(set(asset.size_m)) == 1:
        kind = "cube"
    elif isinstance(asset, Card) and asset.face in HALF_TURN_FACES:
        kind = "turnable card"
    return OBJECT_KINDS[kind].symmetries if kind in OBJECT_KINDS else _NONE


def _compute_inner_corners(board: Board) -> dict[str, Vec3]:
    places = itertools.product(range(1, board.rows), range(1, board.columns))
    return {str(n): board.compute_point_m(column, row) for n, (row, column) in enumerate(places)}


def _compute_marker_corners(board: Board) -> dict[str, Vec3]:
    half = board.marker_share / 2
    around = ((-half, -half), (half, -half), (half, half), (-half, half))
    return {
        f"{marker}.{corner}": board.compute_point_m(column + 0.5 + right, row + 0.5 + down)
        for (row, column), marker in board.markers.items()
        for corner, (right, down) in enumerate(around)
    }


def _scale_vector(length_m: float, vector: Vec3) -> Vec3:
    x, y, z = vector
    return length_m * float(x) + 0.0, length_m * float(y) + 0.0, length_m * float(z) + 0.0


def _make_cube_rotations() -> tuple[Quaternion, ...]:
    """Return the 23 rotations that turn a cube into itself, besides none at all."""
    found = []
    for axes, signs in itertools.product(
        itertools.permutations(range(3)), itertools.product((-1.0, 1.0), repeat=3)
    ):
        matrix = np.array(signs)[:, None] * np.eye(3)[list(axes)]
        if np.linalg.det(matrix) > 0 and not np.array_equal(matrix, np.eye(3)):
            x, y, z, w = Rotation.from_matrix(matrix).as_quat(canonical=True).round(12) + 0.0
            found.append((float(w), float(x), float(y), float(z)))
    return tuple(found)


def _make_hexagon_rotations(*, half_turns: bool = False) -> tuple[Quaternion, ...]:
    """Return the turns about z of a hexagon, or its half-turns about axes across z."""
    angles = [n * math.pi / 6 for n in (range(6) if half_turns else range(1, 6))]
    if half_turns:
        return tuple((0.0, math.cos(a), math.sin(a), 0.0) for a in angles)
    return tuple((math.cos(a), 0.0, 0.0, math.sin(a)) for a in angles)


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
"""By the ``kind`` of their asset; a cube is a block of equal sides, a turnable card one of
``HALF_TURN_FACES``, a turned twisty cube one with a face that may be between two turns. Boards have keypoints of their own
each. No two faces of a die show the same, so that none of the turns of a
cube leaves its marks; boxes are taken to have three different sides.
Threads of bolts and nuts are taken for rings."""
