"""Film: what bodies do on their way to rest, as the physics has it, at any time between its steps."""

from __future__ import annotations

import math
from dataclasses import replace

from sim2cam.geometry.motion import RigidMotion
from sim2cam.render.physics.contacts import Contact
from sim2cam.scene.scene import Body, Scene

STEP_S = 1 / 240
"""Length of a step of the simulation."""

_STEP_TOLERANCE = 1e-6


class MotionRecording:
    """The courses of moving bodies after each step of a simulation, and what touched in it.

    Args:
        scene: how it starts.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._courses: list[dict[str, RigidMotion]] = []
        self._contacts: list[tuple[Contact, ...]] = []

    def add(self, courses: dict[str, RigidMotion], contacts: tuple[Contact, ...]) -> None:
        """Append where bodies are after one more step, how they move, and what touched in it."""
        self._courses.append(courses)
        self._contacts.append(contacts)

    def contacts_at(self, seconds: float) -> tuple[Contact, ...]:
        """Return what touched in the step that ends, or is under way, at a time."""
        return (
            self._contacts[self._count_steps(seconds) - 1] if seconds > 0 and self._contacts else ()
        )

    def scene_at(self, seconds: float) -> Scene:
        """Return the scene at a time after the bodies were let go; before that they are held still.

        Between two steps bodies are where the later one, run backwards, has them: Bullet moves by
        the velocity that a step ends with (semi-implicit Euler).
        """
        if seconds <= 0 or not self._courses:
            bodies = (apply_course(body, RigidMotion(body.pose)) for body in self._scene.bodies)
            return replace(self._scene, bodies=tuple(bodies))
        number = self._count_steps(seconds)
        back = seconds - number * STEP_S
        courses = self._courses[number - 1]
        bodies = (
            apply_course(
                body, RigidMotion(courses[body.name].compute_pose(back), courses[body.name].twist)
            )
            if body.name in courses
            else body
            for body in self._scene.bodies
        )
        return replace(self._scene, bodies=tuple(bodies))

    def _count_steps(self, seconds: float) -> int:
        """Return how many steps there are up to the end of that at a time."""
        return min(math.ceil(seconds / STEP_S - _STEP_TOLERANCE), len(self._courses))


def apply_course(body: Body, course: RigidMotion) -> Body:
    """Return a body on its course."""
    twist = course.twist
    return replace(
        body, pose=course.pose, velocity_m_s=twist.velocity_m_s, spin_rad_s=twist.spin_rad_s
    )
