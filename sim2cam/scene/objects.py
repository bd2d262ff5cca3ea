"""What kinds of objects have in common: named points, and turns after which they look the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Quaternion, Vec3
from sim2cam.scene.asset import DIE_FACES, Asset, Box, Cylinder, Die, MeshFile

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


def keypoints_of(asset: Asset) -> dict[str, Vec3]:
    """Returns the named points of an asset in its own frame, metres.

    Those of built-in shapes are the middles of their faces, each of which looks away from the
    origin, along the line to its middle. The faces of a die go by their values, those of a box by
    their sides (-x, +x, -y, ...), the ends of a cylinder by -z and +z. A ball has none, and the
    ground is no object. A file's object has those that people gave it, inside it or on it.
    """
    match asset:
        case Die():
            half = asset.edge_m / 2
            return {value: _times(half, n) for value, n in asset.face_normals().items()}
        case Box():
            points = np.concatenate([[-row, row] for row in np.diag(asset.size_m) / 2])
            return {name: _times(1.0, row) for name, row in zip(_SIDES, points, strict=True)}
        case Cylinder():
            half = asset.height_m / 2
            return {"-z": (0.0, 0.0, -half), "+z": (0.0, 0.0, half)}
        case MeshFile():
            return dict(asset.keypoints)
        case _:
            return {}


def _times(length_m: float, vector: Vec3) -> Vec3:
    x, y, z = vector
    return length_m * float(x) + 0.0, length_m * float(y) + 0.0, length_m * float(z) + 0.0


def _of_a_cube() -> tuple[Quaternion, ...]:
    """Returns the 23 rotations that turn a cube into itself, besides none at all."""
    found = []
    for axes, signs in itertools.product(
        itertools.permutations(range(3)), itertools.product((-1.0, 1.0), repeat=3)
    ):
        matrix = np.array(signs)[:, None] * np.eye(3)[list(axes)]
        if np.linalg.det(matrix) > 0 and not np.array_equal(matrix, np.eye(3)):
            x, y, z, w = Rotation.from_matrix(matrix).as_quat(canonical=True).round(12) + 0.0
            found.append((float(w), float(x), float(y), float(z)))
    return tuple(found)


_NONE = Symmetries()
_CUBE = Symmetries(_of_a_cube())
_BOX = Symmetries(_HALF_TURNS)
_CYLINDER = Symmetries(_HALF_TURNS[:1], ((0.0, 0.0, 1.0),))
_BALL = Symmetries(axes=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))

OBJECT_KINDS: dict[str, ObjectKind] = {
    "die": ObjectKind(tuple(DIE_FACES), _NONE, _CUBE),
    "box": ObjectKind(_SIDES, _BOX, _BOX),
    "cylinder": ObjectKind(("-z", "+z"), _CYLINDER, _CYLINDER),
    "sphere": ObjectKind((), _BALL, _BALL),
}
"""By the ``kind`` of their asset. No two faces of a die show the same, so that none of the turns of a
cube leaves its marks; boxes are taken to have three different sides."""
