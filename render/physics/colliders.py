"""Bullet's collision shapes of solids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sim2cam.geometry.poses import Pose
from sim2cam.objects.solid import ConvexPart, Solid
from sim2cam.render.physics.bullet import SCALE

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

_MAX_PARTS = 16  # per shape; Bullet silently drops the rest


def create_collision_shapes(client: BulletClient, solid: Solid, *, is_fixed: bool) -> list[int]:
    """Create the Bullet shapes of a solid.

    A Bullet shape has a limited number of parts. Fixed bodies get several shapes; moving bodies get one.
    """
    parts = solid.build_collider() if is_fixed else solid.build_moving_collider(_MAX_PARTS)
    if not solid.is_compound:
        return [_create_simple_shape(client, parts[0])]
    return [
        _create_compound_shape(client, parts[first : first + _MAX_PARTS])
        for first in range(0, len(parts), _MAX_PARTS)
    ]


def _create_simple_shape(client: BulletClient, part: ConvexPart) -> int:
    frame = {}
    if part.pose != Pose():
        frame = {"collisionFramePosition": np.multiply(part.pose.position_m, SCALE).tolist()}
    size, kind = np.multiply(part.size_m, SCALE), _get_geometry_type(client, part)
    if part.geometry == "box":
        return int(client.createCollisionShape(kind, halfExtents=(size / 2).tolist(), **frame))
    return int(client.createCollisionShape(kind, radius=size[0] / 2, height=size[2], **frame))


def _create_compound_shape(client: BulletClient, parts: Sequence[ConvexPart]) -> int:
    sizes = [np.multiply(part.size_m, SCALE) for part in parts]
    poses = [part.pose for part in parts]
    shape = client.createCollisionShapeArray(
        shapeTypes=[_get_geometry_type(client, part) for part in parts],
        halfExtents=[size / 2 for size in sizes],
        radii=[size[0] / 2 for size in sizes],
        lengths=[size[2] for size in sizes],
        collisionFramePositions=[np.multiply(pose.position_m, SCALE) for pose in poses],
        collisionFrameOrientations=[
            (*pose.rotation_wxyz[1:], pose.rotation_wxyz[0]) for pose in poses
        ],
    )
    return int(shape)


def _get_geometry_type(client: BulletClient, part: ConvexPart) -> int:
    types = {
        "box": client.GEOM_BOX,
        "cylinder": client.GEOM_CYLINDER,
        "capsule": client.GEOM_CAPSULE,
        "sphere": client.GEOM_SPHERE,
    }
    return int(types[part.geometry])
