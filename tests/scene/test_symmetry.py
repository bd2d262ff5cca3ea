"""Symmetries are groups of unit quaternions without the identity."""

import itertools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim2cam.scene import symmetry

GROUPS = {
    "none": (symmetry.NO_SYMMETRIES, 1, 0),
    "half turn": (symmetry.HALF_TURN, 2, 0),
    "cuboid": (symmetry.CUBOID, 4, 0),
    "cube": (symmetry.CUBE, 24, 0),
    "cylinder": (symmetry.CYLINDER, 2, 1),
    "hexagon": (symmetry.HEXAGON, 6, 0),
    "hexagonal prism": (symmetry.HEXAGONAL_PRISM, 12, 0),
    "sphere": (symmetry.SPHERE, 1, 3),
}


@pytest.mark.parametrize("name", GROUPS)
def test_rotations_with_the_identity_are_a_group(name):
    symmetries, order, axis_count = GROUPS[name]
    assert np.allclose(np.linalg.norm(np.reshape(symmetries.rotations_wxyz, (-1, 4)), axis=1), 1)
    assert np.allclose(np.linalg.norm(np.reshape(symmetries.axes, (-1, 3)), axis=1), 1)
    assert len(symmetries.axes) == axis_count
    rotations = [Rotation.from_quat(q, scalar_first=True) for q in symmetries.rotations_wxyz]
    assert all(rotation.magnitude() > 0.1 for rotation in rotations)
    rotations.append(Rotation.identity())
    matrices = {tuple(r.as_matrix().ravel().round(6) + 0.0) for r in rotations}
    assert len(rotations) == len(matrices) == order
    products = {
        tuple((a * b).as_matrix().ravel().round(6) + 0.0)
        for a, b in itertools.product(rotations, repeat=2)
    }
    assert products == matrices
