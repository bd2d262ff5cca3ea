"""Contacts: which bodies touch, with which forces, and the energy of what moves, as Bullet has them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.render.physics.bullet import SCALE

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

_MIN_VERTICAL_FRACTION = 1e-3  # share of a force that has to point upwards; walls only lean
_MIN_FORCE_N = 1e-9

# of a contact point, as Bullet lists it
_BODY_A, _BODY_B, _POSITION, _NORMAL, _DISTANCE, _NORMAL_FORCE, _FRICTION_1, _FRICTION_AXIS_1, _FRICTION_2, _FRICTION_AXIS_2 = (
    1, 2, 5, 7, 8, 9, 10, 11, 12, 13,
)  # fmt: skip


@dataclass(frozen=True)
class Contact:
    """Two bodies that touch.

    Attributes:
        first, second: their names.
        force_n: of the second on the first, in the world, newtons; the other way round it is the
            opposite.
        point_m: where it acts, in the world: the mean of the points at which they touch, by force.
        depth_m: how deep they overlap at most, 0 or more.
    """

    first: str
    second: str
    force_n: Vec3
    point_m: Vec3
    depth_m: float


def collect_contacts(
    world: BulletClient, names: Mapping[int, str], substeps: int
) -> tuple[Contact, ...]:
    """Return the contacts of the last step, or of the last part of it, a pair of bodies each.

    Args:
        world: after a step.
        names: of the bodies, by Bullet's numbers.
        substeps: parts of the step; Bullet spreads the push of the last one over all of it.
    """
    points: dict[tuple[int, int], list[tuple[float, ...]]] = defaultdict(list)
    for point in world.getContactPoints():
        points[point[_BODY_A], point[_BODY_B]].append(point)
    return tuple(
        _make_contact(names[first], names[second], of_pair, substeps)
        for (first, second), of_pair in sorted(points.items())
    )


def build_support_graph(contacts: Collection[Contact]) -> dict[str, tuple[str, ...]]:
    """Return the bodies that carry each body, by its name: the support graph of a scene."""
    found = defaultdict(list)
    for contact in contacts:
        size, up = math.hypot(*contact.force_n), contact.force_n[2]
        if size > _MIN_FORCE_N and abs(up) > _MIN_VERTICAL_FRACTION * size:
            carried, carrier = contact.first, contact.second
            if up < 0:
                carried, carrier = carrier, carried
            found[carried].append(carrier)
    return {name: tuple(sorted(carriers)) for name, carriers in sorted(found.items())}


def compute_energies(
    world: BulletClient, handles: Collection[int], gravity_m_s2: float
) -> NDArray[np.float64]:
    """Return the energy (n,) of moving bodies in joules: of motion, of spin, of height over z = 0.

    Args:
        world: in which they move.
        handles: Bullet's numbers of them.
        gravity_m_s2: that pulls them down.
    """
    found = []
    for handle in handles:
        facts = world.getDynamicsInfo(handle, -1)
        place, turn = world.getBasePositionAndOrientation(handle)
        velocity, spin = (np.array(v) for v in world.getBaseVelocity(handle))
        axes = np.array(world.getMatrixFromQuaternion(turn)).reshape(3, 3)
        own_spin = spin @ axes
        inertia = np.array(facts[2]) / SCALE**2
        motion = facts[0] * float(velocity @ velocity) / SCALE**2 / 2
        height = facts[0] * gravity_m_s2 * place[2] / SCALE
        found.append(motion + float(inertia @ own_spin**2) / 2 + height)
    return np.array(found)


def _make_contact(
    first: str, second: str, points: list[tuple[float, ...]], substeps: int
) -> Contact:
    forces = np.array([_compute_force(point) for point in points]) * substeps / SCALE
    weights = np.linalg.norm(forces, axis=1) + _MIN_FORCE_N
    places = np.array([point[_POSITION] for point in points]) / SCALE
    depth = max(0.0, *(-point[_DISTANCE] / SCALE for point in points))
    middle = np.average(places, axis=0, weights=weights)
    return Contact(first, second, vec3(forces.sum(axis=0)), vec3(middle), float(depth))


def _compute_force(point: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the force (3,) of the second body on the first at a point, in Bullet's units."""
    ways = np.array([point[_NORMAL], point[_FRICTION_AXIS_1], point[_FRICTION_AXIS_2]], np.float64)
    return np.asarray(
        np.array([point[_NORMAL_FORCE], point[_FRICTION_1], point[_FRICTION_2]], np.float64) @ ways
    )
