"""Compounds: built-in shapes that collide as several simple solids, each of which is convex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim2cam.geometry.poses import Pose, Vec3, vec3
from sim2cam.render.physics.bullet import SCALE
from sim2cam.scene.asset import Box
from sim2cam.scene.twisty import NORMALS, TwistyCube

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

Compound = TwistyCube


@dataclass(frozen=True)
class Part:
    """A solid of a compound.

    Attributes:
        shape: what it is.
        pose: its frame in that of the whole, whose origin is the centre of its mass.
    """

    shape: Box
    pose: Pose


def parts_of(asset: Compound) -> tuple[Part, ...]:
    """Returns the solids that a compound collides as."""
    return _layers(asset)


def compound_shape(client: BulletClient, asset: Compound, offset_m: Vec3) -> int:
    """Returns Bullet's shape of a compound, moved against the frame of its body."""
    parts = parts_of(asset)
    poses = [part.pose for part in parts]
    shape = client.createCollisionShapeArray(
        shapeTypes=[client.GEOM_BOX] * len(parts),
        halfExtents=[np.multiply(part.shape.size_m, SCALE / 2).tolist() for part in parts],
        collisionFramePositions=[np.add(p.position_m, offset_m) * SCALE for p in poses],
        collisionFrameOrientations=[(*p.rotation_wxyz[1:], p.rotation_wxyz[0]) for p in poses],
    )
    return int(shape)


def _layers(cube: TwistyCube) -> tuple[Part, ...]:
    """Returns the layer of a cube's turned face, and all others as one."""
    normal = np.array(NORMALS[cube.turned], np.float64)
    thick = np.abs(normal)
    layer = normal * (cube.edge_m - cube.cubelet_m) / 2
    _, turn = cube.layer_pose(layer[None])
    rest = cube.edge_m - cube.cubelet_m
    return (
        Part(_slab(cube.edge_m, cube.cubelet_m, thick), Pose(turn, vec3(layer))),
        Part(_slab(cube.edge_m, rest, thick), Pose(position_m=vec3(-normal * cube.cubelet_m / 2))),
    )


def _slab(side_m: float, thick_m: float, axis: np.ndarray) -> Box:
    return Box(vec3(np.where(axis > 0, thick_m, side_m)))
