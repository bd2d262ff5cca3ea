"""Compounds: built-in shapes that collide as several simple solids, each of which is convex."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, Quaternion, quaternion, vec3
from sim2cam.render.physics.bullet import SCALE
from sim2cam.scene.fasteners import Bolt, Nut
from sim2cam.scene.shape import Box, Cylinder
from sim2cam.scene.tubes import Strand, Tubes
from sim2cam.scene.twisty import NORMALS, TwistyCube

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

_MOST_PARTS = 16  # of a shape; Bullet leaves out the rest without a word
_UNUSED = [1.0, 1.0, 1.0]  # Bullet wants as many sizes of each kind as there are solids

Compound = TwistyCube | Bolt | Nut | Tubes


@dataclass(frozen=True)
class Capsule:
    """All points within a radius of a line along z, so long, centred on the origin."""

    radius_m: float
    height_m: float


@dataclass(frozen=True)
class Part:
    """A solid of a compound.

    Attributes:
        shape: what it is.
        pose: its frame in that of the whole.
    """

    shape: Box | Cylinder | Capsule
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
        case Tubes():
            return tuple(part for strand in asset.strands for part in _capsules(strand))


def thickness_m(part: Part) -> float:
    """Returns the shortest way through the middle of a solid."""
    match part.shape:
        case Box(sides):
            shortest = min(sides)
        case Cylinder():
            shortest = min(2 * part.shape.radius_m, part.shape.height_m)
        case Capsule():
            shortest = 2 * part.shape.radius_m
    return shortest


def compound_shapes(client: BulletClient, asset: Compound, *, is_fixed: bool) -> list[int]:
    """Returns Bullet's shapes of a compound.

    Bullet takes few solids for one shape. What is fixed has as many shapes as it needs; what moves has
    one, so that strands of many points are straightened a little.
    """
    parts = parts_of(asset if is_fixed or not isinstance(asset, Tubes) else _simpler(asset))
    return [
        _shape_of(client, parts[first : first + _MOST_PARTS])
        for first in range(0, len(parts), _MOST_PARTS)
    ]


def _shape_of(client: BulletClient, parts: Sequence[Part]) -> int:
    shapes, poses = [part.shape for part in parts], [part.pose for part in parts]
    shape = client.createCollisionShapeArray(
        shapeTypes=[_kind_of(client, one) for one in shapes],
        halfExtents=[
            np.multiply(one.size_m, SCALE / 2) if isinstance(one, Box) else _UNUSED
            for one in shapes
        ],
        radii=[1.0 if isinstance(one, Box) else one.radius_m * SCALE for one in shapes],
        lengths=[1.0 if isinstance(one, Box) else one.height_m * SCALE for one in shapes],
        collisionFramePositions=[np.multiply(p.position_m, SCALE) for p in poses],
        collisionFrameOrientations=[(*p.rotation_wxyz[1:], p.rotation_wxyz[0]) for p in poses],
    )
    return int(shape)


def _kind_of(client: BulletClient, shape: Box | Cylinder | Capsule) -> int:
    match shape:
        case Box():
            kind = client.GEOM_BOX
        case Cylinder():
            kind = client.GEOM_CYLINDER
        case Capsule():
            kind = client.GEOM_CAPSULE
    return int(kind)


def _layers(cube: TwistyCube) -> tuple[Part, ...]:
    """Returns the layer of a cube's turned face, and all others as one; one solid of a whole cube."""
    if cube.turned_rad == 0:
        return (Part(Box((cube.edge_m,) * 3), Pose()),)
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


def _capsules(strand: Strand) -> Iterator[Part]:
    """Yields a capsule from each point of a strand to the next, as thick as it is in the mean."""
    points, radii = np.array(strand.points_m), np.array(strand.radii_m)
    for (start, end), ends in zip(
        itertools.pairwise(points), itertools.pairwise(radii), strict=True
    ):
        turn, _ = Rotation.align_vectors([end - start], [[0.0, 0.0, 1.0]])
        shape = Capsule(float(np.mean(ends)), math.dist(start, end))
        yield Part(shape, Pose(quaternion(turn), vec3((start + end) / 2)))


def _simpler(tubes: Tubes) -> Tubes:
    """Returns tubes of so few points that one shape holds them; their ends stay."""
    pieces = max(1, _MOST_PARTS // len(tubes.strands))
    return Tubes(tuple(_fewer(strand, pieces) for strand in tubes.strands))


def _fewer(strand: Strand, pieces: int) -> Strand:
    count = min(pieces + 1, len(strand.points_m))
    at = np.linspace(0, len(strand.points_m) - 1, count).round().astype(int)
    return Strand(tuple(strand.points_m[i] for i in at), tuple(strand.radii_m[i] for i in at))


def _turned(sixths: int) -> Quaternion:
    """Returns the rotation about z by so many sixths of a turn."""
    return math.cos(sixths * math.pi / 6), 0.0, 0.0, math.sin(sixths * math.pi / 6)


def _slab(side_m: float, thick_m: float, axis: np.ndarray) -> Box:
    return Box(vec3(np.where(axis > 0, thick_m, side_m)))
