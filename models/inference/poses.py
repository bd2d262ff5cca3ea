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
from sim2cam.models.inference.detections import NormalizedPoints, Prediction, SurfacePoints
from sim2cam.models.inference.detector import AnyDetector
from sim2cam.models.inference.pose_refinement import refine_pose
from sim2cam.models.training.images import PIXEL_CENTRE_OFFSET

Floats = NDArray[np.float64]

NO_MESHES: Mapping[str, Floats] = MappingProxyType({})

_RANSAC_THRESHOLD_SCALES = 3.0  # spreads of the middle point, within which points agree on a pose
_COST_TOLERANCE = 1e-5  # relative change of the sum, at which it has come to rest
_MIN_DEPTH_RATIO = 1e-3  # of the first distance, to which no point comes on the way


@dataclass(frozen=True)
class PoseDetection:
    """An object that was found, and how it lies.

    Attributes:
        detection: what it is and where in the picture.
        pose: its frame in the camera frame; None where what is seen of it fits no pose.
    """

    detection: Detection
    pose: Pose | None

    def project_corners(self, corners_m: Floats, lens: CentralLens) -> Floats | None:
        """Return where the corners (8, 2) of its box in space are, pixels as boxes have them.

        None without a pose, and where the lens does not see all of them.

        Args:
            corners_m: in the object's frame (8, 3).
            lens: through which they are seen.
        """
        points = None if self.pose is None else self.pose.apply(corners_m)
        if points is None or not lens.can_project(points).all():
            return None
        return lens.project(points) + PIXEL_CENTRE_OFFSET


def estimate_poses(
    prediction: Prediction,
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    meshes: Mapping[str, Floats] = NO_MESHES,
) -> tuple[PoseDetection, ...]:
    """Return what was seen in an image, with its poses, surest first.

    Args:
        prediction: by a detector that was trained with poses, in an image taken through the lens.
        rgb, lens, meshes: as ``placed`` takes them.
    """
    assert prediction.surfaces is not None  # of all that a detector with objects finds
    return tuple(
        estimate_pose(one, surface, rgb, lens, meshes)
        for one, surface in zip(prediction.detections, prediction.surfaces, strict=True)
    )


def estimate_pose(
    detection: Detection,
    surface_points: SurfacePoints,
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    meshes: Mapping[str, Floats] = NO_MESHES,
) -> PoseDetection:
    """Return an object that was found, with its pose.

    Args:
        detection: the object.
        surface_points: what is seen of it.
        rgb: the image (height, width, 3).
        lens: through which it was taken.
        meshes: triangles (n, 3, 3) of objects in their own frames, by category, metres. Of these, poses are
            brought to where their outlines fit the image (``refine_pose``).
    """
    pose = solve_pose(surface_points, lens)
    if pose is not None and detection.category in meshes:
        pose = refine_pose(rgb, lens, pose, surface_points, meshes[detection.category])
    return PoseDetection(detection, pose)


def check_poses(detector: AnyDetector) -> None:
    """Refuse a detector that finds no poses.

    Raises:
        UsageError: it is one.
    """
    if not detector.card.objects:
        raise UsageError(
            "the weights find boxes alone. Train them with poses = true in the recipe's [train]."
        )


def solve_pose(surface_points: SurfacePoints, lens: CentralLens) -> Pose | None:
    """Return the pose that explains where points of an object are seen; None where none does.

    It starts with SQPnP (Terzakis and Lourakis 2020) on the points that agree, by RANSAC, and ends at
    the least of a robust sum over all of them of residuals, each over its point's spread: what the
    detector is not sure of counts little, and a point that is far off does not pull the others with it.

    Args:
        surface_points: what is seen.
        lens: through which it is.
    """
    plane = surface_points.project_to_plane(lens)
    found = None if plane is None else _refine_plane_pose(plane)
    if plane is None or found is None:
        return None
    back = plane.camera_rotation.inv()
    return Pose(quaternion(back * found[0]), vec3(back.apply(found[1])))


def _refine_plane_pose(normalized_points: NormalizedPoints) -> tuple[Rotation, Floats] | None:
    """Return where the points are nearest to their places, over their spreads."""
    points_m = normalized_points.object_points_m
    start, first = _solve_initial_pose(
        points_m,
        normalized_points.plane_points,
        _RANSAC_THRESHOLD_SCALES * float(np.median(normalized_points.uncertainties)),
    )
    begun = start.apply(points_m) + first
    if not _is_in_front(begun):
        return None

    def apply_step(step: Floats) -> tuple[Rotation, Floats]:
        return Rotation.from_rotvec(step[:3]) * start, first + step[3:]

    def compute_residuals(step: Floats) -> Floats:
        rotation, position = apply_step(step)
        seen = rotation.apply(points_m) + position
        off = (
            seen[:, :2] / np.maximum(seen[:, 2:], _MIN_DEPTH_RATIO * begun[:, 2].min())
            - normalized_points.plane_points
        )
        return np.asarray(off / normalized_points.uncertainties[:, None]).ravel()

    found = apply_step(
        least_squares(
            compute_residuals, np.zeros(6), loss="cauchy", x_scale="jac", ftol=_COST_TOLERANCE
        ).x
    )
    return found if _is_in_front(found[0].apply(points_m) + found[1]) else None


def _solve_initial_pose(
    points_m: Floats, plane_points: Floats, reprojection_error: float
) -> tuple[Rotation, Floats]:
    """Return about where points are, from those whose places agree to a reach, or else from all."""
    for method in (cv2.SOLVEPNP_SQPNP, cv2.SOLVEPNP_EPNP):
        try:
            agreed, turn, shift, _ = cv2.solvePnPRansac(
                points_m,
                plane_points,
                np.eye(3),
                None,
                reprojectionError=reprojection_error,
                flags=method,
            )
            if not agreed:
                agreed, turn, shift = cv2.solvePnP(
                    points_m, plane_points, np.eye(3), None, flags=method
                )
        except cv2.error:  # the first refuses places that are nearly one, as of what is far away
            continue
        if not agreed:
            continue
        return Rotation.from_rotvec(turn.ravel()), np.asarray(shift, np.float64).reshape(3)
    return Rotation.identity(), np.full(3, np.nan)


def _is_in_front(points_m: Floats) -> bool:
    return bool(np.isfinite(points_m).all() and (points_m[:, 2] > 0).all())
