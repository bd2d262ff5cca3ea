"""Compounds: built-in shapes that collide as several simple solids, each of which is convex."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim2cam.geometry.poses import Pose, Quaternion, Vec3, vec3
from sim2cam.render.physics.bullet import SCALE
from sim2cam.scene.asset import Box, Cylinder
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.twisty import NORMALS, TwistyCube

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

_UNUSED = [1.0, 1.0, 1.0]  # Bullet wants as many sizes of each kind as there are solids

Compound = TwistyCube | Bolt | Nut


@dataclass(frozen=True)
class Part:
    """A solid of a compound.

    Attributes:
        shape: what it is.
        pose: its frame in that of the whole, whose origin is the centre of its mass.
    """

    shape: Box | Cylinder
    pose: Pose


def parts_of(asset: Compound) -> tuple[Part, ...]:
    """Returns the solids that a compound collides as."""
    match asset:
        case TwistyCube():
            return _layers(asset)
        case Bolt():
            return _bolt(asset)
        case Nut():
            return _nut(asset)


def compound_shape(client: BulletClient, asset: Compound, offset_m: Vec3) -> int:
    """Returns Bullet's shape of a compound, moved against the frame of its body."""
    parts = parts_of(asset)
    shapes, poses = [part.shape for part in parts], [part.pose for part in parts]
    shape = client.createCollisionShapeArray(
        shapeTypes=[
            client.GEOM_BOX if isinstance(s, Box) else client.GEOM_CYLINDER for s in shapes
        ],
        halfExtents=[
            np.multiply(s.size_m, SCALE / 2) if isinstance(s, Box) else _UNUSED for s in shapes
        ],
        radii=[s.radius_m * SCALE if isinstance(s, Cylinder) else 1.0 for s in shapes],
        lengths=[s.height_m * SCALE if isinstance(s, Cylinder) else 1.0 for s in shapes],
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


def _bolt(bolt: Bolt) -> tuple[Part, ...]:
    """Returns the shank of a bolt, and its head: three boxes across each other, which fill a hexagon."""
    side, middle = bolt.head_m / math.sqrt(3), (bolt.bearing_m + bolt.high_m) / 2
    head = Box((bolt.head_m, side, bolt.head_height_m))
    shank = Cylinder(bolt.diameter_m / 2, bolt.length_m)
    return (
        Part(shank, Pose(position_m=(0.0, 0.0, (bolt.low_m + bolt.bearing_m) / 2))),
        *(Part(head, Pose(_turned(n), (0.0, 0.0, middle))) for n in range(3)),
    )


def _nut(nut: Nut) -> tuple[Part, ...]:
    """Returns the sides of a nut, a box each, around a hole that a bolt fits in."""
    hole = nut.diameter_m / 2
    thick = nut.across_m / 2 - hole
    side = Box((thick, nut.across_m / math.sqrt(3), nut.height_m))
    return tuple(
        Part(
            side,
            Pose(_turned(n), vec3(Pose(_turned(n)).apply(np.array([[hole + thick / 2, 0, 0]]))[0])),
        )
        for n in range(6)
    )


def _turned(sixths: int) -> Quaternion:
    """Returns the rotation about z by so many sixths of a turn."""
    return math.cos(sixths * math.pi / 6), 0.0, 0.0, math.sin(sixths * math.pi / 6)


def _slab(side_m: float, thick_m: float, axis: np.ndarray) -> Box:
    return Box(vec3(np.where(axis > 0, thick_m, side_m)))
