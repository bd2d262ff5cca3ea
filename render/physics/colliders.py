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
from sim2cam.scene.shape import Cuboid, Cylinder
from sim2cam.scene.tubes import Strand, Tubes
from sim2cam.scene.twisty import FACE_NORMALS, TwistyCube

if TYPE_CHECKING:
    from pybullet_utils.bullet_client import BulletClient

_MAX_PARTS = 16  # of a shape; Bullet leaves out the rest without a word
_UNUSED_EXTENTS = [1.0, 1.0, 1.0]  # Bullet wants as many sizes of each kind as there are solids

CompoundAsset = TwistyCube | Bolt | Nut | Tubes


@dataclass(frozen=True)
class CollisionCapsule:
    """All points within a radius of a line along z, so long, centred on the origin."""

    radius_m: float
    height_m: float


@dataclass(frozen=True)
class CollisionPart:
    """A solid of a compound.

    Attributes:
        shape: what it is.
        pose: its frame in that of the whole.
    """

    shape: Cuboid | Cylinder | CollisionCapsule
    pose: Pose


def build_collision_parts(asset: CompoundAsset) -> tuple[CollisionPart, ...]:
    """Return the solids that a compound collides as."""
    match asset:
        case TwistyCube():
            return _make_twisty_parts(asset)
        case Bolt():
            return _make_bolt_parts(asset)
        case Nut():
            return _make_nut_parts(asset)
        case Tubes():
            return tuple(part for strand in asset.strands for part in _make_strand_parts(strand))


def compute_part_thickness_m(part: CollisionPart) -> float:
    """Return the shortest way through the middle of a solid."""
    match part.shape:
        case Cuboid(sides):
            shortest = min(sides)
        case Cylinder():
            shortest = min(2 * part.shape.radius_m, part.shape.height_m)
        case CollisionCapsule():
            shortest = 2 * part.shape.radius_m
    return shortest


def create_compound_shapes(
    client: BulletClient, asset: CompoundAsset, *, is_fixed: bool
) -> list[int]:
    """Return Bullet's shapes of a compound.

    Bullet takes few solids for one shape. What is fixed has as many shapes as it needs; what moves has
    one, so that strands of many points are straightened a little.
    """
    parts = build_collision_parts(
        asset if is_fixed or not isinstance(asset, Tubes) else _simplify_tubes(asset)
    )
    return [
        _create_shape(client, parts[first : first + _MAX_PARTS])
        for first in range(0, len(parts), _MAX_PARTS)
    ]


def _create_shape(client: BulletClient, parts: Sequence[CollisionPart]) -> int:
    shapes, poses = [part.shape for part in parts], [part.pose for part in parts]
    shape = client.createCollisionShapeArray(
        shapeTypes=[_get_geometry_type(client, one) for one in shapes],
        halfExtents=[
            np.multiply(one.size_m, SCALE / 2) if isinstance(one, Cuboid) else _UNUSED_EXTENTS
            for one in shapes
        ],
        radii=[1.0 if isinstance(one, Cuboid) else one.radius_m * SCALE for one in shapes],
        lengths=[1.0 if isinstance(one, Cuboid) else one.height_m * SCALE for one in shapes],
        collisionFramePositions=[np.multiply(p.position_m, SCALE) for p in poses],
        collisionFrameOrientations=[(*p.rotation_wxyz[1:], p.rotation_wxyz[0]) for p in poses],
    )
    return int(shape)


def _get_geometry_type(client: BulletClient, shape: Cuboid | Cylinder | CollisionCapsule) -> int:
    match shape:
        case Cuboid():
            kind = client.GEOM_BOX
        case Cylinder():
            kind = client.GEOM_CYLINDER
        case CollisionCapsule():
            kind = client.GEOM_CAPSULE
    return int(kind)


def _make_twisty_parts(cube: TwistyCube) -> tuple[CollisionPart, ...]:
    """Return the layer of a cube's turned face, and all others as one; one solid of a whole cube."""
    if cube.turned_rad == 0:
        return (CollisionPart(Cuboid((cube.edge_m,) * 3), Pose()),)
    normal = np.array(FACE_NORMALS[cube.turned], np.float64)
    thick = np.abs(normal)
    layer = normal * (cube.edge_m - cube.cubelet_m) / 2
    _, turn = cube.select_turned_layer(layer[None])
    rest = cube.edge_m - cube.cubelet_m
    return (
        CollisionPart(_make_slab(cube.edge_m, cube.cubelet_m, thick), Pose(turn, vec3(layer))),
        CollisionPart(
            _make_slab(cube.edge_m, rest, thick),
            Pose(position_m=vec3(-normal * cube.cubelet_m / 2)),
        ),
    )


def _make_bolt_parts(bolt: Bolt) -> tuple[CollisionPart, ...]:
    """Return the shank of a bolt, and its head: three boxes across each other, which fill a hexagon."""
    side, middle = bolt.head_m / math.sqrt(3), (bolt.head_bottom_z_m + bolt.head_top_z_m) / 2
    head = Cuboid((bolt.head_m, side, bolt.head_height_m))
    shank = Cylinder(bolt.diameter_m / 2, bolt.length_m)
    return (
        CollisionPart(
            shank, Pose(position_m=(0.0, 0.0, (bolt.tip_z_m + bolt.head_bottom_z_m) / 2))
        ),
        *(CollisionPart(head, Pose(_rotate_by_sixths(n), (0.0, 0.0, middle))) for n in range(3)),
    )


def _make_nut_parts(nut: Nut) -> tuple[CollisionPart, ...]:
    """Return the sides of a nut, a box each, around a hole that a bolt fits in."""
    hole = nut.diameter_m / 2
    thick = nut.across_m / 2 - hole
    side = Cuboid((thick, nut.across_m / math.sqrt(3), nut.height_m))
    return tuple(
        CollisionPart(
            side,
            Pose(
                _rotate_by_sixths(n),
                vec3(Pose(_rotate_by_sixths(n)).apply(np.array([[hole + thick / 2, 0, 0]]))[0]),
            ),
        )
        for n in range(6)
    )


def _make_strand_parts(strand: Strand) -> Iterator[CollisionPart]:
    """Yield a capsule from each point of a strand to the next, as thick as it is in the mean."""
    points, radii = np.array(strand.points_m), np.array(strand.radii_m)
    for (start, end), ends in zip(
        itertools.pairwise(points), itertools.pairwise(radii), strict=True
    ):
        turn, _ = Rotation.align_vectors([end - start], [[0.0, 0.0, 1.0]])
        shape = CollisionCapsule(float(np.mean(ends)), math.dist(start, end))
        yield CollisionPart(shape, Pose(quaternion(turn), vec3((start + end) / 2)))


def _simplify_tubes(tubes: Tubes) -> Tubes:
    """Return tubes of so few points that one shape holds them; their ends stay."""
    pieces = max(1, _MAX_PARTS // len(tubes.strands))
    return Tubes(tuple(_simplify_strand(strand, pieces) for strand in tubes.strands))


def _simplify_strand(strand: Strand, max_segments: int) -> Strand:
    count = min(max_segments + 1, len(strand.points_m))
    at = np.linspace(0, len(strand.points_m) - 1, count).round().astype(int)
    return Strand(tuple(strand.points_m[i] for i in at), tuple(strand.radii_m[i] for i in at))


def _rotate_by_sixths(sixths: int) -> Quaternion:
    """Return the rotation about z by so many sixths of a turn."""
    return math.cos(sixths * math.pi / 6), 0.0, 0.0, math.sin(sixths * math.pi / 6)


def _make_slab(side_m: float, thickness_m: float, axis: np.ndarray) -> Cuboid:
    return Cuboid(vec3(np.where(axis > 0, thickness_m, side_m)))
