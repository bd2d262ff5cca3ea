"""Articulated objects: links, joints and forward kinematics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.errors import SpecError
from sim2cam.geometry.boxes import compute_box_corners
from sim2cam.geometry.poses import Pose, Vec3, vec3

Floats = NDArray[np.float64]
JointKind = Literal["fixed", "revolute", "prismatic"]
JointStates = tuple[tuple[str, float], ...]
"""State by joint name: radians for revolute joints, metres for prismatic ones."""


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another with ``state = factor * other + offset``."""

    joint: str
    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Joint:
    """A joint between two links.

    Attributes:
        name: Unique name in its articulation.
        kind: Whether the link rotates about the axis or slides along it.
        parent: Index of the parent link.
        pose: Pose of the link's frame in the parent link at state 0.
        axis: Unit vector in the link's frame, through its origin.
        low, high: Limits of the state; -pi and pi for a continuous joint.
        mimic: Joint that it follows; None for a free state.
    """

    name: str
    kind: JointKind
    parent: int
    pose: Pose
    axis: Vec3 = (0.0, 0.0, 1.0)
    low: float = 0.0
    high: float = 0.0
    mimic: Mimic | None = None

    def __post_init__(self) -> None:
        if not -math.inf < self.low <= self.high < math.inf:
            raise SpecError(
                f"joint '{self.name}' has limits {self.low:g} to {self.high:g}. They must be finite, "
                "with lower <= upper."
            )

    @property
    def is_free(self) -> bool:
        """Whether the joint has a state of its own."""
        return self.kind != "fixed" and self.mimic is None

    def compute_transform(self, state: float) -> Floats:
        """Return the transform (4, 4) of the link from its pose at state 0."""
        transform = np.eye(4)
        if self.kind == "revolute":
            transform[:3, :3] = Rotation.from_rotvec(np.multiply(self.axis, state)).as_matrix()
        elif self.kind == "prismatic":
            transform[:3, 3] = np.multiply(self.axis, state)
        return transform


@dataclass(frozen=True)
class Articulation:
    """Links of an object, each after its parent; the first link is the object's frame.

    Attributes:
        links: Names of the links.
        joints: Joint *i* carries link *i* + 1.
        boxes: Low and high corner of each link's box in its own frame, metres; None for links without
            geometry.
    """

    links: tuple[str, ...]
    joints: tuple[Joint, ...]
    boxes: tuple[tuple[Vec3, Vec3] | None, ...]

    @property
    def free_joints(self) -> tuple[Joint, ...]:
        """Joints with a state of their own."""
        return tuple(joint for joint in self.joints if joint.is_free)

    def get_rest_states(self) -> JointStates:
        """Return the state nearest to 0 of each free joint."""
        return tuple(
            (joint.name, min(max(0.0, joint.low), joint.high)) for joint in self.free_joints
        )

    def interpolate_states(self, fractions: Mapping[str, float]) -> JointStates:
        """Return the state of each free joint at a fraction between its limits; 0.5 by default."""
        return tuple(
            (joint.name, joint.low + fractions.get(joint.name, 0.5) * (joint.high - joint.low))
            for joint in self.free_joints
        )

    def compute_link_matrices(self, states: JointStates = ()) -> Floats:
        """Return the pose (n, 4, 4) of each link in the object frame; unnamed joints are at 0."""
        states_by_name = dict(states)
        matrices = [np.eye(4)]
        for joint in self.joints:
            state = states_by_name.get(joint.name, 0.0)
            if joint.mimic:
                leader = states_by_name.get(joint.mimic.joint, 0.0)
                state = joint.mimic.factor * leader + joint.mimic.offset
            matrices.append(
                matrices[joint.parent] @ joint.pose.matrix() @ joint.compute_transform(state)
            )
        return np.array(matrices)

    def compute_joint_origins(self, states: JointStates) -> dict[str, Vec3]:
        """Return the origins of all moving joints in the object frame, by name."""
        matrices = self.compute_link_matrices(states)[1:]
        return {
            joint.name: vec3(matrix[:3, 3])
            for joint, matrix in zip(self.joints, matrices, strict=True)
            if joint.kind != "fixed"
        }

    def compute_link_corners(self, states: JointStates) -> tuple[Floats, ...]:
        """Return the box corners (8, 3) of each link with geometry, in the object frame."""
        return tuple(
            compute_box_corners(*box) @ matrix[:3, :3].T + matrix[:3, 3]
            for box, matrix in zip(self.boxes, self.compute_link_matrices(states), strict=True)
            if box is not None
        )
