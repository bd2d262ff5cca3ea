"""Rigid-body simulation of a scene until rest, with a physics certificate."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh import build_collider
from sim2cam.errors import SpecError
from sim2cam.geometry.motion import RigidMotion
from sim2cam.objects.primitives import GROUND_DEPTH_M, MAX_TARGET_DISTANCE, Ground
from sim2cam.objects.solid import Solid
from sim2cam.render.meshes.mesh import compute_extent
from sim2cam.render.physics.bullet import SCALE
from sim2cam.render.physics.contacts import Contact, collect_contacts, compute_energies
from sim2cam.render.physics.trajectory import STEP_S, MotionRecording, apply_motion
from sim2cam.render.physics.world import GRAVITY_M_S2, build_world, read_motion
from sim2cam.scene.scene import Body, Scene
from sim2cam.scene.shape import MeshFile, Shape

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

MAX_PENETRATION_M = 1e-3
MAX_REST_SPEED_M_S = 2e-3
MAX_DRIFT_M = 3e-4
MAX_TILT_RAD = math.radians(20)
"""Maximum tilt of labelled dice; the value of a die that leans further is ambiguous."""

_STEPS_PER_CHECK = 24
_REST_CHECKS = 2
_MAX_CHECKS = 60
_RELEASE_STEPS = 120
_MAX_SUBSTEPS = 64
_SUBSTEP_SAFETY = 0.8
_MIN_ENERGY_J = 1e-9
_MIN_TARGET_DISTANCE_M = 2.0
_MIN_PART_VOLUME_FRACTION = 0.01  # of the total volume; smaller parts are ignored


@dataclass(frozen=True)
class RestCriterion:
    """Criterion for rest.

    Attributes:
        friction_scale: share of the friction with which released bodies must stay in place, above
            0 and at most 1. They must also stay with full friction.
        max_restarts: number of simulations that may continue from the moved bodies before the
            scene is rejected. Recorded simulations do not restart.
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
"""Full friction, no restarts."""


@dataclass(frozen=True)
class PhysicsCertificate:
    """Measurements of a simulation.

    Attributes:
        seconds: simulated time without stability tests.
        steps: number of simulation steps.
        energy_gain: largest energy gain between checks over the total energy loss; ideally 0.
        contacts: contacts at the end; see ``build_support_graph``.
        rest_speed_m_s: speed of the fastest body at the end.
        drift_m: maximum displacement of a body within half a second after release.
        penetration_m: deepest penetration of two bodies at the end.
        tilt_rad: maximum tilt of labelled dice.
        rejection: reason why the scene is unusable; None for a valid scene.
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
    """Simulate a scene until rest. Deterministic.

    A scene with a fixed mesh below the table is rejected without simulation.

    Args:
        scene: bodies at their release poses. Bodies with ``arrives_last`` do not collide until all
            others are at rest.
        recording: recording of the same scene, to which motions and contacts are added.
        criterion: criterion for rest.

    Returns:
        The scene at rest, and its certificate.

    Raises:
        SpecError: a moving body has no valid mass.
    """
    _check_masses(scene)
    run = (
        _SettlingRun(scene)
        if _find_body_below_table(scene)
        else _simulate_until_rest(scene, recording)
    )
    drift = _test_stability(run, criterion.friction_scale)
    for _ in range(0 if recording is not None else criterion.max_restarts):
        if drift.max_drift_m <= MAX_DRIFT_M:
            break
        run = run.concatenate(_simulate_until_rest(drift.scene))
        drift = _test_stability(run, criterion.friction_scale)
    return run.scene, _make_certificate(run, drift.max_drift_m)


@dataclass(frozen=True, eq=False)
class _SettlingRun:
    """Result of a simulation until rest or the time limit.

    Attributes:
        scene: scene at the end.
        energies_j: total energy at the start and at each check.
        contacts: contacts at the end.
        speed_m_s: speed of the fastest body at the end.
    """

    scene: Scene
    energies_j: tuple[float, ...] = (0.0,)
    contacts: tuple[Contact, ...] = ()
    speed_m_s: float = 0.0

    @property
    def steps(self) -> int:
        return (len(self.energies_j) - 1) * _STEPS_PER_CHECK

    def concatenate(self, other: _SettlingRun) -> _SettlingRun:
        """Return this run followed by one that starts at its end."""
        return replace(other, energies_j=(*self.energies_j, *other.energies_j[1:]))


@dataclass(frozen=True)
class _ReleaseResult:
    """Result of releasing a scene at rest.

    Attributes:
        max_drift_m: maximum displacement of a body.
        scene: scene after the release.
    """

    max_drift_m: float
    scene: Scene


def _simulate_until_rest(scene: Scene, recording: MotionRecording | None = None) -> _SettlingRun:
    client, handles = build_world([body for body in scene.bodies if not body.arrives_last])
    handle_by_body = {body: handles[body.name][0] for body in scene.bodies if not body.is_fixed}
    masses, min_thickness_m = (
        np.array([body.mass_kg for body in handle_by_body]),
        _compute_min_thickness_m(scene),
    )
    name_by_handle = {
        handle_id: name for name, body_handles in handles.items() for handle_id in body_handles
    }
    energies, calm_checks, speed, substeps = [], 0, 0.0, 1
    while True:
        current = compute_energies(client, handle_by_body.values(), GRAVITY_M_S2)
        energies.append(float(current.sum()))
        if len(energies) > _MAX_CHECKS or calm_checks == _REST_CHECKS:
            break
        substeps = _choose_substeps(current / masses, min_thickness_m)
        client.setPhysicsEngineParameter(numSubSteps=substeps)
        for _ in range(_STEPS_PER_CHECK):
            client.stepSimulation()
            if recording is not None:
                motions = {
                    moving_body.name: read_motion(client, moving_body, handle)
                    for moving_body, handle in handle_by_body.items()
                }
                recording.add(motions, collect_contacts(client, name_by_handle, substeps))
        speed = max(
            (_measure_speed(client, handle) for handle in handle_by_body.values()), default=0.0
        )
        calm_checks = calm_checks + 1 if speed < MAX_REST_SPEED_M_S else 0
    contacts = collect_contacts(client, name_by_handle, substeps)
    return _SettlingRun(
        _read_resting_scene(client, scene, handle_by_body), tuple(energies), contacts, speed
    )


def _check_masses(scene: Scene) -> None:
    for body in scene.bodies:
        if not body.is_fixed and not 0 < body.mass_kg < math.inf:
            raise SpecError(
                f"body '{body.name}' is not fixed and has a mass of {body.mass_kg} kg. Set a finite "
                "mass above 0, or fix the body."
            )


def _test_stability(run: _SettlingRun, friction_scale: float) -> _ReleaseResult:
    """Release bodies from rest for half a second, with reduced and, if stable, with full friction.

    Full friction is tested too, because bodies that would slip can tip over instead. Runs that are
    already rejected are not tested.
    """
    if _find_rejection(run):
        return _ReleaseResult(0.0, run.scene)
    reduced = _release_bodies(friction_scale, run.scene)
    if friction_scale == 1 or reduced.max_drift_m > MAX_DRIFT_M:
        return reduced
    return max(reduced, _release_bodies(1.0, run.scene), key=lambda drift: drift.max_drift_m)


def _release_bodies(friction_scale: float, scene: Scene) -> _ReleaseResult:
    """Release bodies from rest for half a second, with a share of their friction.

    This reveals bodies held by accumulated contact forces, by rolling friction or by friction near
    its limit, and overlaps with bodies that arrive last.
    """
    client, handles = build_world(scene.bodies)
    for body in scene.bodies:
        friction = (
            math.sqrt(friction_scale) * body.friction
        )  # friction coefficients of two bodies multiply
        for handle in handles[body.name]:
            client.changeDynamics(
                handle, -1, lateralFriction=friction, rollingFriction=0.0, spinningFriction=0.0
            )
    for _ in range(_RELEASE_STEPS):
        client.stepSimulation()
    handle_by_body = {body: handles[body.name][0] for body in scene.bodies if not body.is_fixed}
    after = _read_resting_scene(client, scene, handle_by_body)
    pairs = zip(scene.bodies, after.bodies, strict=True)
    drifts_m = [math.dist(a.pose.position_m, b.pose.position_m) for a, b in pairs]
    return _ReleaseResult(max(drifts_m, default=0.0), after)


def _make_certificate(run: _SettlingRun, drift_m: float) -> PhysicsCertificate:
    rejection, energies = _find_rejection(run), run.energies_j
    if rejection is None and drift_m > MAX_DRIFT_M:
        rejection = f"a body moves by {drift_m * 1e3:.1f} mm when it is let go again"
    gain = max(float(np.diff(energies).max(initial=0.0)), 0.0)
    gain_fraction = gain / max(energies[0] - energies[-1], gain, _MIN_ENERGY_J)
    return PhysicsCertificate(
        run.steps * STEP_S, run.steps, gain_fraction, run.contacts, run.speed_m_s, drift_m,
        _measure_penetration_m(run), _measure_tilt_rad(run.scene), rejection,
    )  # fmt: skip


def _find_rejection(run: _SettlingRun) -> str | None:
    """Return the reason to reject a run, apart from stability; None for a valid run."""
    speed, penetration, tilt = (
        run.speed_m_s,
        _measure_penetration_m(run),
        _measure_tilt_rad(run.scene),
    )
    targets = (body for body in run.scene.bodies if body.is_target and not body.is_fixed)
    distance_m = max((math.hypot(*body.pose.position_m) for body in targets), default=0.0)
    reasons = {
        f"still moving at {speed:.3f} m/s after {run.steps * STEP_S:.1f} s": (
            speed >= MAX_REST_SPEED_M_S
        ),
        f"bodies overlap by {penetration * 1e3:.2f} mm": penetration > MAX_PENETRATION_M,
        f"a labelled body leans by {math.degrees(tilt):.1f} degrees": tilt > MAX_TILT_RAD,
        f"a labelled body ended {distance_m:.1f} m away": distance_m
        > _compute_max_distance_m(run.scene),
    }
    applicable = (reason for reason, holds in reasons.items() if holds)
    return _find_body_below_table(run.scene) or next(applicable, None)


def _compute_max_distance_m(scene: Scene) -> float:
    """Return the largest distance from the origin at which a labelled body may end."""
    sides = (
        body.asset.side_m
        for body in scene.bodies
        if body.name == "table" and isinstance(body.asset, Ground)
    )
    return max(_MIN_TARGET_DISTANCE_M, MAX_TARGET_DISTANCE * next(sides, 0.0))


def _measure_penetration_m(run: _SettlingRun) -> float:
    return max((contact.depth_m for contact in run.contacts), default=0.0)


def _measure_tilt_rad(scene: Scene) -> float:
    return max(
        (
            body.asset.compute_tilt_rad(body.pose)
            for body in scene.bodies
            if body.is_target and isinstance(body.asset, Solid)
        ),
        default=0.0,
    )


def _find_body_below_table(scene: Scene) -> str | None:
    """Return a message about a fixed mesh that reaches below the table; None without one."""
    depth_by_name = {
        body.name: -_compute_lowest_height_m(body) for body in scene.bodies if _is_fixed_file(body)
    }
    deepest = max(depth_by_name, key=lambda name: depth_by_name[name], default="")
    if depth_by_name.get(deepest, 0.0) <= MAX_PENETRATION_M:
        return None
    return f"{deepest} reaches {depth_by_name[deepest] * 1e3:.0f} mm below the table"


def _is_fixed_file(body: Body) -> bool:
    return body.is_fixed and isinstance(body.asset, MeshFile)


def _compute_lowest_height_m(body: Body) -> float:
    """Return the height of the lowest point of the collider of a mesh file."""
    assert isinstance(body.asset, MeshFile)
    parts = build_collider(body.asset).parts
    return min(float(body.pose.apply(part)[:, 2].min()) for part in parts)


def _choose_substeps(specific_energies_j_kg: NDArray[np.float64], thickness_m: float) -> int:
    """Return the number of substeps that prevents tunnelling.

    Args:
        specific_energies_j_kg: energy per mass of the bodies, which bounds their speed.
        thickness_m: penetration at which bodies are pushed out on the wrong side.
    """
    fastest = math.sqrt(2 * max(specific_energies_j_kg.max(initial=0.0), 0.0))
    return max(1, min(_MAX_SUBSTEPS, math.ceil(fastest * STEP_S / (_SUBSTEP_SAFETY * thickness_m))))


def _compute_min_thickness_m(scene: Scene) -> float:
    """Return the mean thickness of the thinnest moving body and the thinnest other body."""
    thicknesses = sorted((_compute_thickness_m(body.asset), body.is_fixed) for body in scene.bodies)
    first = next((index for index, (_, is_fixed) in enumerate(thicknesses) if not is_fixed), None)
    if first is None:
        return math.inf
    moving_m, _ = thicknesses.pop(first)
    return (moving_m + min((other_m for other_m, _ in thicknesses), default=math.inf)) / 2


def _compute_thickness_m(asset: Shape) -> float:
    """Return the smallest extent of a shape, or of its thinnest part."""
    if isinstance(asset, Ground):
        return GROUND_DEPTH_M
    if isinstance(asset, MeshFile):
        return _compute_mesh_thickness_m(asset)
    if isinstance(asset, Solid) and asset.is_compound:
        return min((part.thickness_m for part in asset.build_collider()), default=math.inf)
    low, high = compute_extent(asset)
    return float(np.subtract(high, low).min())


@functools.lru_cache(maxsize=1024)
def _compute_mesh_thickness_m(asset: MeshFile) -> float:
    """Return the thickness of the thinnest convex part of a mesh file, without slivers."""
    from scipy.spatial import ConvexHull

    hulls = [ConvexHull(part) for part in build_collider(asset).parts]
    min_volume_m3 = _MIN_PART_VOLUME_FRACTION * sum(hull.volume for hull in hulls)
    thicknesses = [  # smallest distance from a face to the farthest vertex
        np.ptp(hull.points @ hull.equations[:, :3].T, axis=0).min()
        for hull in hulls
        if hull.volume >= min_volume_m3
    ]
    return float(min(thicknesses))


def _measure_speed(client: BulletClient, handle: int) -> float:
    """Return the linear speed plus the rim speed of a body of 1 cm radius, in m/s."""
    linear, angular = client.getBaseVelocity(handle)
    return math.hypot(*linear) / SCALE + 0.01 * math.hypot(*angular)


def _read_resting_scene(client: BulletClient, scene: Scene, moving: Mapping[Body, int]) -> Scene:
    """Return the scene with moving bodies at their Bullet poses, at rest."""
    return replace(
        scene,
        bodies=tuple(
            apply_motion(body, RigidMotion(read_motion(client, body, moving[body]).pose))
            if body in moving
            else body
            for body in scene.bodies
        ),
    )
