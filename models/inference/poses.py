"""Estimation of object poses from predicted surface points."""

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

_RANSAC_THRESHOLD_SCALES = 3.0  # inlier threshold of RANSAC, in median uncertainties
_COST_TOLERANCE = 1e-5  # relative change of the cost at convergence
_MIN_DEPTH_RATIO = 1e-3  # lowest depth during optimization, relative to the initial one


@dataclass(frozen=True)
class PoseDetection:
    """Detection with its pose.

    Attributes:
        detection: the detection.
        pose: pose of the object in the camera frame; None if no pose fits.
    """

    detection: Detection
    pose: Pose | None

    def project_corners(self, corners_m: Floats, lens: CentralLens) -> Floats | None:
        """Project the corners of the object's 3D box to pixels (8, 2), box coordinates.

        Return None without a pose, or if the lens does not see all corners.

        Args:
            corners_m: corners in the object frame (8, 3).
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
    """Return the detections in an image with their poses, by falling score.

    Args:
        rgb, lens, meshes: see ``estimate_pose``.
    """
    assert prediction.surfaces is not None  # a detector with poses always predicts them
    return tuple(
        estimate_pose(detection, surface_points, rgb, lens, meshes)
        for detection, surface_points in zip(
            prediction.detections, prediction.surfaces, strict=True
        )
    )


def estimate_pose(
    detection: Detection,
    surface_points: SurfacePoints,
    rgb: NDArray[np.uint8],
    lens: CentralLens,
    meshes: Mapping[str, Floats] = NO_MESHES,
) -> PoseDetection:
    """Return a detection with its pose.

    Args:
        rgb: image (h, w, 3).
        meshes: triangles (n, 3, 3) in metres, object frame, by category. Poses of these categories are refined
            with ``refine_pose``.
    """
    pose = solve_pose(surface_points, lens)
    if pose is not None and detection.category in meshes:
        pose = refine_pose(rgb, lens, pose, surface_points, meshes[detection.category])
    return PoseDetection(detection, pose)


def check_poses(detector: AnyDetector) -> None:
    """Raise ``UsageError`` if a detector predicts no poses."""
    if not detector.card.objects:
        raise UsageError(
            "the weights predict no poses. Train with poses = true in the recipe's [train]."
        )


def solve_pose(surface_points: SurfacePoints, lens: CentralLens) -> Pose | None:
    """Solve the pose from surface points; return None if none fits.

    RANSAC with SQPnP (Terzakis and Lourakis 2020) gives the initial pose. A robust least-squares fit then
    minimizes the reprojection errors of all points, each divided by its uncertainty.
    """
    normalized_points = surface_points.project_to_plane(lens)
    solution = None if normalized_points is None else _refine_plane_pose(normalized_points)
    if normalized_points is None or solution is None:
        return None
    inverse_rotation = normalized_points.camera_rotation.inv()
    return Pose(
        quaternion(inverse_rotation * solution[0]), vec3(inverse_rotation.apply(solution[1]))
    )


def _refine_plane_pose(normalized_points: NormalizedPoints) -> tuple[Rotation, Floats] | None:
    """Return rotation and position that minimize the robust reprojection error; None if that fails."""
    points_m = normalized_points.object_points_m
    initial_rotation, initial_position = _solve_initial_pose(
        points_m,
        normalized_points.plane_points,
        _RANSAC_THRESHOLD_SCALES * float(np.median(normalized_points.uncertainties)),
    )
    initial_points = initial_rotation.apply(points_m) + initial_position
    if not _is_in_front(initial_points):
        return None

    def apply_step(step: Floats) -> tuple[Rotation, Floats]:
        return Rotation.from_rotvec(step[:3]) * initial_rotation, initial_position + step[3:]

    def compute_residuals(step: Floats) -> Floats:
        rotation, position = apply_step(step)
        points = rotation.apply(points_m) + position
        residuals = (
            points[:, :2] / np.maximum(points[:, 2:], _MIN_DEPTH_RATIO * initial_points[:, 2].min())
            - normalized_points.plane_points
        )
        return np.asarray(residuals / normalized_points.uncertainties[:, None]).ravel()

    solution = apply_step(
        least_squares(
            compute_residuals, np.zeros(6), loss="cauchy", x_scale="jac", ftol=_COST_TOLERANCE
        ).x
    )
    return solution if _is_in_front(solution[0].apply(points_m) + solution[1]) else None


def _solve_initial_pose(
    points_m: Floats, plane_points: Floats, reprojection_error: float
) -> tuple[Rotation, Floats]:
    """Return an approximate pose, from RANSAC inliers or else from all points."""
    for method in (cv2.SOLVEPNP_SQPNP, cv2.SOLVEPNP_EPNP):
        try:
            is_solved, rotation_vector, translation, _ = cv2.solvePnPRansac(
                points_m,
                plane_points,
                np.eye(3),
                None,
                reprojectionError=reprojection_error,
                flags=method,
            )
            if not is_solved:
                is_solved, rotation_vector, translation = cv2.solvePnP(
                    points_m, plane_points, np.eye(3), None, flags=method
                )
        except cv2.error:  # SQPnP refuses nearly coincident points, as of distant objects
            continue
        if not is_solved:
            continue
        return Rotation.from_rotvec(rotation_vector.ravel()), np.asarray(
            translation, np.float64
        ).reshape(3)
    return Rotation.identity(), np.full(3, np.nan)


def _is_in_front(points_m: Floats) -> bool:
    return bool(np.isfinite(points_m).all() and (points_m[:, 2] > 0).all())
