"""How the links of a thing hang together, and where they are when its joints stand so or so."""

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
"""State of each joint by its name: radians of a revolute one, metres of a prismatic one."""


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: its state is ``factor`` times that one's, plus ``offset``."""

    joint: str
    factor: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Joint:
    """How one link hangs on another.

    Attributes:
        name: unique in its articulation.
        kind: whether the link turns about an axis or slides along it.
        parent: number of the link that it hangs on.
        pose: of the link's frame in that one's, at the state 0.
        axis: unit vector in the link's frame, through its origin.
        low, high: limits of the state; a link that turns freely has half a turn both ways.
        mimic: the joint that it follows; None when it has a state of its own.
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
                f"joint '{self.name}' goes from {self.low:g} to {self.high:g}. It needs finite limits, "
                "lower <= upper."
            )

    @property
    def is_free(self) -> bool:
        """Whether it has a state of its own."""
        return self.kind != "fixed" and self.mimic is None

    def compute_transform(self, state: float) -> Floats:
        """Return the matrix (4, 4) of the link's way from where it is at the state 0."""
        found = np.eye(4)
        if self.kind == "revolute":
            found[:3, :3] = Rotation.from_rotvec(np.multiply(self.axis, state)).as_matrix()
        elif self.kind == "prismatic":
            found[:3, 3] = np.multiply(self.axis, state)
        return found


@dataclass(frozen=True)
class Articulation:
    """The links of a thing, each after the one that it hangs on; the first is the thing's frame.

    Attributes:
        links: their names.
        joints: joint *i* carries link *i* + 1.
        boxes: opposite corners of each link's box in its own frame, metres; None of one of which
            nothing is seen.
    """

    links: tuple[str, ...]
    joints: tuple[Joint, ...]
    boxes: tuple[tuple[Vec3, Vec3] | None, ...]

    @property
    def free_joints(self) -> tuple[Joint, ...]:
        """Those that have a state of their own."""
        return tuple(joint for joint in self.joints if joint.is_free)

    def get_rest_states(self) -> JointStates:
        """Return the state of each free joint that is nearest to 0."""
        return tuple((j.name, min(max(0.0, j.low), j.high)) for j in self.free_joints)

    def interpolate_states(self, fractions: Mapping[str, float]) -> JointStates:
        """Return the state of each free joint so far on its way from low (0) to high (1); halfway where
        nothing is said.
        """
        return tuple(
            (j.name, j.low + fractions.get(j.name, 0.5) * (j.high - j.low))
            for j in self.free_joints
        )

    def compute_link_matrices(self, states: JointStates = ()) -> Floats:
        """Return the pose (n, 4, 4) of each link in the thing's frame; joints not named stand at 0."""
        known = dict(states)
        found = [np.eye(4)]
        for joint in self.joints:
            state = known.get(joint.name, 0.0)
            if joint.mimic:
                leader = known.get(joint.mimic.joint, 0.0)
                state = joint.mimic.factor * leader + joint.mimic.offset
            found.append(found[joint.parent] @ joint.pose.matrix() @ joint.compute_transform(state))
        return np.array(found)

    def compute_joint_origins(self, states: JointStates) -> dict[str, Vec3]:
        """Return where the origins of all joints that move are, in the thing's frame."""
        matrices = self.compute_link_matrices(states)[1:]
        return {
            joint.name: vec3(matrix[:3, 3])
            for joint, matrix in zip(self.joints, matrices, strict=True)
            if joint.kind != "fixed"
        }

    def compute_link_corners(self, states: JointStates) -> tuple[Floats, ...]:
        """Return the corners (8, 3) of the box of each link that is seen, in the thing's frame."""
        return tuple(
            compute_box_corners(*box) @ matrix[:3, :3].T + matrix[:3, 3]
            for box, matrix in zip(self.boxes, self.compute_link_matrices(states), strict=True)
            if box is not None
        )
