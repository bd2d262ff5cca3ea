"""From the points of an object's surface that are seen to its pose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from sim2cam.errors import UsageError
from sim2cam.geometry.central_lens import CentralLens
from sim2cam.geometry.poses import Pose, quaternion, vec3
from sim2cam.metrics.detection import Detection
from sim2cam.models.inference.detections import Plane, Prediction, Surface
from sim2cam.models.inference.detector import AnyDetector
from sim2cam.models.inference.pose_refinement import refined_pose
from sim2cam.models.training.images import PIXEL_CENTRE

Floats = NDArray[np.float64]

NO_SHAPES: Mapping[str, Floats] = MappingProxyType({})

_AGREED = 3.0  # spreads of the middle point, within which points agree on a pose
_SETTLED = 1e-5  # relative change of the sum, at which it has come to rest
_NEAREST = 1e-3  # of the first distance, to which no point comes on the way


@dataclass(frozen=True)
class Placed:
    """An object that was found, and how it lies.

    Attributes:
        detection: what it is and where in the picture.
        pose: its frame in the camera frame; None where what is seen of it fits no pose.
    """

    detection: Detection
    pose: Pose | None

    def seen_corners(self, corners_m: Floats, lens: CentralLens) -> Floats | None:
        """Returns where the corners (8, 2) of its box in space are, pixels as boxes have them.

        None without a pose, and where the lens does not see all of them.

        Args:
            corners_m: in the object's frame (8, 3).
            lens: through which they are seen.
        """
        points = None if self.pose is None else self.pose.apply(corners_m)
        if points is None or not lens.sees(points).all():
            return None
        return lens.project(points) + PIXEL_CENTRE


def placed_in(
    seen: Prediction,
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    shapes: Mapping[str, Floats] = NO_SHAPES,
) -> tuple[Placed, ...]:
    """Returns what was seen in an image, with its poses, surest first.

    Args:
        seen: by a detector that was trained with poses, in an image taken through the lens.
        rgb, lens, shapes: as ``placed`` takes them.
    """
    assert seen.surfaces is not None  # of all that a detector with objects finds
    return tuple(
        placed(one, surface, rgb, lens, shapes)
        for one, surface in zip(seen.detections, seen.surfaces, strict=True)
    )


def placed(
    detection: Detection,
    surface: Surface,
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    shapes: Mapping[str, Floats] = NO_SHAPES,
) -> Placed:
    """Returns an object that was found, with its pose.

    Args:
        detection: the object.
        surface: what is seen of it.
        rgb: the image (height, width, 3).
        lens: through which it was taken.
        shapes: triangles (n, 3, 3) of objects in their own frames, by category, metres. Of these, poses are
            brought to where their outlines fit the image (``refined_pose``).
    """
    pose = solve_pose(surface, lens)
    if pose is not None and detection.category in shapes:
        pose = refined_pose(rgb, lens, pose, surface, shapes[detection.category])
    return Placed(detection, pose)


def check_poses(detector: AnyDetector) -> None:
    """Refuses a detector that finds no poses.

    Raises:
        UsageError: it is one.
    """
    if not detector.card.objects:
        raise UsageError(
            "the weights find boxes alone. Train them with poses = true in the recipe's [train]."
        )


def solve_pose(surface: Surface, lens: CentralLens) -> Pose | None:
    """Returns the pose that explains where points of an object are seen; None where none does.

    It starts with SQPnP (Terzakis and Lourakis 2020) on the points that agree, by RANSAC, and ends at
    the least of a robust sum over all of them of residuals, each over its point's spread: what the
    detector is not sure of counts little, and a point that is far off does not pull the others with it.

    Args:
        surface: what is seen.
        lens: through which it is.
    """
    plane = surface.plane(lens)
    found = None if plane is None else _fitted(plane)
    if plane is None or found is None:
        return None
    back = plane.ahead.inv()
    return Pose(quaternion(back * found[0]), vec3(back.apply(found[1])))


def _fitted(plane: Plane) -> tuple[Rotation, Floats] | None:
    """Returns where the points are nearest to their places, over their spreads."""
    points_m = plane.points_m
    start, first = _begun(points_m, plane.places, _AGREED * float(np.median(plane.spreads)))
    begun = start.apply(points_m) + first
    if not _is_before(begun):
        return None

    def moved(step: Floats) -> tuple[Rotation, Floats]:
        return Rotation.from_rotvec(step[:3]) * start, first + step[3:]

    def residuals(step: Floats) -> Floats:
        rotation, position = moved(step)
        seen = rotation.apply(points_m) + position
        off = seen[:, :2] / np.maximum(seen[:, 2:], _NEAREST * begun[:, 2].min()) - plane.places
        return np.asarray(off / plane.spreads[:, None]).ravel()

    found = moved(
        least_squares(residuals, np.zeros(6), loss="cauchy", x_scale="jac", ftol=_SETTLED).x
    )
    return found if _is_before(found[0].apply(points_m) + found[1]) else None


def _begun(points_m: Floats, places: Floats, reach: float) -> tuple[Rotation, Floats]:
    """Returns about where points are, from those whose places agree to a reach, or else from all."""
    for method in (cv2.SOLVEPNP_SQPNP, cv2.SOLVEPNP_EPNP):
        try:
            agreed, turn, shift, _ = cv2.solvePnPRansac(
                points_m, places, np.eye(3), None, reprojectionError=reach, flags=method
            )
            if not agreed:
                agreed, turn, shift = cv2.solvePnP(points_m, places, np.eye(3), None, flags=method)
        except cv2.error:  # the first refuses places that are nearly one, as of what is far away
            continue
        if not agreed:
            continue
        return Rotation.from_rotvec(turn.ravel()), np.asarray(shift, np.float64).reshape(3)
    return Rotation.identity(), np.full(3, np.nan)


def _is_before(points_m: Floats) -> bool:
    return bool(np.isfinite(points_m).all() and (points_m[:, 2] > 0).all())
