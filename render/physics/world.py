"""Conversion of scenes to Bullet worlds, and of poses back."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim2cam.assets.decomposition import format_parts_obj
from sim2cam.assets.mesh import build_collider
from sim2cam.geometry.motion import RigidMotion, Twist
from sim2cam.geometry.poses import Pose, Quaternion, quaternion, vec3
from sim2cam.objects.solid import Solid
from sim2cam.render.physics.bullet import SCALE, reset_world
from sim2cam.render.physics.colliders import create_collision_shapes
from sim2cam.render.physics.inertia import compute_inertial_frame
from sim2cam.render.physics.trajectory import STEP_S
from sim2cam.scene.scene import Body
from sim2cam.scene.shape import MeshFile

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

GRAVITY_M_S2 = 9.81
FILE_ROLLING_FRICTION_M = 2e-3
"""Rolling friction of mesh files."""
_SOLVER_ITERATIONS = 300  # per substep
_RESTITUTION_MIN_SPEED_M_S = (
    0.1  # slower impacts do not bounce; gravity alone adds 0.04 m/s per step
)
_CONTACT_ERP = 0.5  # share of penetration resolved per step; at this value restitution is accurate


def build_world(bodies: Sequence[Body]) -> tuple[BulletClient, dict[str, list[int]]]:
    """Build the Bullet world of some bodies, and return it with their handles by name."""
    client = reset_world()
    client.setGravity(0, 0, -GRAVITY_M_S2 * SCALE)
    client.setPhysicsEngineParameter(
        fixedTimeStep=STEP_S,
        numSubSteps=1,
        numSolverIterations=_SOLVER_ITERATIONS,
        deterministicOverlappingPairs=1,
        useSplitImpulse=1,  # resolving penetration must not add velocity
        splitImpulsePenetrationThreshold=0.0,
        contactERP=_CONTACT_ERP,
        restitutionVelocityThreshold=_RESTITUTION_MIN_SPEED_M_S * SCALE,
    )
    return client, {body.name: _add_body(client, body) for body in bodies}


def _add_body(client: BulletClient, body: Body) -> list[int]:
    """Return the Bullet handles of a body; moving bodies have one."""
    if isinstance(body.asset, Solid):
        shapes = create_collision_shapes(client, body.asset, is_fixed=body.is_fixed)
    else:
        assert isinstance(body.asset, MeshFile)
        shapes = [_create_mesh_shape(client, body.asset)]
    return [_add_multibody(client, body, shape) for shape in shapes]


def _add_multibody(client: BulletClient, body: Body, shape: int) -> int:
    inertial, mass_kg = compute_inertial_frame(body), 0.0 if body.is_fixed else body.mass_kg
    handle = client.createMultiBody(
        mass_kg,
        shape,
        -1,
        *_convert_pose(body.pose),
        *_convert_pose(inertial.frame),
        useMaximalCoordinates=1,  # multibodies do not support split impulses
    )
    if inertial.specific_moments_m2 is not None:
        moments = np.multiply(inertial.specific_moments_m2, mass_kg * SCALE**2).tolist()
        client.changeDynamics(handle, -1, mass=mass_kg, localInertiaDiagonal=moments)
    rolling_m = FILE_ROLLING_FRICTION_M
    if isinstance(body.asset, Solid):
        rolling_m = body.asset.rolling_friction_m
    rolling = rolling_m * SCALE
    client.changeDynamics(
        handle, -1, lateralFriction=body.friction, restitution=body.restitution,
        rollingFriction=rolling, spinningFriction=rolling, linearDamping=body.drag, angularDamping=body.spin_drag,
    )  # fmt: skip
    if not body.is_fixed:
        client.resetBaseVelocity(
            handle, np.multiply(body.velocity_m_s, SCALE).tolist(), list(body.spin_rad_s)
        )
    return int(handle)


def _convert_pose(pose: Pose) -> tuple[list[float], Quaternion]:
    """Convert a pose to Bullet units and quaternion order xyzw."""
    w, x, y, z = pose.rotation_wxyz
    return np.multiply(pose.position_m, SCALE).tolist(), (x, y, z, w)


def _create_mesh_shape(client: BulletClient, asset: MeshFile) -> int:
    """Create the shape of a mesh file: one convex solid from its vertices, or an OBJ file per link.

    The OBJ file of a link does not depend on the joint positions.
    """
    links = build_collider(asset).links
    if len(links) == len(links[0].parts) == 1 and links[0].pose == Pose():
        corners = (links[0].parts[0] * SCALE).tolist()
        return int(client.createCollisionShape(client.GEOM_MESH, vertices=corners))
    unposed = replace(asset, joints=(), keypoints=())
    positions, rotations = zip(*(_convert_pose(link.pose) for link in links), strict=True)
    shape = client.createCollisionShapeArray(
        [client.GEOM_MESH] * len(links),
        fileNames=[str(_write_parts_file(unposed, link.link)) for link in links],
        meshScales=[[SCALE] * 3] * len(links),
        collisionFramePositions=list(positions),
        collisionFrameOrientations=list(rotations),
    )
    return int(shape)


@functools.lru_cache(maxsize=1024)
def _write_parts_file(asset: MeshFile, link: int) -> Path:
    """Write the parts of a link, in its frame, to an OBJ file of this process."""
    (collider,) = (part for part in build_collider(asset).links if part.link == link)
    file_number = _write_parts_file.cache_info().misses  # Bullet caches files by name
    path = Path(_get_temp_folder().name, f"{file_number}.obj")
    path.write_text(format_parts_obj(collider.parts))
    return path


@functools.cache
def _get_temp_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sim2cam-")


def read_motion(client: BulletClient, body: Body, handle: int) -> RigidMotion:
    """Return pose and twist of a body, converted from Bullet's inertial frame."""
    frame = compute_inertial_frame(body).frame
    position, (x, y, z, w) = client.getBasePositionAndOrientation(handle)
    velocity, spin = client.getBaseVelocity(handle)
    px, py, pz = (float(c) / SCALE for c in position)
    centre = Pose((float(w), float(x), float(y), float(z)), (px, py, pz))
    to_origin = centre.rotation().apply(frame.inverse().position_m)
    rotation_wxyz = centre.rotation_wxyz
    if frame.rotation_wxyz != Pose().rotation_wxyz:
        rotation_wxyz = quaternion(centre.rotation() * frame.rotation().inv())
    pose = Pose(rotation_wxyz, vec3(centre.position_m + to_origin))
    velocity_m_s = np.divide(velocity, SCALE) + np.cross(spin, to_origin)
    return RigidMotion(pose, Twist(vec3(velocity_m_s), vec3(np.array(spin))))
