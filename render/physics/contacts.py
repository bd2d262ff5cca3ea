"""Contacts between bodies, support graph and energies of a Bullet world."""

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

_MIN_VERTICAL_FRACTION = 1e-3  # minimum vertical share of a supporting force, to exclude walls
_MIN_FORCE_N = 1e-9

# fields of a Bullet contact point
_BODY_A, _BODY_B, _POSITION, _NORMAL, _DISTANCE, _NORMAL_FORCE, _FRICTION_1, _FRICTION_AXIS_1, _FRICTION_2, _FRICTION_AXIS_2 = (
    1, 2, 5, 7, 8, 9, 10, 11, 12, 13,
)  # fmt: skip


@dataclass(frozen=True)
class Contact:
    """Contact of two bodies.

    Attributes:
        first, second: names of the bodies.
        force_n: force of the second on the first body, in the world frame, newtons.
        point_m: point of application in the world frame: the force-weighted mean of contact points.
        depth_m: maximum penetration, 0 or more.
    """

    first: str
    second: str
    force_n: Vec3
    point_m: Vec3
    depth_m: float


def collect_contacts(
    world: BulletClient, names: Mapping[int, str], substeps: int
) -> tuple[Contact, ...]:
    """Return one contact per pair of touching bodies in the last substep.

    Args:
        world: world after a step.
        names: Bullet handle to name of the bodies.
        substeps: substeps per step; Bullet divides the impulse of the last one by the whole step.
    """
    points: dict[tuple[int, int], list[tuple[float, ...]]] = defaultdict(list)
    for point in world.getContactPoints():
        points[point[_BODY_A], point[_BODY_B]].append(point)
    return tuple(
        _make_contact(names[first], names[second], pair_points, substeps)
        for (first, second), pair_points in sorted(points.items())
    )


def build_support_graph(contacts: Collection[Contact]) -> dict[str, tuple[str, ...]]:
    """Return the support graph: name of each supported body to the bodies that support it."""
    supports = defaultdict(list)
    for contact in contacts:
        force_n, vertical_n = math.hypot(*contact.force_n), contact.force_n[2]
        if force_n > _MIN_FORCE_N and abs(vertical_n) > _MIN_VERTICAL_FRACTION * force_n:
            supported, supporter = contact.first, contact.second
            if vertical_n < 0:
                supported, supporter = supporter, supported
            supports[supported].append(supporter)
    return {name: tuple(sorted(carriers)) for name, carriers in sorted(supports.items())}


def compute_energies(
    world: BulletClient, handles: Collection[int], gravity_m_s2: float
) -> NDArray[np.float64]:
    """Return the energy (n,) of bodies in joules: kinetic, rotational, and potential over z = 0.

    Args:
        world: world of the bodies.
        handles: Bullet handles of the bodies.
        gravity_m_s2: gravitational acceleration.
    """
    energies = []
    for handle in handles:
        dynamics = world.getDynamicsInfo(handle, -1)
        position, rotation = world.getBasePositionAndOrientation(handle)
        velocity, spin = (np.array(v) for v in world.getBaseVelocity(handle))
        axes = np.array(world.getMatrixFromQuaternion(rotation)).reshape(3, 3)
        body_spin = spin @ axes
        inertia = np.array(dynamics[2]) / SCALE**2
        kinetic = dynamics[0] * float(velocity @ velocity) / SCALE**2 / 2
        potential = dynamics[0] * gravity_m_s2 * position[2] / SCALE
        energies.append(kinetic + float(inertia @ body_spin**2) / 2 + potential)
    return np.array(energies)


def _make_contact(
    first: str, second: str, points: list[tuple[float, ...]], substeps: int
) -> Contact:
    forces = np.array([_compute_force(point) for point in points]) * substeps / SCALE
    weights = np.linalg.norm(forces, axis=1) + _MIN_FORCE_N
    positions = np.array([point[_POSITION] for point in points]) / SCALE
    depth = max(0.0, *(-point[_DISTANCE] / SCALE for point in points))
    center = np.average(positions, axis=0, weights=weights)
    return Contact(first, second, vec3(forces.sum(axis=0)), vec3(center), float(depth))


def _compute_force(point: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the force (3,) of the second on the first body at a contact point, in Bullet units."""
    axes = np.array([point[_NORMAL], point[_FRICTION_AXIS_1], point[_FRICTION_AXIS_2]], np.float64)
    return np.asarray(
        np.array([point[_NORMAL_FORCE], point[_FRICTION_1], point[_FRICTION_2]], np.float64) @ axes
    )
