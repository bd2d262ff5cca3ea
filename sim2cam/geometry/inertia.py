"""Pseudo-inertia of rigid bodies: mass, centre of mass and second moments in one matrix.

The pseudo-inertia (4, 4) is the integral of ``x x^T`` over a mass, with ``x = (x, y, z, 1)`` (Wensing, Kim and
Slotine 2018, "Linear matrix inequalities for physically consistent inertial parameter identification"). Its last
column holds the mass times its centre, and the mass. Pseudo-inertias in one frame add up; in another frame
they are ``M P M^T``, which is the parallel-axis theorem.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3

Floats = NDArray[np.float64]

_ORIGIN = np.array([0.0, 0.0, 0.0, 1.0])
_DIAGONAL_TOLERANCE = 1e-4  # off-diagonal terms relative to the trace, for axes taken as principal
_TOLERANCE = 0.1  # for rounding in files and differences between mesh and real shape


def compute_solid_pseudo_inertia(triangles: Floats) -> Floats:
    """Return the pseudo-inertia (4, 4) of solids with density 1; overlaps count several times.

    Args:
        triangles: (n, 3, 3) vertices of closed surfaces, counter-clockwise from outside.
    """
    # Sum of signed tetrahedra between the triangles and the origin.
    corners = np.concatenate([triangles, np.ones((len(triangles), 3, 1))], axis=2)
    sums = corners.sum(axis=1) + _ORIGIN
    products = np.einsum("nki,nkj->nij", corners, corners) + np.outer(_ORIGIN, _ORIGIN)
    products += np.einsum("ni,nj->nij", sums, sums)
    return np.asarray(np.einsum("n,nij->ij", np.linalg.det(triangles) / 120, products))


def compute_point_pseudo_inertia(points: Floats) -> Floats:
    """Return the pseudo-inertia (4, 4) of a mass of 1 divided equally among points (n, 3)."""
    corners = np.column_stack([points, np.ones(len(points))])
    return np.asarray(corners.T @ corners / len(points))


def tensor_to_pseudo_inertia(mass_kg: float, tensor_kg_m2: Floats, frame: Pose) -> Floats:
    """Convert a mass and an inertia tensor (3, 3) to a pseudo-inertia (4, 4).

    Args:
        tensor_kg_m2: Inertia tensor about the centre of mass, along the axes of ``frame``.
        frame: Frame with the centre of mass as its origin, in the frame of the result.
    """
    pseudo_inertia = np.zeros((4, 4))
    pseudo_inertia[:3, :3] = np.trace(tensor_kg_m2) / 2 * np.eye(3) - tensor_kg_m2
    pseudo_inertia[3, 3] = mass_kg
    return transform_pseudo_inertia(pseudo_inertia, frame.matrix())


def transform_pseudo_inertia(pseudo_inertias: Floats, matrices: Floats) -> Floats:
    """Transform pseudo-inertias (..., 4, 4) to another frame.

    Args:
        pseudo_inertias: Pseudo-inertias of any number of masses.
        matrices: (..., 4, 4) poses of their frames in the other one.
    """
    return np.asarray(matrices @ pseudo_inertias @ np.swapaxes(matrices, -1, -2))


def compute_center_of_mass(pseudo_inertia: Floats) -> Floats:
    """Return the centre of mass (3,) of a pseudo-inertia (4, 4)."""
    return np.asarray(pseudo_inertia[:3, 3] / pseudo_inertia[3, 3])


def compute_principal_axes(pseudo_inertia: Floats) -> tuple[Pose, Vec3]:
    """Return the frame of the principal axes and the moments of inertia about them.

    Axes that are principal already are kept, also for equal moments.

    Returns:
        The pose of the principal frame, centred on the mass, and three moments over the mass, in square metres.
    """
    center, covariance = compute_center_of_mass(pseudo_inertia), _compute_covariance(pseudo_inertia)
    if np.abs(covariance - np.diag(np.diag(covariance))).max() <= _DIAGONAL_TOLERANCE * np.trace(
        covariance
    ):
        rotation, variances = Rotation.identity(), np.diag(covariance)
    else:
        variances, axes = np.linalg.eigh(covariance)
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        rotation = Rotation.from_matrix(axes)
    variances = variances.clip(0, None)
    return Pose(quaternion(rotation), vec3(center)), vec3(variances.sum() - variances)


def is_plausible_inertia(
    pseudo_inertia: Floats, points: Floats, uniform_pseudo_inertia: Floats
) -> bool:
    """Return whether a pseudo-inertia is plausible for an object.

    No variance along a principal axis may be negative (Traversaro et al. 2016, "Identification of fully physical
    consistent inertial parameters") or exceed the bound for the object's extent (Bhatia and Davis 2000, "A better
    bound on the variance"). A mass less than a tenth as wide as a uniform one is taken for a placeholder.

    Args:
        pseudo_inertia: (4, 4) of a mass above 0.
        points: (n, 3) points of the object, including its extreme points.
        uniform_pseudo_inertia: (4, 4) of the object with uniform density.
    """
    with np.errstate(all="ignore"):
        covariance = _compute_covariance(pseudo_inertia)
    if not np.isfinite(covariance).all():
        return False
    variances, axes = np.linalg.eigh(covariance)
    projections = (points - compute_center_of_mass(pseudo_inertia)) @ axes
    low, high = projections.min(axis=0), projections.max(axis=0)
    tolerance = _TOLERANCE * (high - low)
    max_variances = (tolerance - low) * (tolerance + high)
    return bool(
        (variances >= -_TOLERANCE * variances.max()).all()
        and (variances <= max_variances).all()
        and variances.sum() >= _TOLERANCE**2 * np.trace(_compute_covariance(uniform_pseudo_inertia))
    )


def _compute_covariance(pseudo_inertia: Floats) -> Floats:
    center = compute_center_of_mass(pseudo_inertia)
    return np.asarray(pseudo_inertia[:3, :3] / pseudo_inertia[3, 3] - np.outer(center, center))
