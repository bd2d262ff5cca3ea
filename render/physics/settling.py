"""Physics: bodies fall, collide and come to rest in Bullet; what it did is measured and returned."""

from __future__ import annotations

import functools
import itertools
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.motion import Course, Twist
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.assets.decomposition import parts_obj
from sim2cam.render.assets.mesh_file import collider_of
from sim2cam.render.physics.bullet import SCALE, empty_world
from sim2cam.render.physics.compounds import Compound, compound_shapes
from sim2cam.render.physics.contacts import Contact, contacts_in, energies_in
from sim2cam.render.physics.film import STEP_S, Film
from sim2cam.render.shapes.mesh import extent_of
from sim2cam.scene.asset import (
    Asset,
    Block,
    Board,
    Box,
    Card,
    Cylinder,
    Die,
    Ground,
    MeshFile,
    Sphere,
)
from sim2cam.scene.packages import Carton, Sheet, Tin
from sim2cam.scene.scene import Body, Scene

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

GRAVITY_M_S2 = 9.81
MAX_PENETRATION_M = 1e-3
MAX_REST_SPEED_M_S = 2e-3
MAX_DRIFT_M = 1e-3
MAX_TILT_RAD = math.radians(5)
"""A die whose upper face leans further than this has no clear value; its scene is drawn again."""

_BOUNCE_FROM_M_S = 0.1  # slower impacts do not bounce: gravity alone adds 0.04 m/s in a step
_APART = (
    0.5  # share of an overlap that a step takes away; so bounces are as high as restitution says
)
_CHECK_EVERY = 24
_CALM_CHECKS = 2
_MAX_CHECKS = 60
_DRIFT_STEPS = 120
_MAX_SUBSTEPS = 16
_SPARE = 0.8
_LEAST_J = 1e-9
ROLLING_M = {
    "cylinder": 5e-4,
    "tin": 5e-4,
    "bolt": 5e-4,
    "tubes": 5e-4,
    "sphere": 2e-3,
    "mesh": 2e-3,
}
"""Resistance to rolling by kind, over the push on it; on flat faces it makes bodies jitter."""
_GROUND_DEPTH_M = 0.5
_FALLEN_OFF_M = 2.0


@dataclass(frozen=True)
class PhysicsCertificate:
    """How a scene came to rest.

    Attributes:
        seconds: simulated time.
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


def settle(scene: Scene, film: Film | None = None) -> tuple[Scene, PhysicsCertificate]:
    """Returns the scene at rest, and how it got there. Deterministic.

    Args:
        scene: bodies where they are let go. Those that arrive last touch nothing until all others are
            at rest.
        film: of the same scene; records the way to rest.

    Raises:
        SpecError: a body that can move has no mass.
    """
    _check_masses(scene)
    client, handles = _world_of([body for body in scene.bodies if not body.arrives_last])
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
                courses = {b.name: _course(client, b, handle) for b, handle in moving.items()}
                film.add(courses, contacts_in(client, names, substeps))
        speed = max((_speed(client, handle) for handle in moving.values()), default=0.0)
        calm = calm + 1 if speed < MAX_REST_SPEED_M_S else 0
    bodies = tuple(_moved(client, b, moving[b]) if b in moving else b for b in scene.bodies)
    settled = replace(scene, bodies=bodies)
    contacts = contacts_in(client, names, substeps)
    return settled, _certify(settled, energies, contacts, speed, _drift_m(settled))


def _check_masses(scene: Scene) -> None:
    for body in scene.bodies:
        if not body.is_fixed and not 0 < body.mass_kg < math.inf:
            raise SpecError(
                f"body '{body.name}' can move and has a mass of {body.mass_kg} kg. Give it a finite "
                "one above 0, or fix it."
            )


def _world_of(bodies: Sequence[Body]) -> tuple[BulletClient, dict[str, list[int]]]:
    """Returns Bullet's world with these bodies, and its numbers of them."""
    client = empty_world()
    client.setGravity(0, 0, -GRAVITY_M_S2 * SCALE)
    client.setPhysicsEngineParameter(
        fixedTimeStep=STEP_S,
        numSubSteps=1,
        numSolverIterations=60,
        deterministicOverlappingPairs=1,
        useSplitImpulse=1,  # pushing bodies apart that overlap must not throw them
        splitImpulsePenetrationThreshold=0.0,
        contactERP=_APART,
        restitutionVelocityThreshold=_BOUNCE_FROM_M_S * SCALE,
    )
    return client, {body.name: _add(client, body) for body in bodies}


def _drift_m(settled: Scene) -> float:
    """Returns how far a body moves at most in half a second after it was let go again, at rest.

    What leaned on its neighbours by forces that only built up as it came there falls then, what bodies
    that arrive last overlap is pushed away, and what only its resistance to rolling held rolls.
    """
    client, handles = _world_of(settled.bodies)
    for handle in itertools.chain(*handles.values()):
        client.changeDynamics(handle, -1, rollingFriction=0.0, spinningFriction=0.0)
    for _ in range(_DRIFT_STEPS):
        client.stepSimulation()
    ends = [_course(client, body, handles[body.name][0]).pose for body in settled.bodies]
    starts = [body.pose for body in settled.bodies]
    return max(math.dist(a.position_m, b.position_m) for a, b in zip(starts, ends, strict=True))


def upward_face(die: Die, pose: Pose) -> tuple[str, float]:
    """Returns the value of the die's upper face, and its angle off the vertical in radians."""
    faces = die.face_normals()
    ups = pose.rotation().apply(np.array(list(faces.values())))[:, 2]
    best = int(np.argmax(ups))
    return list(faces)[best], float(math.acos(min(1.0, ups[best])))


def _certify(
    scene: Scene,
    energies: list[float],
    contacts: tuple[Contact, ...],
    speed: float,
    drift_m: float,
) -> PhysicsCertificate:
    steps = (len(energies) - 1) * _CHECK_EVERY
    seconds, penetration = steps * STEP_S, max((c.depth_m for c in contacts), default=0.0)
    targets = [b for b in scene.bodies if isinstance(b.asset, Die) and b.is_target]
    tilt = max(
        (upward_face(b.asset, b.pose)[1] for b in targets if isinstance(b.asset, Die)), default=0.0
    )
    away = max((math.hypot(*b.pose.position_m) for b in targets), default=0.0)
    sunk = {body.name: -_lowest_m(body) for body in scene.bodies if _is_fixed_file(body)}
    deepest = max(sunk, key=lambda name: sunk[name], default="")
    reasons = {
        f"{deepest} reaches {sunk.get(deepest, 0.0) * 1e3:.0f} mm below the table": (
            sunk.get(deepest, 0.0) > MAX_PENETRATION_M
        ),
        f"still moving at {speed:.3f} m/s after {seconds:.1f} s": speed >= MAX_REST_SPEED_M_S,
        f"a body moves by {drift_m * 1e3:.1f} mm when it is let go again": drift_m > MAX_DRIFT_M,
        f"bodies overlap by {penetration * 1e3:.2f} mm": penetration > MAX_PENETRATION_M,
        f"a die leans by {math.degrees(tilt):.1f} degrees": tilt > MAX_TILT_RAD,
        f"a die ended {away:.1f} m away": away > _FALLEN_OFF_M,
    }
    rejection = next((reason for reason, holds in reasons.items() if holds), None)
    gain = max(float(np.diff(energies).max(initial=0.0)), 0.0)
    share = gain / max(energies[0] - energies[-1], gain, _LEAST_J)
    return PhysicsCertificate(
        seconds, steps, share, contacts, speed, drift_m, penetration, tilt, rejection
    )


def _is_fixed_file(body: Body) -> bool:
    return body.is_fixed and isinstance(body.asset, MeshFile)


def _lowest_m(body: Body) -> float:
    """Returns how high above the table the lowest point is of what a thing from a file collides as."""
    assert isinstance(body.asset, MeshFile)
    parts = collider_of(body.asset).parts
    return min(float(body.pose.apply(part)[:, 2].min()) for part in parts)


def _add(client: BulletClient, body: Body) -> list[int]:
    """Returns Bullet's numbers of a body: one of what moves."""
    if isinstance(body.asset, Compound):
        offset = vec3(np.multiply(body.mass_offset_m, -1.0))
        shapes = compound_shapes(client, body.asset, offset, is_fixed=body.is_fixed)
    else:
        shapes = [_collider(client, body)]
    return [_add_shape(client, body, shape) for shape in shapes]


def _add_shape(client: BulletClient, body: Body, shape: int) -> int:
    w, x, y, z = body.pose.rotation_wxyz
    handle = client.createMultiBody(
        0.0 if body.is_fixed else body.mass_kg,
        shape,
        -1,
        (body.pose.apply(_centre_m(body)[None])[0] * SCALE).tolist(),
        (x, y, z, w),
        useMaximalCoordinates=1,  # of Bullet's two kinds of bodies the one with split impulses
    )
    rolling = ROLLING_M.get(body.asset.kind, 0.0) * SCALE
    client.changeDynamics(
        handle, -1, lateralFriction=body.friction, restitution=body.restitution,
        rollingFriction=rolling, spinningFriction=rolling, linearDamping=body.drag, angularDamping=body.spin_drag,
    )  # fmt: skip
    if not body.is_fixed:
        client.resetBaseVelocity(
            handle, np.multiply(body.velocity_m_s, SCALE).tolist(), list(body.spin_rad_s)
        )
    return int(handle)


def _collider(client: BulletClient, body: Body) -> int:
    """Returns the shape that a body collides as, around the centre of its mass."""
    off = np.multiply(body.mass_offset_m, -SCALE)
    moved = {"collisionFramePosition": off.tolist()} if off.any() else {}
    match body.asset:
        case Die():  # as a cube: rounding bends its way, not how it lies, and cubes rest without jitter
            shape = client.createCollisionShape(
                client.GEOM_BOX, halfExtents=[body.asset.edge_m * SCALE / 2] * 3, **moved
            )
        # round edges and corners bend its way no more
        case Box() | Block() | Board() | Card() | Carton() | Sheet():
            sides = np.multiply(body.asset.size_m, SCALE / 2).tolist()
            shape = client.createCollisionShape(client.GEOM_BOX, halfExtents=sides, **moved)
        case Cylinder() | Tin():
            radius, height = body.asset.radius_m * SCALE, body.asset.height_m * SCALE
            shape = client.createCollisionShape(
                client.GEOM_CYLINDER, radius=radius, height=height, **moved
            )
        case Sphere():
            shape = client.createCollisionShape(
                client.GEOM_SPHERE, radius=body.asset.radius_m * SCALE, **moved
            )
        case Ground():
            half = body.asset.side_m * SCALE / 2
            shape = client.createCollisionShape(
                client.GEOM_BOX,
                halfExtents=[half, half, _GROUND_DEPTH_M * SCALE],
                collisionFramePosition=[0, 0, -_GROUND_DEPTH_M * SCALE],
            )
        case MeshFile():
            shape = _mesh_shape(client, body)
    return int(shape)


def _mesh_shape(client: BulletClient, body: Body) -> int:
    """Returns a file's shape around its mass: one convex solid from its corners, several from a file
    of each link, which stays the same however the joints stand.
    """
    assert isinstance(body.asset, MeshFile)
    links, centre = collider_of(body.asset).links, _centre_m(body)
    if len(links) == len(links[0].parts) == 1 and links[0].pose == Pose():
        corners = (links[0].parts[0] - centre) * SCALE
        return int(client.createCollisionShape(client.GEOM_MESH, vertices=corners.tolist()))
    unposed = replace(body.asset, joints=(), keypoints=())
    turns = (link.pose.rotation_wxyz for link in links)
    shape = client.createCollisionShapeArray(
        [client.GEOM_MESH] * len(links),
        fileNames=[str(_parts_file(unposed, link.link)) for link in links],
        meshScales=[[SCALE] * 3] * len(links),
        collisionFramePositions=[
            ((link.pose.position_m - centre) * SCALE).tolist() for link in links
        ],
        collisionFrameOrientations=[(x, y, z, w) for w, x, y, z in turns],
    )
    return int(shape)


@functools.lru_cache(maxsize=1024)
def _parts_file(asset: MeshFile, link: int) -> Path:
    """Returns an OBJ in this process's own folder with the parts of a link, in its frame."""
    (found,) = (one for one in collider_of(asset).links if one.link == link)
    number = _parts_file.cache_info().misses  # Bullet remembers files by their names
    path = Path(_own_folder().name, f"{number}.obj")
    path.write_text(parts_obj(found.parts))
    return path


@functools.cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sim2cam-")


def _substeps(energies_j_kg: NDArray[np.float64], thin_m: float) -> int:
    """Returns in how many parts a step is simulated, so that nothing flies through anything.

    Args:
        energies_j_kg: of the bodies, over their masses: so fast they can become.
        thin_m: overlaps of this are pushed apart the wrong way.
    """
    fastest = math.sqrt(2 * max(energies_j_kg.max(initial=0.0), 0.0))
    return max(1, min(_MAX_SUBSTEPS, math.ceil(fastest * STEP_S / (_SPARE * thin_m))))


def _thinnest_m(scene: Scene) -> float:
    """Returns half the thicknesses of the thinnest body that moves and the thinnest that does not."""
    sides: dict[bool, list[float]] = {True: [], False: []}
    for body in scene.bodies:
        sides[body.is_fixed].append(_thickness_m(body.asset))
    return (min(sides[True], default=math.inf) + min(sides[False], default=math.inf)) / 2


def _thickness_m(asset: Asset) -> float:
    """Returns the shortest side of a shape; an endless table is thick."""
    if isinstance(asset, Ground):
        return _GROUND_DEPTH_M
    low, high = extent_of(asset)
    return float(np.subtract(high, low).min())


def _centre_m(body: Body) -> NDArray[np.float64]:
    """Returns where in the body's frame (3,) its mass lies, on which Bullet puts its own frame."""
    centre = collider_of(body.asset).center if isinstance(body.asset, MeshFile) else np.zeros(3)
    return np.asarray(centre + body.mass_offset_m)


def _speed(client: BulletClient, handle: int) -> float:
    """Returns linear speed in m/s plus the rim speed that the spin gives a body of 1 cm."""
    linear, angular = client.getBaseVelocity(handle)
    return math.hypot(*linear) / SCALE + 0.01 * math.hypot(*angular)


def _moved(client: BulletClient, body: Body, handle: int) -> Body:
    pose = _course(client, body, handle).pose
    return replace(body, pose=pose, velocity_m_s=(0.0, 0.0, 0.0), spin_rad_s=(0.0, 0.0, 0.0))


def _course(client: BulletClient, body: Body, handle: int) -> Course:
    """Returns where a body is and how it moves."""
    position, (x, y, z, w) = client.getBasePositionAndOrientation(handle)
    velocity, spin = client.getBaseVelocity(handle)
    px, py, pz = (float(c) / SCALE for c in position)
    centre = Pose((float(w), float(x), float(y), float(z)), (px, py, pz))
    to_origin = centre.rotation().apply(-_centre_m(body))
    pose = replace(centre, position_m=vec3(centre.position_m + to_origin))
    velocity_m_s = np.divide(velocity, SCALE) + np.cross(spin, to_origin)
    return Course(pose, Twist(vec3(velocity_m_s), vec3(np.array(spin))))
