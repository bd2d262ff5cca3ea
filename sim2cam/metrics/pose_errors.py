"""How far an estimated pose is from the true one, by the errors of BOP and of Linemod.

Poses are matrices (4, 4) from an object's frame to the camera's, in metres. They are taken as they are
given: annotations whose axes are not quite orthogonal are scored as such, as by BOP's toolkit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

Floats = NDArray[np.float64]

_MAX_TRAVEL = 0.01  # of the diameter, between two steps of a continuous symmetry, as BOP has it


def compute_symmetry_transforms(
    discrete: Sequence[Floats], continuous: Sequence[tuple[Floats, Floats]]
) -> Floats:
    """Return matrices (n, 4, 4) after which an object looks the same; the first changes nothing.

    Turns about an axis are taken in steps in which no point travels more than a hundredth of the
    diameter (Hodan et al. 2020, "BOP Challenge 2020 on 6D Object Localization", section 2.2).

    Args:
        discrete: single ones (4, 4), metres.
        continuous: axis and a point on it, metres, of each about which every turn is one.
    """
    single = np.stack([np.eye(4), *discrete])
    turns = [_sample_axis_rotations(axis, point) for axis, point in continuous]
    if not turns:
        return single
    return np.asarray(np.concatenate(turns)[None] @ single[:, None]).reshape(-1, 4, 4)


def compute_mssd(
    estimated_pose: Floats, true_pose: Floats, points: Floats, symmetries: Floats
) -> float:
    """Return the maximum symmetry-aware surface distance, metres.

    It is the largest distance of a point from where it should be, for the symmetry for which that is
    smallest (Drost et al. 2017; Hodan et al. 2020).

    Args:
        estimated_pose, true_pose: poses (4, 4).
        points: of the surface (n, 3), metres.
        symmetries: of ``compute_symmetry_transforms``.
    """
    placed = _transform_points(points, estimated_pose)
    return min(
        float(
            np.linalg.norm(placed - _transform_points(points, true_pose @ symmetry), axis=1).max()
        )
        for symmetry in symmetries
    )


def compute_mspd(
    estimated_pose: Floats,
    true_pose: Floats,
    points: Floats,
    symmetries: Floats,
    camera_matrix: Floats,
) -> float:
    """Return the maximum symmetry-aware projection distance, pixels; infinite where nothing is seen.

    Args:
        estimated_pose, true_pose: poses (4, 4).
        points: of the surface (n, 3), metres.
        symmetries: of ``compute_symmetry_transforms``.
        camera_matrix: matrix (3, 3) of the pinhole.
    """
    seen = _project_points(points, estimated_pose, camera_matrix)
    errors = (
        np.linalg.norm(
            seen - _project_points(points, true_pose @ symmetry, camera_matrix), axis=1
        ).max()
        for symmetry in symmetries
    )
    return min((float(e) for e in errors if np.isfinite(e)), default=float("inf"))


def compute_add(estimated_pose: Floats, true_pose: Floats, points: Floats) -> float:
    """Return the mean distance of points from where they should be, metres (Hinterstoisser et al. 2012).

    Args:
        estimated_pose, true_pose: poses (4, 4).
        points: of the surface (n, 3), metres.
    """
    return float(
        np.linalg.norm(
            _transform_points(points, estimated_pose) - _transform_points(points, true_pose), axis=1
        ).mean()
    )


def compute_add_s(estimated_pose: Floats, true_pose: Floats, points: Floats) -> float:
    """Return the mean distance from where points should be to the nearest one, metres.

    It does not tell apart views that look alike (Hinterstoisser et al. 2012), nor some that do not.

    Args:
        estimated_pose, true_pose: poses (4, 4).
        points: of the surface (n, 3), metres.
    """
    distances, _ = cKDTree(_transform_points(points, estimated_pose)).query(
        _transform_points(points, true_pose)
    )
    return float(distances.mean())


def _sample_axis_rotations(axis: Floats, point: Floats) -> Floats:
    """Return turns (n, 4, 4) about an axis through a point."""
    steps = int(np.ceil(np.pi / _MAX_TRAVEL))  # of a circle whose diameter is the object's
    angles = np.arange(steps) * (2 * np.pi / steps)
    turns = np.tile(np.eye(4), (steps, 1, 1))
    turns[:, :3, :3] = Rotation.from_rotvec(
        angles[:, None] * axis / np.linalg.norm(axis)
    ).as_matrix()
    turns[:, :3, 3] = point - turns[:, :3, :3] @ point
    return turns


def _transform_points(points: Floats, pose: Floats) -> Floats:
    return np.asarray(points @ pose[:3, :3].T + pose[:3, 3])


def _project_points(points: Floats, pose: Floats, camera_matrix: Floats) -> Floats:
    """Return where points (n, 3) are in the picture (n, 2), pixels."""
    x = _transform_points(points, pose) @ camera_matrix.T
    with np.errstate(divide="ignore", invalid="ignore"):  # of points beside the camera
        return np.asarray(x[:, :2] / x[:, 2:])
