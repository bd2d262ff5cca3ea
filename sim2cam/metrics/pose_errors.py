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

_MOST_TRAVEL = 0.01  # of the diameter, between two steps of a continuous symmetry, as BOP has it


def symmetry_transforms(
    discrete: Sequence[Floats], continuous: Sequence[tuple[Floats, Floats]]
) -> Floats:
    """Returns matrices (n, 4, 4) after which an object looks the same; the first changes nothing.

    Turns about an axis are taken in steps in which no point travels more than a hundredth of the
    diameter (Hodan et al. 2020, "BOP Challenge 2020 on 6D Object Localization", section 2.2).

    Args:
        discrete: single ones (4, 4), metres.
        continuous: axis and a point on it, metres, of each about which every turn is one.
    """
    single = np.stack([np.eye(4), *discrete])
    turns = [_turns(axis, point) for axis, point in continuous]
    if not turns:
        return single
    return np.asarray(np.concatenate(turns)[None] @ single[:, None]).reshape(-1, 4, 4)


def mssd(found: Floats, truth: Floats, points: Floats, symmetries: Floats) -> float:
    """Returns the maximum symmetry-aware surface distance, metres.

    It is the largest distance of a point from where it should be, for the symmetry for which that is
    smallest (Drost et al. 2017; Hodan et al. 2020).

    Args:
        found, truth: poses (4, 4).
        points: of the surface (n, 3), metres.
        symmetries: of ``symmetry_transforms``.
    """
    placed = _placed(points, found)
    return min(
        float(np.linalg.norm(placed - _placed(points, truth @ symmetry), axis=1).max())
        for symmetry in symmetries
    )


def mspd(found: Floats, truth: Floats, points: Floats, symmetries: Floats, camera: Floats) -> float:
    """Returns the maximum symmetry-aware projection distance, pixels; infinite where nothing is seen.

    Args:
        found, truth: poses (4, 4).
        points: of the surface (n, 3), metres.
        symmetries: of ``symmetry_transforms``.
        camera: matrix (3, 3) of the pinhole.
    """
    seen = _seen(points, found, camera)
    errors = (
        np.linalg.norm(seen - _seen(points, truth @ symmetry, camera), axis=1).max()
        for symmetry in symmetries
    )
    return min((float(e) for e in errors if np.isfinite(e)), default=float("inf"))


def add(found: Floats, truth: Floats, points: Floats) -> float:
    """Returns the mean distance of points from where they should be, metres (Hinterstoisser et al. 2012).

    Args:
        found, truth: poses (4, 4).
        points: of the surface (n, 3), metres.
    """
    return float(np.linalg.norm(_placed(points, found) - _placed(points, truth), axis=1).mean())


def add_s(found: Floats, truth: Floats, points: Floats) -> float:
    """Returns the mean distance from where points should be to the nearest one, metres.

    It does not tell apart views that look alike (Hinterstoisser et al. 2012), nor some that do not.

    Args:
        found, truth: poses (4, 4).
        points: of the surface (n, 3), metres.
    """
    distances, _ = cKDTree(_placed(points, found)).query(_placed(points, truth))
    return float(distances.mean())


def _turns(axis: Floats, point: Floats) -> Floats:
    """Returns turns (n, 4, 4) about an axis through a point."""
    steps = int(np.ceil(np.pi / _MOST_TRAVEL))  # of a circle whose diameter is the object's
    angles = np.arange(steps) * (2 * np.pi / steps)
    turns = np.tile(np.eye(4), (steps, 1, 1))
    turns[:, :3, :3] = Rotation.from_rotvec(
        angles[:, None] * axis / np.linalg.norm(axis)
    ).as_matrix()
    turns[:, :3, 3] = point - turns[:, :3, :3] @ point
    return turns


def _placed(points: Floats, pose: Floats) -> Floats:
    return np.asarray(points @ pose[:3, :3].T + pose[:3, 3])


def _seen(points: Floats, pose: Floats, camera: Floats) -> Floats:
    """Returns where points (n, 3) are in the picture (n, 2), pixels."""
    x = _placed(points, pose) @ camera.T
    with np.errstate(divide="ignore", invalid="ignore"):  # of points beside the camera
        return np.asarray(x[:, :2] / x[:, 2:])
