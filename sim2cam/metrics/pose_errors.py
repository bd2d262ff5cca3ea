"""Errors of estimated object poses: MSSD, MSPD (BOP), ADD and ADD-S (Linemod).

Poses are matrices (4, 4) from the object's to the camera's frame, in metres. They are used as
given: annotations whose axes are not exactly orthogonal are scored as such, as in BOP's toolkit.
Points are surface points (n, 3), metres; symmetries are transforms (k, 4, 4) of
``compute_symmetry_transforms``; camera matrices are those of pinhole cameras (3, 3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

Floats = NDArray[np.float64]

_MAX_TRAVEL = 0.01  # step of a continuous symmetry, over the diameter, as in BOP


def compute_symmetry_transforms(
    discrete: Sequence[Floats], continuous: Sequence[tuple[Floats, Floats]]
) -> Floats:
    """Return the symmetry transforms (n, 4, 4) of an object; the first is the identity.

    Continuous symmetries are sampled so that no point moves more than a hundredth of the diameter
    per step (Hodan et al. 2020, "BOP Challenge 2020 on 6D Object Localization", section 2.2).

    Args:
        discrete: transforms (4, 4), metres.
        continuous: axis, and a point on it in metres, of each rotational symmetry.
    """
    discrete_transforms = np.stack([np.eye(4), *discrete])
    rotations = [_sample_axis_rotations(axis, point) for axis, point in continuous]
    if not rotations:
        return discrete_transforms
    return np.asarray(np.concatenate(rotations)[None] @ discrete_transforms[:, None]).reshape(
        -1, 4, 4
    )


def compute_mssd(
    estimated_pose: Floats, true_pose: Floats, points: Floats, symmetries: Floats
) -> float:
    """Return the maximum symmetry-aware surface distance, metres.

    The largest distance between corresponding points, minimised over symmetries (Drost et al. 2017;
    Hodan et al. 2020).
    """
    estimated = _transform_points(points, estimated_pose)
    shifts = (estimated - _transform_points(points, true_pose @ s) for s in symmetries)
    return min(float(np.linalg.norm(shift, axis=1).max()) for shift in shifts)


def compute_mspd(
    estimated_pose: Floats,
    true_pose: Floats,
    points: Floats,
    symmetries: Floats,
    camera_matrix: Floats,
) -> float:
    """Return the maximum symmetry-aware projection distance, pixels; infinite if not projectable."""
    projected = _project_points(points, estimated_pose, camera_matrix)
    shifts = (projected - _project_points(points, true_pose @ s, camera_matrix) for s in symmetries)
    errors = (np.linalg.norm(shift, axis=1).max() for shift in shifts)
    return min((float(e) for e in errors if np.isfinite(e)), default=float("inf"))


def compute_add(estimated_pose: Floats, true_pose: Floats, points: Floats) -> float:
    """Return the average distance of corresponding points, metres (ADD; Hinterstoisser et al. 2012)."""
    shifts = _transform_points(points, estimated_pose) - _transform_points(points, true_pose)
    return float(np.linalg.norm(shifts, axis=1).mean())


def compute_add_s(estimated_pose: Floats, true_pose: Floats, points: Floats) -> float:
    """Return the average distance to the closest point, metres (ADD-S).

    Does not distinguish views that look alike (Hinterstoisser et al. 2012), nor some that do not.
    """
    distances, _ = cKDTree(_transform_points(points, estimated_pose)).query(
        _transform_points(points, true_pose)
    )
    return float(distances.mean())


def _sample_axis_rotations(axis: Floats, point: Floats) -> Floats:
    """Return rotations (n, 4, 4) about an axis through a point."""
    n_steps = int(np.ceil(np.pi / _MAX_TRAVEL))  # on a circle with the object's diameter
    angles = np.arange(n_steps) * (2 * np.pi / n_steps)
    rotations = np.tile(np.eye(4), (n_steps, 1, 1))
    vectors = angles[:, None] * axis / np.linalg.norm(axis)
    rotations[:, :3, :3] = Rotation.from_rotvec(vectors).as_matrix()
    rotations[:, :3, 3] = point - rotations[:, :3, :3] @ point
    return rotations


def _transform_points(points: Floats, pose: Floats) -> Floats:
    return np.asarray(points @ pose[:3, :3].T + pose[:3, 3])


def _project_points(points: Floats, pose: Floats, camera_matrix: Floats) -> Floats:
    """Return the projections (n, 2) of points (n, 3), pixels."""
    projected = _transform_points(points, pose) @ camera_matrix.T
    with np.errstate(divide="ignore", invalid="ignore"):  # points at depth 0
        return np.asarray(projected[:, :2] / projected[:, 2:])
