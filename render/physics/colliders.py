"""Collision shapes of built-in assets that consist of several convex solids."""

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

_MAX_PARTS = 16  # per shape; Bullet silently drops the rest
_UNUSED_EXTENTS = [1.0, 1.0, 1.0]  # placeholder: Bullet needs extents for every solid

CompoundAsset = TwistyCube | Bolt | Nut | Tubes


@dataclass(frozen=True)
class CollisionCapsule:
    """A capsule around a segment along z, centred on the origin."""

    radius_m: float
    height_m: float


@dataclass(frozen=True)
class CollisionPart:
    """A convex solid of a compound.

    Attributes:
        shape: solid in its own frame.
        pose: frame of the solid in the frame of the asset.
    """

    shape: Cuboid | Cylinder | CollisionCapsule
    pose: Pose


def build_collision_parts(asset: CompoundAsset) -> tuple[CollisionPart, ...]:
    """Return the collision solids of a compound."""
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
    """Return the smallest extent of a solid."""
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
    """Create the Bullet shapes of a compound.

    A Bullet shape has a limited number of solids. Fixed bodies get several shapes; moving bodies
    get one, with simplified strands.
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
        shapeTypes=[_get_geometry_type(client, solid) for solid in shapes],
        halfExtents=[
            np.multiply(solid.size_m, SCALE / 2) if isinstance(solid, Cuboid) else _UNUSED_EXTENTS
            for solid in shapes
        ],
        radii=[1.0 if isinstance(solid, Cuboid) else solid.radius_m * SCALE for solid in shapes],
        lengths=[1.0 if isinstance(solid, Cuboid) else solid.height_m * SCALE for solid in shapes],
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
    """Return the turned layer and the other layers; one solid for a cube that is not turned."""
    if cube.turned_rad == 0:
        return (CollisionPart(Cuboid((cube.edge_m,) * 3), Pose()),)
    normal = np.array(FACE_NORMALS[cube.turned], np.float64)
    axis = np.abs(normal)
    layer_center = normal * (cube.edge_m - cube.cubelet_m) / 2
    _, rotation = cube.select_turned_layer(layer_center[None])
    rest_m = cube.edge_m - cube.cubelet_m
    return (
        CollisionPart(
            _make_slab(cube.edge_m, cube.cubelet_m, axis), Pose(rotation, vec3(layer_center))
        ),
        CollisionPart(
            _make_slab(cube.edge_m, rest_m, axis),
            Pose(position_m=vec3(-normal * cube.cubelet_m / 2)),
        ),
    )


def _make_bolt_parts(bolt: Bolt) -> tuple[CollisionPart, ...]:
    """Return the shank, and the hexagonal head as three crossed boxes."""
    side, head_center_z_m = (
        bolt.head_m / math.sqrt(3),
        (bolt.head_bottom_z_m + bolt.head_top_z_m) / 2,
    )
    head = Cuboid((bolt.head_m, side, bolt.head_height_m))
    shank = Cylinder(bolt.diameter_m / 2, bolt.length_m)
    return (
        CollisionPart(
            shank, Pose(position_m=(0.0, 0.0, (bolt.tip_z_m + bolt.head_bottom_z_m) / 2))
        ),
        *(
            CollisionPart(head, Pose(_rotate_by_sixths(sixths), (0.0, 0.0, head_center_z_m)))
            for sixths in range(3)
        ),
    )


def _make_nut_parts(nut: Nut) -> tuple[CollisionPart, ...]:
    """Return the six sides as boxes around the hole."""
    hole_radius_m = nut.diameter_m / 2
    thickness_m = nut.across_m / 2 - hole_radius_m
    side = Cuboid((thickness_m, nut.across_m / math.sqrt(3), nut.height_m))
    return tuple(
        CollisionPart(
            side,
            Pose(
                _rotate_by_sixths(sixths),
                vec3(
                    Pose(_rotate_by_sixths(sixths)).apply(
                        np.array([[hole_radius_m + thickness_m / 2, 0, 0]])
                    )[0]
                ),
            ),
        )
        for sixths in range(6)
    )


def _make_strand_parts(strand: Strand) -> Iterator[CollisionPart]:
    """Yield a capsule of mean radius for each segment of a strand."""
    points, radii = np.array(strand.points_m), np.array(strand.radii_m)
    for (start, end), end_radii in zip(
        itertools.pairwise(points), itertools.pairwise(radii), strict=True
    ):
        rotation, _ = Rotation.align_vectors([end - start], [[0.0, 0.0, 1.0]])
        shape = CollisionCapsule(float(np.mean(end_radii)), math.dist(start, end))
        yield CollisionPart(shape, Pose(quaternion(rotation), vec3((start + end) / 2)))


def _simplify_tubes(tubes: Tubes) -> Tubes:
    """Return tubes with few enough points for one shape; end points are kept."""
    max_segments = max(1, _MAX_PARTS // len(tubes.strands))
    return Tubes(tuple(_simplify_strand(strand, max_segments) for strand in tubes.strands))


def _simplify_strand(strand: Strand, max_segments: int) -> Strand:
    count = min(max_segments + 1, len(strand.points_m))
    indices = np.linspace(0, len(strand.points_m) - 1, count).round().astype(int)
    return Strand(
        tuple(strand.points_m[index] for index in indices),
        tuple(strand.radii_m[index] for index in indices),
    )


def _rotate_by_sixths(sixths: int) -> Quaternion:
    """Return the rotation about z by a number of sixths of a turn."""
    return math.cos(sixths * math.pi / 6), 0.0, 0.0, math.sin(sixths * math.pi / 6)


def _make_slab(side_m: float, thickness_m: float, axis: np.ndarray) -> Cuboid:
    return Cuboid(vec3(np.where(axis > 0, thickness_m, side_m)))
