"""Rotational symmetries of shapes."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Quaternion, Vec3


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


_HALF_TURN_X, _HALF_TURN_Y, _HALF_TURN_Z = (
    (0.0, 1.0, 0.0, 0.0),
    (0.0, 0.0, 1.0, 0.0),
    (0.0, 0.0, 0.0, 1.0),
)
NO_SYMMETRIES = Symmetries()
HALF_TURN = Symmetries((_HALF_TURN_Z,))
"""Symmetry under half a turn about z."""
CUBOID = Symmetries((_HALF_TURN_X, _HALF_TURN_Y, _HALF_TURN_Z))
"""Symmetries of a cuboid with three different sides."""
CUBE = Symmetries(_make_cube_rotations())
CYLINDER = Symmetries((_HALF_TURN_X,), ((0.0, 0.0, 1.0),))
"""Symmetries of a cylinder along z."""
SPHERE = Symmetries(axes=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)))
HEXAGON = Symmetries(_make_hexagon_rotations())
"""Symmetries of a hexagon about z, with different ends."""
HEXAGONAL_PRISM = Symmetries(
    (*_make_hexagon_rotations(), *_make_hexagon_rotations(half_turns=True))
)
"""Symmetries of a hexagonal prism along z."""
