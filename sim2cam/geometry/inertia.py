"""Masses: how much of it a rigid thing has, where it lies, and how widely it is spread.

A spread is the integral (4, 4) of ``x x^T`` over a mass, with ``x = (x, y, z, 1)`` (the pseudo-inertia
of Wensing, Kim and Slotine 2018, "Linear matrix inequalities for physically consistent inertial
parameter identification"). Its last column holds the mass times its centre, and the mass. Spreads of
several things in one frame add up, and in another frame they are ``M P M^T``: that is the parallel-axis
theorem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3

Floats = NDArray[np.float64]

_ORIGIN = np.array([0.0, 0.0, 0.0, 1.0])
_DIAGONAL_TOLERANCE = (
    1e-4  # products of inertia, over the moments, of axes that are principal as they are
)
_TOLERANCE = 0.1  # by which files round, and by which shapes are only about those that were weighed


def compute_solid_pseudo_inertia(triangles: Floats) -> Floats:
    """Return the spread (4, 4) of stuff of density 1 inside closed surfaces.

    What is inside of several of them counts as often.

    Args:
        triangles: (n, 3, 3) corners, counter-clockwise from outside.
    """
    # each triangle and the origin make a tetrahedron, whose volume is negative where it is outside
    corners = np.concatenate([triangles, np.ones((len(triangles), 3, 1))], axis=2)
    sums = corners.sum(axis=1) + _ORIGIN
    products = np.einsum("nki,nkj->nij", corners, corners) + np.outer(_ORIGIN, _ORIGIN)
    products += np.einsum("ni,nj->nij", sums, sums)
    return np.asarray(np.einsum("n,nij->ij", np.linalg.det(triangles) / 120, products))


def compute_point_pseudo_inertia(points: Floats) -> Floats:
    """Return the spread (4, 4) of a mass of 1 that is shared by points (n, 3)."""
    corners = np.column_stack([points, np.ones(len(points))])
    return np.asarray(corners.T @ corners / len(points))


def tensor_to_pseudo_inertia(mass_kg: float, tensor_kg_m2: Floats, frame: Pose) -> Floats:
    """Return the spread (4, 4) of a mass with a tensor of inertia (3, 3).

    Args:
        mass_kg: of it.
        tensor_kg_m2: about the mass's centre, along the axes of its frame.
        frame: with that centre for its origin, in the frame of the spread.
    """
    spread = np.zeros((4, 4))
    spread[:3, :3] = np.trace(tensor_kg_m2) / 2 * np.eye(3) - tensor_kg_m2
    spread[3, 3] = mass_kg
    return transform_pseudo_inertia(spread, frame.matrix())


def transform_pseudo_inertia(pseudo_inertias: Floats, matrices: Floats) -> Floats:
    """Return spreads (..., 4, 4) in another frame.

    Args:
        pseudo_inertias: of any number of masses.
        matrices: (..., 4, 4) poses of their frames in the other one.
    """
    return np.asarray(matrices @ pseudo_inertias @ np.swapaxes(matrices, -1, -2))


def compute_center_of_mass(pseudo_inertia: Floats) -> Floats:
    """Return the centre (3,) of a mass that is spread so (4, 4)."""
    return np.asarray(pseudo_inertia[:3, 3] / pseudo_inertia[3, 3])


def compute_principal_axes(pseudo_inertia: Floats) -> tuple[Pose, Vec3]:
    """Return the frame of a mass's centre and principal axes, and its moments of inertia about them.

    Axes that are principal as they are stay so; all of them are where a mass is as wide in every
    direction.

    Args:
        pseudo_inertia: (4, 4) of the mass.

    Returns:
        The frame in that of the spread, and three moments over the mass, in square metres.
    """
    center, around = compute_center_of_mass(pseudo_inertia), _compute_covariance(pseudo_inertia)
    if np.abs(around - np.diag(np.diag(around))).max() <= _DIAGONAL_TOLERANCE * np.trace(around):
        turn, squares = Rotation.identity(), np.diag(around)
    else:
        squares, axes = np.linalg.eigh(around)
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        turn = Rotation.from_matrix(axes)
    squares = squares.clip(0, None)
    return Pose(quaternion(turn), vec3(center)), vec3(squares.sum() - squares)


def is_plausible_inertia(
    pseudo_inertia: Floats, points: Floats, uniform_pseudo_inertia: Floats
) -> bool:
    """Return whether the mass of a thing could be spread so.

    No mean square distance from the centre may be negative (Traversaro et al. 2016, "Identification of
    fully physical consistent inertial parameters": so moments are positive and none exceeds the sum of
    the others), or greater than that between the thing's ends (Bhatia and Davis 2000, "A better bound on
    the variance"). Files whose numbers are placeholders have masses much narrower than any thing's, too:
    less than a tenth as wide as stuff that fills it evenly.

    Args:
        pseudo_inertia: (4, 4) of a mass above 0.
        points: (n, 3) of the thing, farthest ones included.
        uniform_pseudo_inertia: (4, 4) of a mass that fills it evenly.
    """
    with np.errstate(all="ignore"):
        around = _compute_covariance(pseudo_inertia)
    if not np.isfinite(around).all():
        return False
    squares, axes = np.linalg.eigh(around)
    along = (points - compute_center_of_mass(pseudo_inertia)) @ axes
    low, high = along.min(axis=0), along.max(axis=0)
    slack = _TOLERANCE * (high - low)
    most = (slack - low) * (slack + high)
    return bool(
        (squares >= -_TOLERANCE * squares.max()).all()
        and (squares <= most).all()
        and squares.sum() >= _TOLERANCE**2 * np.trace(_compute_covariance(uniform_pseudo_inertia))
    )


def _compute_covariance(pseudo_inertia: Floats) -> Floats:
    """Return the mean (3, 3) of ``x x^T`` over a mass, around its centre."""
    center = compute_center_of_mass(pseudo_inertia)
    return np.asarray(pseudo_inertia[:3, :3] / pseudo_inertia[3, 3] - np.outer(center, center))
