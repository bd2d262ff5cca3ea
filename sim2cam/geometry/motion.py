"""Motion over a short time: what a free body does between two moments, and a hand with a camera."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Twist:
    """How a frame moves in its parent.

    Attributes:
        velocity_m_s: of its origin.
        spin_rad_s: around its origin, along the axes of the parent.
    """

    velocity_m_s: Vec3 = (0.0, 0.0, 0.0)
    spin_rad_s: Vec3 = (0.0, 0.0, 0.0)

    def express_in(self, pose: Pose) -> Twist:
        """Return the same motion, in the parent still, along the axes of a frame in it."""
        turn = pose.rotation().inv()
        return Twist(vec3(turn.apply(self.velocity_m_s)), vec3(turn.apply(self.spin_rad_s)))


ZERO_TWIST = Twist()


@dataclass(frozen=True)
class RigidMotion:
    """Where a moving frame is: its origin goes straight on, and it turns evenly around that.

    So a free body moves around its centre of mass.

    Attributes:
        pose: at 0 s, in the parent.
        twist: in the parent.
    """

    pose: Pose
    twist: Twist = ZERO_TWIST

    def compute_pose(self, seconds: float) -> Pose:
        """Return the pose at a time."""
        if seconds == 0 or self.twist == ZERO_TWIST:
            return self.pose
        turned = Rotation.from_rotvec(np.multiply(self.twist.spin_rad_s, seconds))
        away = np.multiply(self.twist.velocity_m_s, seconds)
        rotation = quaternion(turned * self.pose.rotation())
        return Pose(rotation, vec3(self.pose.position_m + away))

    def to_parent(self, points_m: Floats, seconds: Floats) -> Floats:
        """Return points (n, 3) of this frame, each at its own time (n,), in the parent."""
        if self.twist == ZERO_TWIST or not seconds.any():
            return self.pose.apply(points_m)
        turned = self._compute_rotations(seconds).apply(self.pose.rotation().apply(points_m))
        return np.asarray(turned + self._compute_origins(seconds))

    def from_parent(self, points_m: Floats, seconds: Floats) -> Floats:
        """Return points (n, 3) of the parent, each at its own time (n,), in this frame."""
        if self.twist == ZERO_TWIST or not seconds.any():
            return self.pose.inverse().apply(points_m)
        from_origin = points_m - self._compute_origins(seconds)
        back = self._compute_rotations(-seconds).apply(from_origin)
        return np.asarray(self.pose.rotation().inv().apply(back))

    def _compute_rotations(self, seconds: Floats) -> Rotation:
        return Rotation.from_rotvec(np.outer(seconds, self.twist.spin_rad_s))

    def _compute_origins(self, seconds: Floats) -> Floats:
        moved = np.outer(seconds, self.twist.velocity_m_s)
        return np.asarray(moved + np.asarray(self.pose.position_m))
