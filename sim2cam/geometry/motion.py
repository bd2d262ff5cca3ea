"""Rigid motion with constant velocity over short times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Twist:
    """Linear and angular velocity of a frame in its parent.

    Attributes:
        velocity_m_s: Velocity of the origin.
        spin_rad_s: Angular velocity about the origin, along the axes of the parent.
    """

    velocity_m_s: Vec3 = (0.0, 0.0, 0.0)
    spin_rad_s: Vec3 = (0.0, 0.0, 0.0)

    def express_in(self, pose: Pose) -> Twist:
        """Return the same motion along the axes of a frame in the parent."""
        rotation = pose.rotation().inv()
        return Twist(vec3(rotation.apply(self.velocity_m_s)), vec3(rotation.apply(self.spin_rad_s)))


ZERO_TWIST = Twist()


@dataclass(frozen=True)
class RigidMotion:
    """Motion of a frame with constant linear and angular velocity.

    This is the motion of a free body about its centre of mass.
    """

    pose: Pose
    twist: Twist = ZERO_TWIST

    def compute_pose(self, seconds: float) -> Pose:
        """Return the pose at a time."""
        if seconds == 0 or self.twist == ZERO_TWIST:
            return self.pose
        rotation_change = Rotation.from_rotvec(np.multiply(self.twist.spin_rad_s, seconds))
        translation = np.multiply(self.twist.velocity_m_s, seconds)
        rotation = quaternion(rotation_change * self.pose.rotation())
        return Pose(rotation, vec3(self.pose.position_m + translation))

    def to_parent(self, points_m: Floats, seconds: Floats) -> Floats:
        """Transform points (n, 3), each at its own time (n,), to the parent frame."""
        if self.twist == ZERO_TWIST or not seconds.any():
            return self.pose.apply(points_m)
        rotated = self._compute_rotations(seconds).apply(self.pose.rotation().apply(points_m))
        return np.asarray(rotated + self._compute_origins(seconds))

    def from_parent(self, points_m: Floats, seconds: Floats) -> Floats:
        """Transform points (n, 3) of the parent, each at its own time (n,), to this frame."""
        if self.twist == ZERO_TWIST or not seconds.any():
            return self.pose.inverse().apply(points_m)
        relative = points_m - self._compute_origins(seconds)
        rotated = self._compute_rotations(-seconds).apply(relative)
        return np.asarray(self.pose.rotation().inv().apply(rotated))

    def _compute_rotations(self, seconds: Floats) -> Rotation:
        return Rotation.from_rotvec(np.outer(seconds, self.twist.spin_rad_s))

    def _compute_origins(self, seconds: Floats) -> Floats:
        displacements = np.outer(seconds, self.twist.velocity_m_s)
        return np.asarray(displacements + np.asarray(self.pose.position_m))
