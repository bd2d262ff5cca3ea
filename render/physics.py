"""Physics: bodies fall, collide and come to rest in Bullet; what it did is measured and returned."""

from __future__ import annotations

import functools
import math
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.motion import Course, Twist
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.bullet import empty_world
from sim2cam.render.decomposition import parts_obj
from sim2cam.render.film import STEP_S, Film
from sim2cam.render.mesh_file import collider_of
from sim2cam.scene.asset import Asset, Box, Cylinder, Die, Ground, MeshFile, Sphere
from sim2cam.scene.scene import Body, Scene

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

GRAVITY_M_S2 = 9.81
MAX_PENETRATION_M = 1e-3
MAX_REST_SPEED_M_S = 5e-3
MAX_TILT_RAD = math.radians(5)
"""A die whose upper face leans further than this has no clear value; its scene is drawn again."""

_SCALE = 20.0  # Bullet is made for bodies of 0.1 to 10 units, dice are 0.016 m
_BOUNCE_FROM_M_S = 0.1  # slower impacts do not bounce: gravity alone adds 0.04 m/s in a step
_CHECK_EVERY = 24
_CALM_CHECKS = 2
_MAX_SECONDS = 6.0
_ROLLING_M = {
    "cylinder": 5e-4,
    "sphere": 2e-3,
    "mesh": 2e-3,
}  # of others' flat faces it makes jitter
_GROUND_DEPTH_M = 0.5
_FALLEN_OFF_M = 2.0


@dataclass(frozen=True)
class PhysicsCertificate:
    """How a scene came to rest.

    Attributes:
        seconds: simulated time.
        rest_speed_m_s: speed of the fastest body at the end.
        penetration_m: deepest overlap of two bodies at the end.
        tilt_rad: how far the most leaning labelled body is off lying flat.
        rejection: why the scene cannot be used; None when it can.
    """

    seconds: float
    rest_speed_m_s: float
    penetration_m: float
    tilt_rad: float
    rejection: str | None


def settle(scene: Scene, film: Film | None = None) -> tuple[Scene, PhysicsCertificate]:
    """Returns the scene at rest, and how it got there. Deterministic.

    Args:
        scene: bodies where they are let go.
        film: of the same scene; records the way to rest.
    """
    client = empty_world()
    client.setGravity(0, 0, -GRAVITY_M_S2 * _SCALE)
    client.setPhysicsEngineParameter(
        fixedTimeStep=STEP_S,
        numSolverIterations=60,
        deterministicOverlappingPairs=1,
        restitutionVelocityThreshold=_BOUNCE_FROM_M_S * _SCALE,
    )
    handles = {body.name: _add(client, body) for body in scene.bodies}
    moving = [b for b in scene.bodies if not b.is_fixed]
    calm, seconds, speed = 0, 0.0, 0.0
    while seconds < _MAX_SECONDS and calm < _CALM_CHECKS:
        for _ in range(_CHECK_EVERY):
            client.stepSimulation()
            if film is not None:
                film.add({b.name: _course(client, b.asset, handles[b.name]) for b in moving})
        seconds += _CHECK_EVERY * STEP_S
        speed = max((_speed(client, handles[b.name]) for b in moving), default=0.0)
        calm = calm + 1 if speed < MAX_REST_SPEED_M_S else 0
    settled = replace(scene, bodies=tuple(_moved(client, b, handles[b.name]) for b in scene.bodies))
    return settled, _certify(settled, seconds, speed, _penetration(client))


def upward_face(die: Die, pose: Pose) -> tuple[str, float]:
    """Returns the value of the die's upper face, and its angle off the vertical in radians."""
    faces = die.face_normals()
    ups = pose.rotation().apply(np.array(list(faces.values())))[:, 2]
    best = int(np.argmax(ups))
    return list(faces)[best], float(math.acos(min(1.0, ups[best])))


def _certify(scene: Scene, seconds: float, speed: float, penetration: float) -> PhysicsCertificate:
    targets = [b for b in scene.bodies if isinstance(b.asset, Die) and b.is_target]
    tilt = max(
        (upward_face(b.asset, b.pose)[1] for b in targets if isinstance(b.asset, Die)), default=0.0
    )
    away = max((math.hypot(*b.pose.position_m) for b in targets), default=0.0)
    reasons = {
        f"still moving at {speed:.3f} m/s after {seconds:.1f} s": speed >= MAX_REST_SPEED_M_S,
        f"bodies overlap by {penetration * 1e3:.2f} mm": penetration > MAX_PENETRATION_M,
        f"a die leans by {math.degrees(tilt):.1f} degrees": tilt > MAX_TILT_RAD,
        f"a die ended {away:.1f} m away": away > _FALLEN_OFF_M,
    }
    rejection = next((reason for reason, holds in reasons.items() if holds), None)
    return PhysicsCertificate(seconds, speed, penetration, tilt, rejection)


def _add(client: BulletClient, body: Body) -> int:
    w, x, y, z = body.pose.rotation_wxyz
    handle = client.createMultiBody(
        0.0 if body.is_fixed else body.mass_kg,
        _collider(client, body.asset),
        -1,
        (body.pose.apply(_centre_m(body.asset)[None])[0] * _SCALE).tolist(),
        (x, y, z, w),
    )
    rolling = _ROLLING_M.get(body.asset.kind, 0.0) * _SCALE
    client.changeDynamics(
        handle, -1, lateralFriction=body.friction, restitution=body.restitution,
        rollingFriction=rolling, spinningFriction=rolling, linearDamping=0.0, angularDamping=0.0,
    )  # fmt: skip
    if not body.is_fixed:
        client.resetBaseVelocity(
            handle, np.multiply(body.velocity_m_s, _SCALE).tolist(), list(body.spin_rad_s)
        )
    return int(handle)


def _collider(client: BulletClient, asset: Asset) -> int:
    match asset:
        case Die():  # as a cube: rounding bends its way, not how it lies, and cubes rest without jitter
            shape = client.createCollisionShape(
                client.GEOM_BOX, halfExtents=[asset.edge_m * _SCALE / 2] * 3
            )
        case Box():
            sides = np.multiply(asset.size_m, _SCALE / 2).tolist()
            shape = client.createCollisionShape(client.GEOM_BOX, halfExtents=sides)
        case Cylinder():
            shape = client.createCollisionShape(
                client.GEOM_CYLINDER,
                radius=asset.radius_m * _SCALE,
                height=asset.height_m * _SCALE,
            )
        case Sphere():
            shape = client.createCollisionShape(client.GEOM_SPHERE, radius=asset.radius_m * _SCALE)
        case Ground():
            half = asset.side_m * _SCALE / 2
            shape = client.createCollisionShape(
                client.GEOM_BOX,
                halfExtents=[half, half, _GROUND_DEPTH_M * _SCALE],
                collisionFramePosition=[0, 0, -_GROUND_DEPTH_M * _SCALE],
            )
        case MeshFile():
            shape = _mesh_collider(client, asset)
    return int(shape)


def _mesh_collider(client: BulletClient, asset: MeshFile) -> int:
    collider = collider_of(asset)
    if len(collider.parts) > 1:  # Bullet takes several convex solids from a file alone
        scale = [_SCALE] * 3
        file = str(_parts_file(asset))
        return int(client.createCollisionShape(client.GEOM_MESH, fileName=file, meshScale=scale))
    corners = (collider.parts[0] - collider.center) * _SCALE
    return int(client.createCollisionShape(client.GEOM_MESH, vertices=corners.tolist()))


@functools.lru_cache(maxsize=1024)
def _parts_file(asset: MeshFile) -> Path:
    """Returns an OBJ of ours, in this process's own folder, with the parts of a mesh around its mass."""
    collider = collider_of(asset)
    number = _parts_file.cache_info().misses  # Bullet remembers files by their names
    path = Path(_own_folder().name, f"{number}.obj")
    path.write_text(parts_obj([part - collider.center for part in collider.parts]))
    return path


@functools.cache
def _own_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sim2cam-")


def _centre_m(asset: Asset) -> NDArray[np.float64]:
    """Returns where in the asset's frame (3,) its mass lies, on which Bullet puts its own frame."""
    return collider_of(asset).center if isinstance(asset, MeshFile) else np.zeros(3)


def _speed(client: BulletClient, handle: int) -> float:
    """Returns linear speed in m/s plus the rim speed that the spin gives a body of 1 cm."""
    linear, angular = client.getBaseVelocity(handle)
    return math.hypot(*linear) / _SCALE + 0.01 * math.hypot(*angular)


def _penetration(client: BulletClient) -> float:
    """Returns the deepest overlap in metres, 0 or more."""
    client.performCollisionDetection()
    depths = [-contact[8] / _SCALE for contact in client.getContactPoints()]
    return float(max([0.0, *depths]))


def _moved(client: BulletClient, body: Body, handle: int) -> Body:
    if body.is_fixed:
        return body
    pose = _course(client, body.asset, handle).pose
    return replace(body, pose=pose, velocity_m_s=(0.0, 0.0, 0.0), spin_rad_s=(0.0, 0.0, 0.0))


def _course(client: BulletClient, asset: Asset, handle: int) -> Course:
    """Returns where a body is and how it moves."""
    position, (x, y, z, w) = client.getBasePositionAndOrientation(handle)
    velocity, spin = client.getBaseVelocity(handle)
    px, py, pz = (float(c) / _SCALE for c in position)
    centre = Pose((float(w), float(x), float(y), float(z)), (px, py, pz))
    to_origin = centre.rotation().apply(-_centre_m(asset))
    pose = replace(centre, position_m=vec3(centre.position_m + to_origin))
    velocity_m_s = np.divide(velocity, _SCALE) + np.cross(spin, to_origin)
    return Course(pose, Twist(vec3(velocity_m_s), vec3(np.array(spin))))
