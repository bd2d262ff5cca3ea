"""Rigid poses with (w, x, y, z) quaternions, metres and right-handed frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

Vec3 = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]


@dataclass(frozen=True)
class Pose:
    """Pose of a frame in its parent: ``x_parent = R x + position_m``.

    Attributes:
        rotation_wxyz: Unit quaternion of R.
        position_m: Origin of the frame in the parent, metres.
    """

    rotation_wxyz: Quaternion = (1.0, 0.0, 0.0, 0.0)
    position_m: Vec3 = (0.0, 0.0, 0.0)

    @classmethod
    def from_matrix(cls, matrix: NDArray[np.float64]) -> Pose:
        """Return the pose of a homogeneous matrix (4, 4)."""
        return cls(quaternion(Rotation.from_matrix(matrix[:3, :3])), vec3(matrix[:3, 3]))

    @classmethod
    def look_at(cls, eye_m: Vec3, target_m: Vec3, roll_rad: float) -> Pose:
        """Return the pose of an OpenCV camera (x right, y down, z forward) that looks from the eye at the target.

        At roll 0 image up is world z; for a vertical view it is world y.

        Raises:
            ValueError: If eye and target are the same point.
        """
        forward = np.subtract(target_m, eye_m)
        distance_m = np.linalg.norm(forward)
        if distance_m == 0:
            raise ValueError(f"eye and target of a camera are both {eye_m}")
        forward = forward / distance_m
        up = np.array([0.0, 0.0, 1.0]) if abs(forward[2]) < 0.9999 else np.array([0.0, 1.0, 0.0])
        right = np.cross(forward, up)
        right /= np.linalg.norm(right)
        axes = np.stack([right, np.cross(forward, right), forward], axis=1)  # columns x, y, z
        matrix = np.eye(4)
        matrix[:3, :3] = axes @ Rotation.from_euler("z", roll_rad).as_matrix()
        matrix[:3, 3] = eye_m
        return cls.from_matrix(matrix)

    def matrix(self) -> NDArray[np.float64]:
        """Return the homogeneous matrix (4, 4) to the parent frame."""
        matrix = np.eye(4)
        matrix[:3, :3] = self.rotation().as_matrix()
        matrix[:3, 3] = self.position_m
        return matrix

    def rotation(self) -> Rotation:
        """Return the rotation to the parent frame."""
        w, x, y, z = self.rotation_wxyz
        return Rotation.from_quat((x, y, z, w))

    def inverse(self) -> Pose:
        """Return the pose of the parent in this frame."""
        inverse_rotation = self.rotation().inv()
        return Pose(quaternion(inverse_rotation), vec3(-inverse_rotation.apply(self.position_m)))

    def __matmul__(self, other: Pose) -> Pose:
        """Return the composition that applies ``other`` first."""
        return Pose.from_matrix(self.matrix() @ other.matrix())

    def apply(self, points_m: NDArray[np.float64]) -> NDArray[np.float64]:
        """Transform points (n, 3) to the parent frame."""
        return np.asarray(self.rotation().apply(points_m) + np.asarray(self.position_m))


def quaternion(rotation: Rotation, *, canonical: bool = False) -> Quaternion:
    """Return the unit quaternion of a rotation."""
    x, y, z, w = rotation.as_quat(canonical=canonical)
    return float(w), float(x), float(y), float(z)


def vec3(values: NDArray[np.float64]) -> Vec3:
    """Return three values as a tuple of floats."""
    return float(values[0]), float(values[1]), float(values[2])
