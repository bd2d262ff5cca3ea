"""Physics: bodies fall, collide and come to rest in Bullet; what it did is measured and returned."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh import collider_of
from sim2cam.errors import SpecError
from sim2cam.geometry.motion import Course
from sim2cam.geometry.poses import Pose
from sim2cam.render.meshes.mesh import extent_of
from sim2cam.render.physics.bullet import SCALE
from sim2cam.render.physics.colliders import Compound, parts_of, thickness_m
from sim2cam.render.physics.contacts import Contact, contacts_in, energies_in
from sim2cam.render.physics.trajectory import STEP_S, Film, on_course
from sim2cam.render.physics.world import GRAVITY_M_S2, GROUND_DEPTH_M, course_of, world_of
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import Asset, Die, Ground, MeshFile

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

MAX_PENETRATION_M = 1e-3
MAX_REST_SPEED_M_S = 2e-3
MAX_DRIFT_M = 3e-4
MAX_TILT_RAD = math.radians(20)
"""A die that leans on others further than this has no plain value; its scene is drawn again."""

_CHECK_EVERY = 24
_CALM_CHECKS = 2
_MAX_CHECKS = 60
_DRIFT_STEPS = 120
_MAX_SUBSTEPS = 64
_SPARE = 0.8
_LEAST_J = 1e-9
_FALLEN_OFF_M = 2.0
_SLIVER = 0.01  # of the volume of all parts


@dataclass(frozen=True)
class Rest:
    """What is taken for rest.

    Attributes:
        grip: share of their friction with which bodies, let go again, must stay where they are; so they must
            with all of it.
        taps: how often bodies that move then may come to rest anew, from where they went, before
            the scene is rejected. Films, which show one way to rest, are not tapped.
    """

    grip: float = 1.0
    taps: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.grip <= 1:
            raise ValueError(f"grip must be above 0 and at most 1, not {self.grip}")
        if not 0 <= self.taps <= _MOST_TAPS:
            raise ValueError(f"taps must be 0 to {_MOST_TAPS}, not {self.taps}")


_MOST_TAPS = 100
AT_FIRST = Rest()
"""Bodies stay where they are with all of their friction, the first time."""


@dataclass(frozen=True)
class PhysicsCertificate:
    """How a scene came to rest.

    Attributes:
        seconds: simulated time, that of letting go again left out.
        steps: of the simulation.
        energy_gain: the most energy that bodies gained from one check to the next, over what they
            lost in all; they should only lose.
        contacts: of bodies at the end; ``contacts.supports_in`` tells which carries which.
        rest_speed_m_s: speed of the fastest body at the end.
        drift_m: how far a body moves at most in half a second after all were let go again.
        penetration_m: deepest overlap of two bodies at the end.
        tilt_rad: how far the most leaning labelled body is off lying flat.
        rejection: why the scene cannot be used; None when it can.
    """

    seconds: float
    steps: int
    energy_gain: float
    contacts: tuple[Contact, ...]
    rest_speed_m_s: float
    drift_m: float
    penetration_m: float
    tilt_rad: float
    rejection: str | None


def settle(
    scene: Scene, film: Film | None = None, rest: Rest = AT_FIRST
) -> tuple[Scene, PhysicsCertificate]:
    """Returns the scene at rest, and how it got there. Deterministic.

    A scene in which something fixed reaches below the table is returned as it is.

    Args:
        scene: bodies where they are let go. Those that arrive last touch nothing until all others are
            at rest.
        film: of the same scene; records the way to rest.
        rest: what is taken for rest.

    Raises:
        SpecError: a body that can move has no mass.
    """
    _check_masses(scene)
    way = _Way(scene) if _below_table(scene) else _come_to_rest(scene, film)
    drift = _let_go(way, rest.grip)
    for _ in range(0 if film is not None else rest.taps):
        if drift.meters <= MAX_DRIFT_M:
            break
        way = way.then(_come_to_rest(drift.scene))
        drift = _let_go(way, rest.grip)
    return way.scene, _certificate(way, drift.meters)


@dataclass(frozen=True, eq=False)
class _Way:
    """How a scene came to rest, if it did.

    Attributes:
        scene: at the end.
        energies_j: of all bodies, at the start and at each check.
        contacts: at the end.
        speed_m_s: of the fastest body then.
    """

    scene: Scene
    energies_j: tuple[float, ...] = (0.0,)
    contacts: tuple[Contact, ...] = ()
    speed_m_s: float = 0.0

    @property
    def steps(self) -> int:
        return (len(self.energies_j) - 1) * _CHECK_EVERY

    def then(self, other: _Way) -> _Way:
        """Returns this way and another that starts about where it ends."""
        return replace(other, energies_j=(*self.energies_j, *other.energies_j[1:]))


@dataclass(frozen=True)
class _Drift:
    """What letting go again a scene at rest did.

    Attributes:
        meters: that a body moved at most.
        scene: bodies where they went.
    """

    meters: float
    scene: Scene


def _come_to_rest(scene: Scene, film: Film | None = None) -> _Way:
    client, handles = world_of([body for body in scene.bodies if not body.arrives_last])
    moving = {body: handles[body.name][0] for body in scene.bodies if not body.is_fixed}
    masses, thin_m = np.array([body.mass_kg for body in moving]), _thinnest_m(scene)
    names = {one: name for name, of_body in handles.items() for one in of_body}
    energies, calm, speed, substeps = [], 0, 0.0, 1
    while True:
        now = energies_in(client, moving.values(), GRAVITY_M_S2)
        energies.append(float(now.sum()))
        if len(energies) > _MAX_CHECKS or calm == _CALM_CHECKS:
            break
        substeps = _substeps(now / masses, thin_m)
        client.setPhysicsEngineParameter(numSubSteps=substeps)
        for _ in range(_CHECK_EVERY):
            client.stepSimulation()
            if film is not None:
                courses = {b.name: course_of(client, b, handle) for b, handle in moving.items()}
                film.add(courses, contacts_in(client, names, substeps))
        speed = max((_speed(client, handle) for handle in moving.values()), default=0.0)
        calm = calm + 1 if speed < MAX_REST_SPEED_M_S else 0
    contacts = contacts_in(client, names, substeps)
    return _Way(_stopped(client, scene, moving), tuple(energies), contacts, speed)


def _check_masses(scene: Scene) -> None:
    for body in scene.bodies:
        if not body.is_fixed and not 0 < body.mass_kg < math.inf:
            raise SpecError(
                f"body '{body.name}' can move and has a mass of {body.mass_kg} kg. Give it a finite "
                "one above 0, or fix it."
            )


def _let_go(way: _Way, grip: float) -> _Drift:
    """Returns what half a second does to bodies that are let go again, at rest, with less friction, and
    if nothing moves then, with all of it: what may slip a little otherwise tips over.

    What cannot be used anyway is not let go.
    """
    if _complaint(way):
        return _Drift(0.0, way.scene)
    slipping = _let_go_with(grip, way.scene)
    if grip == 1 or slipping.meters > MAX_DRIFT_M:
        return slipping
    return max(slipping, _let_go_with(1.0, way.scene), key=lambda drift: drift.meters)


def _let_go_with(grip: float, scene: Scene) -> _Drift:
    """Returns what half a second does to bodies that are let go again with a share of their friction.

    What leaned on its neighbours by forces that only built up as it came there falls then, what bodies
    that arrive last overlap is pushed away, what only its resistance to rolling held rolls, and what
    was about to slip slips.
    """
    client, handles = world_of(scene.bodies)
    for body in scene.bodies:
        rubs = math.sqrt(grip) * body.friction  # frictions of two bodies multiply
        for handle in handles[body.name]:
            client.changeDynamics(
                handle, -1, lateralFriction=rubs, rollingFriction=0.0, spinningFriction=0.0
            )
    for _ in range(_DRIFT_STEPS):
        client.stepSimulation()
    moving = {body: handles[body.name][0] for body in scene.bodies if not body.is_fixed}
    after = _stopped(client, scene, moving)
    pairs = zip(scene.bodies, after.bodies, strict=True)
    moved = [math.dist(a.pose.position_m, b.pose.position_m) for a, b in pairs]
    return _Drift(max(moved, default=0.0), after)


def upward_face(die: Die, pose: Pose) -> tuple[str, float]:
    """Returns the value of the die's upper face, and its angle off the vertical in radians."""
    faces = die.face_normals()
    ups = pose.rotation().apply(np.array(list(faces.values())))[:, 2]
    best = int(np.argmax(ups))
    return list(faces)[best], float(math.acos(min(1.0, ups[best])))


def _certificate(way: _Way, drift_m: float) -> PhysicsCertificate:
    rejection, energies = _complaint(way), way.energies_j
    if rejection is None and drift_m > MAX_DRIFT_M:
        rejection = f"a body moves by {drift_m * 1e3:.1f} mm when it is let go again"
    gain = max(float(np.diff(energies).max(initial=0.0)), 0.0)
    share = gain / max(energies[0] - energies[-1], gain, _LEAST_J)
    return PhysicsCertificate(
        way.steps * STEP_S, way.steps, share, way.contacts, way.speed_m_s, drift_m,
        _penetration_m(way), _tilt_rad(way.scene), rejection,
    )  # fmt: skip


def _complaint(way: _Way) -> str | None:
    """Returns why a scene at the end of its way cannot be used, whatever letting it go again does."""
    speed, penetration, tilt = way.speed_m_s, _penetration_m(way), _tilt_rad(way.scene)
    loose = (body for body in way.scene.bodies if body.is_target and not body.is_fixed)
    away = max((math.hypot(*body.pose.position_m) for body in loose), default=0.0)
    reasons = {
        f"still moving at {speed:.3f} m/s after {way.steps * STEP_S:.1f} s": (
            speed >= MAX_REST_SPEED_M_S
        ),
        f"bodies overlap by {penetration * 1e3:.2f} mm": penetration > MAX_PENETRATION_M,
        f"a die leans by {math.degrees(tilt):.1f} degrees": tilt > MAX_TILT_RAD,
        f"a labelled body ended {away:.1f} m away": away > _FALLEN_OFF_M,
    }
    found = (reason for reason, holds in reasons.items() if holds)
    return _below_table(way.scene) or next(found, None)


def _penetration_m(way: _Way) -> float:
    return max((contact.depth_m for contact in way.contacts), default=0.0)


def _tilt_rad(scene: Scene) -> float:
    return max((upward_face(die, body.pose)[1] for body, die in _dice(scene)), default=0.0)


def _dice(scene: Scene) -> Iterator[tuple[Body, Die]]:
    """Yields the bodies that are dice to be found, and what they are."""
    for body in scene.bodies:
        if isinstance(body.asset, Die) and body.is_target:
            yield body, body.asset


def _below_table(scene: Scene) -> str | None:
    """Returns which fixed thing from a file reaches below the table, if one does."""
    sunk = {body.name: -_lowest_m(body) for body in scene.bodies if _is_fixed_file(body)}
    deepest = max(sunk, key=lambda name: sunk[name], default="")
    if sunk.get(deepest, 0.0) <= MAX_PENETRATION_M:
        return None
    return f"{deepest} reaches {sunk[deepest] * 1e3:.0f} mm below the table"


def _is_fixed_file(body: Body) -> bool:
    return body.is_fixed and isinstance(body.asset, MeshFile)


def _lowest_m(body: Body) -> float:
    """Returns how high above the table the lowest point is of what a thing from a file collides as."""
    assert isinstance(body.asset, MeshFile)
    parts = collider_of(body.asset).parts
    return min(float(body.pose.apply(part)[:, 2].min()) for part in parts)


def _substeps(energies_j_kg: NDArray[np.float64], thin_m: float) -> int:
    """Returns in how many parts a step is simulated, so that nothing flies through anything.

    Args:
        energies_j_kg: of the bodies, over their masses: so fast they can become.
        thin_m: overlaps of this are pushed apart the wrong way.
    """
    fastest = math.sqrt(2 * max(energies_j_kg.max(initial=0.0), 0.0))
    return max(1, min(_MAX_SUBSTEPS, math.ceil(fastest * STEP_S / (_SPARE * thin_m))))


def _thinnest_m(scene: Scene) -> float:
    """Returns half the thicknesses of the thinnest body that moves and the thinnest other one."""
    thick = sorted((_thickness_m(body.asset), body.is_fixed) for body in scene.bodies)
    first = next((n for n, (_, is_fixed) in enumerate(thick) if not is_fixed), None)
    if first is None:
        return math.inf
    moving_m, _ = thick.pop(first)
    return (moving_m + min((thick_m for thick_m, _ in thick), default=math.inf)) / 2


def _thickness_m(asset: Asset) -> float:
    """Returns the shortest side of a shape, or of its thinnest part; an endless table is thick."""
    if isinstance(asset, Ground):
        return GROUND_DEPTH_M
    if isinstance(asset, MeshFile):
        return _mesh_thickness_m(asset)
    if isinstance(asset, Compound):
        return min(thickness_m(part) for part in parts_of(asset))
    low, high = extent_of(asset)
    return float(np.subtract(high, low).min())


@functools.lru_cache(maxsize=1024)
def _mesh_thickness_m(asset: MeshFile) -> float:
    """Returns how thick the thinnest of the parts is that a file collides as.

    Slivers do not count: more of the solid lies beside them.
    """
    from scipy.spatial import ConvexHull

    hulls = [ConvexHull(part) for part in collider_of(asset).parts]
    least_m3 = _SLIVER * sum(hull.volume for hull in hulls)
    across = [  # at the least, from a face to the corner furthest from it
        np.ptp(hull.points @ hull.equations[:, :3].T, axis=0).min()
        for hull in hulls
        if hull.volume >= least_m3
    ]
    return float(min(across))


def _speed(client: BulletClient, handle: int) -> float:
    """Returns linear speed in m/s plus the rim speed that the spin gives a body of 1 cm."""
    linear, angular = client.getBaseVelocity(handle)
    return math.hypot(*linear) / SCALE + 0.01 * math.hypot(*angular)


def _stopped(client: BulletClient, scene: Scene, moving: Mapping[Body, int]) -> Scene:
    """Returns the scene with bodies that can move where Bullet has them, at rest."""
    return replace(
        scene,
        bodies=tuple(
            on_course(body, Course(course_of(client, body, moving[body]).pose))
            if body in moving
            else body
            for body in scene.bodies
        ),
    )
