"""Recorded motion of a simulation, at any time between its steps."""

from __future__ import annotations

import math
from dataclasses import replace

from sim2cam.geometry.motion import RigidMotion
from sim2cam.render.physics.contacts import Contact
from sim2cam.scene.scene import Body, Scene

STEP_S = 1 / 240
"""Time step of the simulation."""

_STEP_TOLERANCE = 1e-6


class MotionRecording:
    """Motions of moving bodies after each step of a simulation, and contacts during it.

    Args:
        scene: scene at the start.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._motions: list[dict[str, RigidMotion]] = []
        self._contacts: list[tuple[Contact, ...]] = []

    def add(self, motions: dict[str, RigidMotion], contacts: tuple[Contact, ...]) -> None:
        """Append motions after one step by body name, and contacts during it."""
        self._motions.append(motions)
        self._contacts.append(contacts)

    def get_contacts(self, seconds: float) -> tuple[Contact, ...]:
        """Return the contacts of the step that contains or ends at a time."""
        return (
            self._contacts[self._count_steps(seconds) - 1] if seconds > 0 and self._contacts else ()
        )

    def get_scene(self, seconds: float) -> Scene:
        """Return the scene at a time after release; before, the bodies are at rest.

        Between steps, poses are extrapolated backwards from the later step: Bullet moves bodies by
        the velocity at the end of a step (semi-implicit Euler).
        """
        if seconds <= 0 or not self._motions:
            bodies = (apply_motion(body, RigidMotion(body.pose)) for body in self._scene.bodies)
            return replace(self._scene, bodies=tuple(bodies))
        step_count = self._count_steps(seconds)
        offset_s = seconds - step_count * STEP_S
        motions = self._motions[step_count - 1]
        bodies = (
            apply_motion(
                body,
                RigidMotion(motions[body.name].compute_pose(offset_s), motions[body.name].twist),
            )
            if body.name in motions
            else body
            for body in self._scene.bodies
        )
        return replace(self._scene, bodies=tuple(bodies))

    def _count_steps(self, seconds: float) -> int:
        """Return the number of steps up to the end of the step that contains a time."""
        return min(math.ceil(seconds / STEP_S - _STEP_TOLERANCE), len(self._motions))


def apply_motion(body: Body, motion: RigidMotion) -> Body:
    """Return the body with pose and velocities of a motion."""
    twist = motion.twist
    return replace(
        body, pose=motion.pose, velocity_m_s=twist.velocity_m_s, spin_rad_s=twist.spin_rad_s
    )
