"""Worlds: the bodies of a scene as Bullet has them, and where it has them."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.motion import Course, Twist
from sim2cam.geometry.poses import Pose, vec3
from sim2cam.render.assets.decomposition import parts_obj
from sim2cam.render.assets.mesh_file import collider_of
from sim2cam.render.physics.bullet import SCALE, empty_world
from sim2cam.render.physics.compounds import Compound, compound_shapes
from sim2cam.render.physics.film import STEP_S
from sim2cam.scene.asset import Block, Board, Box, Card, Cylinder, Die, Ground, MeshFile, Sphere
from sim2cam.scene.packages import Carton, Sheet, Tin
from sim2cam.scene.scene import Body

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

GRAVITY_M_S2 = 9.81
GROUND_DEPTH_M = 0.5
ROLLING_M = {
    "cylinder": 5e-4,
    "tin": 5e-4,
    "bolt": 5e-4,
    "tubes": 5e-4,
    "sphere": 2e-3,
    "mesh": 2e-3,
}
"""Resistance to rolling by kind, over the push on it; on flat faces it makes bodies jitter."""
_BOUNCE_FROM_M_S = 0.1  # slower impacts do not bounce: gravity alone adds 0.04 m/s in a step
_APART = 0.5  # share of an overlap that a step takes away; so bounces are as high as told


def world_of(bodies: Sequence[Body]) -> tuple[BulletClient, dict[str, list[int]]]:
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
                halfExtents=[half, half, GROUND_DEPTH_M * SCALE],
                collisionFramePosition=[0, 0, -GROUND_DEPTH_M * SCALE],
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


def _centre_m(body: Body) -> NDArray[np.float64]:
    """Returns where in the body's frame (3,) its mass lies, on which Bullet puts its own frame."""
    centre = collider_of(body.asset).center if isinstance(body.asset, MeshFile) else np.zeros(3)
    return np.asarray(centre + body.mass_offset_m)


def course_of(client: BulletClient, body: Body, handle: int) -> Course:
    """Returns where a body is and how it moves."""
    position, (x, y, z, w) = client.getBasePositionAndOrientation(handle)
    velocity, spin = client.getBaseVelocity(handle)
    px, py, pz = (float(c) / SCALE for c in position)
    centre = Pose((float(w), float(x), float(y), float(z)), (px, py, pz))
    to_origin = centre.rotation().apply(-_centre_m(body))
    pose = replace(centre, position_m=vec3(centre.position_m + to_origin))
    velocity_m_s = np.divide(velocity, SCALE) + np.cross(spin, to_origin)
    return Course(pose, Twist(vec3(velocity_m_s), vec3(np.array(spin))))
