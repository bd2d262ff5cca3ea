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
from sim2cam.geometry.motion import RigidMotion
from sim2cam.geometry.poses import Pose
from sim2cam.render.meshes.mesh import compute_extent
from sim2cam.render.physics.bullet import SCALE
from sim2cam.render.physics.colliders import (
    CompoundAsset,
    build_collision_parts,
    compute_part_thickness_m,
)
from sim2cam.render.physics.contacts import Contact, collect_contacts, compute_energies
from sim2cam.render.physics.trajectory import STEP_S, MotionRecording, apply_course
from sim2cam.render.physics.world import GRAVITY_M_S2, GROUND_DEPTH_M, build_world, read_course
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import Asset, Die, Ground, MeshFile

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

MAX_PENETRATION_M = 1e-3
MAX_REST_SPEED_M_S = 2e-3
MAX_DRIFT_M = 3e-4
MAX_TILT_RAD = math.radians(20)
"""A die that leans on others further than this has no plain value; its scene is drawn again."""

_STEPS_PER_CHECK = 24
_REST_CHECKS = 2
_MAX_CHECKS = 60
_RELEASE_STEPS = 120
_MAX_SUBSTEPS = 64
_SUBSTEP_SAFETY = 0.8
_MIN_ENERGY_J = 1e-9
_MAX_TARGET_DISTANCE_M = 2.0
_MIN_PART_VOLUME_FRACTION = 0.01  # of the volume of all parts


@dataclass(frozen=True)
class RestCriterion:
    """What is taken for rest.

    Attributes:
        friction_scale: share of their friction with which bodies, let go again, must stay where they are; so they must
            with all of it.
        max_restarts: how often bodies that move then may come to rest anew, from where they went, before
            the scene is rejected. Films, which show one way to rest, are not tapped.
    """

    friction_scale: float = 1.0
    max_restarts: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.friction_scale <= 1:
            raise ValueError(
                f"friction_scale must be above 0 and at most 1, not {self.friction_scale}"
            )
        if not 0 <= self.max_restarts <= _MAX_RESTARTS:
            raise ValueError(f"max_restarts must be 0 to {_MAX_RESTARTS}, not {self.max_restarts}")


_MAX_RESTARTS = 100
DEFAULT_REST = RestCriterion()
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


def simulate(
    scene: Scene, recording: MotionRecording | None = None, criterion: RestCriterion = DEFAULT_REST
) -> tuple[Scene, PhysicsCertificate]:
    """Return the scene at rest, and how it got there. Deterministic.

    A scene in which something fixed reaches below the table is returned as it is.

    Args:
        scene: bodies where they are let go. Those that arrive last touch nothing until all others are
            at rest.
        recording: of the same scene; records the way to rest.
        criterion: what is taken for rest.

    Raises:
        SpecError: a body that can move has no mass.
    """
    _check_masses(scene)
    way = (
        _SettlingRun(scene)
        if _find_body_below_table(scene)
        else _simulate_until_rest(scene, recording)
    )
    drift = _test_stability(way, criterion.friction_scale)
    for _ in range(0 if recording is not None else criterion.max_restarts):
        if drift.max_drift_m <= MAX_DRIFT_M:
            break
        way = way.concatenate(_simulate_until_rest(drift.scene))
        drift = _test_stability(way, criterion.friction_scale)
    return way.scene, _make_certificate(way, drift.max_drift_m)


@dataclass(frozen=True, eq=False)
class _SettlingRun:
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
        return (len(self.energies_j) - 1) * _STEPS_PER_CHECK

    def concatenate(self, other: _SettlingRun) -> _SettlingRun:
        """Return this way and another that starts about where it ends."""
        return replace(other, energies_j=(*self.energies_j, *other.energies_j[1:]))


@dataclass(frozen=True)
class _ReleaseResult:
    """What letting go again a scene at rest did.

    Attributes:
        max_drift_m: that a body moved at most.
        scene: bodies where they went.
    """

    max_drift_m: float
    scene: Scene


def _simulate_until_rest(scene: Scene, recording: MotionRecording | None = None) -> _SettlingRun:
    client, handles = build_world([body for body in scene.bodies if not body.arrives_last])
    moving = {body: handles[body.name][0] for body in scene.bodies if not body.is_fixed}
    masses, thin_m = np.array([body.mass_kg for body in moving]), _compute_min_thickness_m(scene)
    names = {one: name for name, of_body in handles.items() for one in of_body}
    energies, calm, speed, substeps = [], 0, 0.0, 1
    while True:
        now = compute_energies(client, moving.values(), GRAVITY_M_S2)
        energies.append(float(now.sum()))
        if len(energies) > _MAX_CHECKS or calm == _REST_CHECKS:
            break
        substeps = _choose_substeps(now / masses, thin_m)
        client.setPhysicsEngineParameter(numSubSteps=substeps)
        for _ in range(_STEPS_PER_CHECK):
            client.stepSimulation()
            if recording is not None:
                courses = {b.name: read_course(client, b, handle) for b, handle in moving.items()}
                recording.add(courses, collect_contacts(client, names, substeps))
        speed = max((_measure_speed(client, handle) for handle in moving.values()), default=0.0)
        calm = calm + 1 if speed < MAX_REST_SPEED_M_S else 0
    contacts = collect_contacts(client, names, substeps)
    return _SettlingRun(
        _read_resting_scene(client, scene, moving), tuple(energies), contacts, speed
    )


def _check_masses(scene: Scene) -> None:
    for body in scene.bodies:
        if not body.is_fixed and not 0 < body.mass_kg < math.inf:
            raise SpecError(
                f"body '{body.name}' can move and has a mass of {body.mass_kg} kg. Give it a finite "
                "one above 0, or fix it."
            )


def _test_stability(run: _SettlingRun, friction_scale: float) -> _ReleaseResult:
    """Return what half a second does to bodies that are let go again, at rest, with less friction, and
    if nothing moves then, with all of it: what may slip a little otherwise tips over.

    What cannot be used anyway is not let go.
    """
    if _find_rejection(run):
        return _ReleaseResult(0.0, run.scene)
    slipping = _release_bodies(friction_scale, run.scene)
    if friction_scale == 1 or slipping.max_drift_m > MAX_DRIFT_M:
        return slipping
    return max(slipping, _release_bodies(1.0, run.scene), key=lambda drift: drift.max_drift_m)


def _release_bodies(friction_scale: float, scene: Scene) -> _ReleaseResult:
    """Return what half a second does to bodies that are let go again with a share of their friction.

    What leaned on its neighbours by forces that only built up as it came there falls then, what bodies
    that arrive last overlap is pushed away, what only its resistance to rolling held rolls, and what
    was about to slip slips.
    """
    client, handles = build_world(scene.bodies)
    for body in scene.bodies:
        rubs = math.sqrt(friction_scale) * body.friction  # frictions of two bodies multiply
        for handle in handles[body.name]:
            client.changeDynamics(
                handle, -1, lateralFriction=rubs, rollingFriction=0.0, spinningFriction=0.0
            )
    for _ in range(_RELEASE_STEPS):
        client.stepSimulation()
    moving = {body: handles[body.name][0] for body in scene.bodies if not body.is_fixed}
    after = _read_resting_scene(client, scene, moving)
    pairs = zip(scene.bodies, after.bodies, strict=True)
    moved = [math.dist(a.pose.position_m, b.pose.position_m) for a, b in pairs]
    return _ReleaseResult(max(moved, default=0.0), after)


def find_upward_face(die: Die, pose: Pose) -> tuple[str, float]:
    """Return the value of the die's upper face, and its angle off the vertical in radians."""
    faces = die.get_face_normals()
    ups = pose.rotation().apply(np.array(list(faces.values())))[:, 2]
    best = int(np.argmax(ups))
    return list(faces)[best], float(math.acos(min(1.0, ups[best])))


def _make_certificate(run: _SettlingRun, drift_m: float) -> PhysicsCertificate:
    rejection, energies = _find_rejection(run), run.energies_j
    if rejection is None and drift_m > MAX_DRIFT_M:
        rejection = f"a body moves by {drift_m * 1e3:.1f} mm when it is let go again"
    gain = max(float(np.diff(energies).max(initial=0.0)), 0.0)
    share = gain / max(energies[0] - energies[-1], gain, _MIN_ENERGY_J)
    return PhysicsCertificate(
        run.steps * STEP_S, run.steps, share, run.contacts, run.speed_m_s, drift_m,
        _measure_penetration_m(run), _measure_tilt_rad(run.scene), rejection,
    )  # fmt: skip


def _find_rejection(run: _SettlingRun) -> str | None:
    """Return why a scene at the end of its way cannot be used, whatever letting it go again does."""
    speed, penetration, tilt = (
        run.speed_m_s,
        _measure_penetration_m(run),
        _measure_tilt_rad(run.scene),
    )
    loose = (body for body in run.scene.bodies if body.is_target and not body.is_fixed)
    away = max((math.hypot(*body.pose.position_m) for body in loose), default=0.0)
    reasons = {
        f"still moving at {speed:.3f} m/s after {run.steps * STEP_S:.1f} s": (
            speed >= MAX_REST_SPEED_M_S
        ),
        f"bodies overlap by {penetration * 1e3:.2f} mm": penetration > MAX_PENETRATION_M,
        f"a die leans by {math.degrees(tilt):.1f} degrees": tilt > MAX_TILT_RAD,
        f"a labelled body ended {away:.1f} m away": away > _MAX_TARGET_DISTANCE_M,
    }
    found = (reason for reason, holds in reasons.items() if holds)
    return _find_body_below_table(run.scene) or next(found, None)


def _measure_penetration_m(run: _SettlingRun) -> float:
    return max((contact.depth_m for contact in run.contacts), default=0.0)


def _measure_tilt_rad(scene: Scene) -> float:
    return max(
        (find_upward_face(die, body.pose)[1] for body, die in _find_target_dice(scene)), default=0.0
    )


def _find_target_dice(scene: Scene) -> Iterator[tuple[Body, Die]]:
    """Yield the bodies that are dice to be found, and what they are."""
    for body in scene.bodies:
        if isinstance(body.asset, Die) and body.is_target:
            yield body, body.asset


def _find_body_below_table(scene: Scene) -> str | None:
    """Return which fixed thing from a file reaches below the table, if one does."""
    sunk = {
        body.name: -_compute_lowest_height_m(body) for body in scene.bodies if _is_fixed_file(body)
    }
    deepest = max(sunk, key=lambda name: sunk[name], default="")
    if sunk.get(deepest, 0.0) <= MAX_PENETRATION_M:
        return None
    return f"{deepest} reaches {sunk[deepest] * 1e3:.0f} mm below the table"


def _is_fixed_file(body: Body) -> bool:
    return body.is_fixed and isinstance(body.asset, MeshFile)


def _compute_lowest_height_m(body: Body) -> float:
    """Return how high above the table the lowest point is of what a thing from a file collides as."""
    assert isinstance(body.asset, MeshFile)
    parts = collider_of(body.asset).parts
    return min(float(body.pose.apply(part)[:, 2].min()) for part in parts)


def _choose_substeps(specific_energies_j_kg: NDArray[np.float64], thickness_m: float) -> int:
    """Return in how many parts a step is simulated, so that nothing flies through anything.

    Args:
        specific_energies_j_kg: of the bodies, over their masses: so fast they can become.
        thickness_m: overlaps of this are pushed apart the wrong way.
    """
    fastest = math.sqrt(2 * max(specific_energies_j_kg.max(initial=0.0), 0.0))
    return max(1, min(_MAX_SUBSTEPS, math.ceil(fastest * STEP_S / (_SUBSTEP_SAFETY * thickness_m))))


def _compute_min_thickness_m(scene: Scene) -> float:
    """Return half the thicknesses of the thinnest body that moves and the thinnest other one."""
    thick = sorted((_compute_thickness_m(body.asset), body.is_fixed) for body in scene.bodies)
    first = next((n for n, (_, is_fixed) in enumerate(thick) if not is_fixed), None)
    if first is None:
        return math.inf
    moving_m, _ = thick.pop(first)
    return (moving_m + min((thick_m for thick_m, _ in thick), default=math.inf)) / 2


def _compute_thickness_m(asset: Asset) -> float:
    """Return the shortest side of a shape, or of its thinnest part; an endless table is thick."""
    if isinstance(asset, Ground):
        return GROUND_DEPTH_M
    if isinstance(asset, MeshFile):
        return _compute_mesh_thickness_m(asset)
    if isinstance(asset, CompoundAsset):
        return min(compute_part_thickness_m(part) for part in build_collision_parts(asset))
    low, high = compute_extent(asset)
    return float(np.subtract(high, low).min())


@functools.lru_cache(maxsize=1024)
def _compute_mesh_thickness_m(asset: MeshFile) -> float:
    """Return how thick the thinnest of the parts is that a file collides as.

    Slivers do not count: more of the solid lies beside them.
    """
    from scipy.spatial import ConvexHull

    hulls = [ConvexHull(part) for part in collider_of(asset).parts]
    least_m3 = _MIN_PART_VOLUME_FRACTION * sum(hull.volume for hull in hulls)
    across = [  # at the least, from a face to the corner furthest from it
        np.ptp(hull.points @ hull.equations[:, :3].T, axis=0).min()
        for hull in hulls
        if hull.volume >= least_m3
    ]
    return float(min(across))


def _measure_speed(client: BulletClient, handle: int) -> float:
    """Return linear speed in m/s plus the rim speed that the spin gives a body of 1 cm."""
    linear, angular = client.getBaseVelocity(handle)
    return math.hypot(*linear) / SCALE + 0.01 * math.hypot(*angular)


def _read_resting_scene(client: BulletClient, scene: Scene, moving: Mapping[Body, int]) -> Scene:
    """Return the scene with bodies that can move where Bullet has them, at rest."""
    return replace(
        scene,
        bodies=tuple(
            apply_course(body, RigidMotion(read_course(client, body, moving[body]).pose))
            if body in moving
            else body
            for body in scene.bodies
        ),
    )
