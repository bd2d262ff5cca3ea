"""Initial placement of bodies without overlap, deterministic in the sampled factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, quaternion, vec3
from sim2cam.randomize.bodies import Placeable, Placeables
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.scene import Body

Floats = NDArray[np.float64]

BoundingSphere = tuple[Floats, float]
"""Centre (3,) and radius."""
MAT_THICKNESS_M = 0.002
BOARD_THICKNESS_M = 0.01

_GAP_M = 0.001
_STACK_GAP_M = 2e-4  # small enough that a tower does not collapse when it drops
_PILE_RADIUS_SHARE = 0.1  # of their distance from the centre
_STACK_OFFSET_SHARE = 0.15  # of their radius, from the axis of the stack
_MAX_SEPARATION_STEPS = 300
_SEPARATION_MARGIN_M = 1e-5


@dataclass(frozen=True)
class _FreeSpace:
    """Space in which bodies may be placed.

    Attributes:
        half_extents_m: half sides (2,) of the walls.
        floor_m: height of the supporting surface.
        obstacles: bounding spheres of fixed parts. Bodies are placed above the obstacles they
            overlap, except in ``placed`` layouts.
    """

    half_extents_m: Floats
    floor_m: float
    obstacles: tuple[BoundingSphere, ...]


def arrange_bodies(
    placeables: Placeables, factors: FactorValues, half_extents_m: Floats
) -> list[Body]:
    """Return the bodies at initial poses without overlap: cables, distractors, targets, covers.

    Args:
        placeables: bodies at their sampled positions.
        factors: sampled values.
        half_extents_m: half sides (2,) of the walls.
    """
    is_shelf = factors.get_str("layout/surface") == "shelf"
    flat_cables = [cable for cable in placeables.cables if cable.radius_m < half_extents_m.min()]
    floor_m = BOARD_THICKNESS_M if is_shelf else MAT_THICKNESS_M
    cables, floor_m = _place_cables(flat_cables, half_extents_m, floor_m)
    fixed = tuple(
        sphere for fixture in placeables.fixtures for sphere in fixture.get_bounding_spheres()
    )
    space = _FreeSpace(half_extents_m, floor_m, fixed)
    loose = (_arrange_on_shelf if is_shelf else _arrange_by_layout)(
        placeables.targets, placeables.distractors, factors, space
    )
    reach = {
        placeable.body.name: placeable.radius_m + math.hypot(*placeable.center_m)
        for placeable in (*placeables.targets, *placeables.distractors)
    }
    top = max((body.pose.position_m[2] + reach[body.name] for body in loose), default=floor_m)
    covers = [
        *(cable for cable in placeables.cables if cable not in flat_cables),
        *placeables.papers,
    ]
    return [*cables, *loose, *_place_above(covers, max(top, factors.get_float("layout/wall_m")))]


def _arrange_by_layout(
    targets: Sequence[Placeable],
    distractors: Sequence[Placeable],
    factors: FactorValues,
    space: _FreeSpace,
) -> list[Body]:
    """Return distractors and targets, arranged as the layout defines."""
    match factors.values.get("layout/arrangement", "throw"):
        case "pile":
            piled = [
                _set_at_rest(_move_to_center(placeable, _PILE_RADIUS_SHARE))
                for placeable in targets
            ]
            return _lift_apart([*distractors, *piled], factors, space)
        case "stack":
            tower = sorted(
                (_lay_flat(placeable) for placeable in targets),
                key=_compute_footprint_radius_m,
                reverse=True,
            )
            return _place_side_by_side(
                [*([placeable] for placeable in distractors), tower], factors, space
            )
        case "scatter":
            groups = [[_lay_flat(placeable)] for placeable in targets]
            return _place_side_by_side(
                [*([placeable] for placeable in distractors), *groups], factors, space
            )
        case "placed":
            placed = [_place_at_position(_set_at_rest(placeable), factors) for placeable in targets]
            spheres = (
                sphere for placeable in placed for sphere in placeable.get_bounding_spheres()
            )
            remaining = replace(space, obstacles=(*space.obstacles, *spheres))
            return [
                *_lift_apart(distractors, factors, remaining),
                *(placeable.body for placeable in placed),
            ]
        case _:
            return _lift_apart([*distractors, *targets], factors, space)


def _place_at_position(placeable: Placeable, factors: FactorValues) -> Placeable:
    x, y, z = (factors.get_float_or(f"{placeable.body.name}/{axis}_m", 0.0) for axis in "xyz")
    lowest = float(_compute_corners(placeable)[:, 2].min())
    return replace(
        placeable, body=_place_origin_at(placeable, np.array([x, y, z + _GAP_M - lowest]))
    )


def _arrange_on_shelf(
    targets: Sequence[Placeable],
    distractors: Sequence[Placeable],
    factors: FactorValues,
    space: _FreeSpace,
) -> list[Body]:
    """Distribute bodies over the boards of a shelf."""
    count = factors.get_int("layout/shelf_count")
    placeables = [*distractors, *map(_lay_flat, targets)]
    bodies = []
    for board in range(count):
        groups = [[placeable] for placeable in placeables[board::count]]
        height_m = space.floor_m + board * factors.get_float("layout/wall_m")
        if groups:
            bodies += _place_side_by_side(
                groups, factors, replace(space, floor_m=height_m, obstacles=())
            )
    return bodies


def _place_cables(
    cables: Sequence[Placeable], half_extents_m: Floats, floor_m: float
) -> tuple[list[Body], float]:
    """Stack cables on the floor; return them and the height above them."""
    bodies = []
    for cable in cables:
        x, y = np.clip(
            cable.body.pose.position_m[:2],
            cable.radius_m - half_extents_m,
            half_extents_m - cable.radius_m,
        )
        bodies.append(
            _place_origin_at(cable, np.array([x, y, floor_m + _GAP_M - cable.box_min_m[2]]))
        )
        floor_m += _GAP_M + cable.box_max_m[2] - cable.box_min_m[2]
    return bodies, floor_m


def _place_above(covers: Sequence[Placeable], top_m: float) -> list[Body]:
    """Stack covers above a height."""
    bodies = []
    for cover in covers:
        x, y, _ = cover.body.pose.position_m
        bodies.append(
            _place_origin_at(cover, np.array([x, y, top_m + _GAP_M - cover.box_min_m[2]]))
        )
        top_m += _GAP_M + cover.box_max_m[2] - cover.box_min_m[2]
    return bodies


def _lift_apart(
    placeables: Sequence[Placeable], factors: FactorValues, space: _FreeSpace
) -> list[Body]:
    """Lift bodies until no bounding spheres overlap.

    Distractors come first, then fixed targets, then all other targets.
    """
    placed = sorted(space.obstacles, key=_get_height_m)
    lifted: list[Body] = []
    for placeable in sorted(
        placeables, key=lambda placeable: placeable.body.is_target and not placeable.body.is_fixed
    ):
        radius = placeable.radius_m
        side = space.half_extents_m - radius
        x, y = np.clip(placeable.body.pose.position_m[:2], -side, side)
        floor = factors.get_float("layout/drop_height_m") if placeable.body.is_target else 0.0
        if placeable.body.is_fixed:
            z = (
                floor
                + _compute_top_height(placed, x, y, radius, space.floor_m)
                - _compute_corners(placeable)[:, 2].min()
            )
        else:
            z = _find_free_height(placed, x, y, floor + radius + space.floor_m + _GAP_M, radius)
        center = np.array([x, y, z])
        placed.append((center, radius))
        placed.sort(key=_get_height_m)
        lifted.append(_place_sphere_at(placeable, center))
    return lifted


def _find_free_height(
    spheres: Sequence[BoundingSphere], x: float, y: float, z: float, radius: float
) -> float:
    """Return the first height from ``z`` on at which a sphere overlaps no other, lowest first."""
    for center, other_radius in spheres:
        gap = (radius + other_radius + _GAP_M) ** 2 - (x - center[0]) ** 2 - (y - center[1]) ** 2
        if gap > 0 and abs(z - center[2]) < math.sqrt(gap):
            z = center[2] + math.sqrt(gap)
    return z


def _compute_top_height(
    spheres: Sequence[BoundingSphere], x: float, y: float, radius: float, floor_m: float
) -> float:
    """Return a height above all spheres that overlap horizontally."""
    tops = (
        float(center[2]) + other_radius
        for center, other_radius in spheres
        if math.hypot(x - center[0], y - center[1]) < radius + other_radius
    )
    return max(tops, default=floor_m) + _GAP_M


def _place_side_by_side(
    groups: Sequence[Sequence[Placeable]], factors: FactorValues, space: _FreeSpace
) -> list[Body]:
    """Stack the bodies of each group and separate the groups horizontally.

    A group without free space goes on top of the groups that it overlaps.
    """
    radii = np.array(
        [
            max(map(_compute_footprint_radius_m, group)) * (1 + _STACK_OFFSET_SHARE)
            for group in groups
        ]
    )
    initial = np.array([group[0].body.pose.position_m[:2] for group in groups])
    centers = _separate_discs(initial, radii + _GAP_M / 2, space.half_extents_m)
    tops: list[float] = []
    bodies: list[Body] = []
    for group, center, radius in zip(groups, centers, radii, strict=True):
        tops_below = [
            top
            for top, other_center, other_radius in zip(tops, centers, radii, strict=False)
            if math.dist(center, other_center) < radius + other_radius
        ]
        top = max(tops_below, default=space.floor_m + _GAP_M)
        if space.obstacles:
            top = _find_height_over_obstacles(space.obstacles, group, center, top)
        for placeable in group:
            offset = _compute_stack_offset(placeable, factors) if len(group) > 1 else 0.0
            low, high = np.array(
                [_compute_corners(placeable).min(axis=0), _compute_corners(placeable).max(axis=0)]
            )
            raised_m = factors.get_float_or(f"{placeable.body.name}/z_m", 0.0)
            origin = np.append(center + offset - (low + high)[:2] / 2, top - low[2] + raised_m)
            bodies.append(_place_origin_at(placeable, origin))
            top += raised_m + float(high[2] - low[2]) + _STACK_GAP_M
        tops.append(top + _GAP_M)
    return bodies


def _find_height_over_obstacles(
    obstacles: Sequence[BoundingSphere], group: Sequence[Placeable], position: Floats, top: float
) -> float:
    """Return the first height from ``top`` at which a stacked group touches no obstacle."""
    half = (
        sum(float(np.ptp(_compute_corners(placeable)[:, 2])) + _STACK_GAP_M for placeable in group)
        / 2
    )
    radius = math.hypot(half, max(map(_compute_footprint_radius_m, group)))
    spheres = sorted(obstacles, key=_get_height_m)
    return (
        _find_free_height(spheres, float(position[0]), float(position[1]), top + half, radius)
        - half
    )


def _get_height_m(sphere: BoundingSphere) -> float:
    return float(sphere[0][2])


def _separate_discs(centers: Floats, radii: Floats, half_extents_m: Floats) -> Floats:
    """Return centres (n, 2) near the given ones at which discs of these radii do not overlap.

    Some discs still overlap if there is not enough space.
    """
    # distinct offsets, so that coincident discs have a direction to separate in
    centers = centers + 1e-6 * np.arange(len(centers))[:, None] * np.array([1.0, 0.618])
    min_distances = radii[:, None] + radii
    limits = np.maximum(half_extents_m - radii[:, None], 0)
    for _ in range(_MAX_SEPARATION_STEPS):
        centers = np.clip(centers, -limits, limits)
        offsets = centers[:, None] - centers
        distance = np.maximum(np.linalg.norm(offsets, axis=-1), 1e-9)
        overlap = np.clip(min_distances - distance, 0, None)
        np.fill_diagonal(overlap, 0)
        if not overlap.any():
            break
        directions = offsets / distance[..., None]
        pushes = np.where(overlap > 0, overlap / 2 + _SEPARATION_MARGIN_M, 0)
        centers = centers + (pushes[..., None] * directions).sum(axis=1)
    return np.asarray(centers)


def _lay_flat(placeable: Placeable) -> Placeable:
    """Return an object at rest, rotated so that its most upright axis is vertical."""
    rotation = placeable.body.pose.rotation()
    axes = rotation.as_matrix()
    nearest = int(np.abs(axes[2]).argmax())
    up = axes[:, nearest] * np.sign(axes[2, nearest])
    tilt_axis = np.cross(up, [0.0, 0.0, 1.0])
    rotvec = tilt_axis / max(float(np.linalg.norm(tilt_axis)), 1e-12) * math.acos(min(1.0, up[2]))
    upright = quaternion(Rotation.from_rotvec(rotvec) * rotation)
    body = replace(placeable.body, pose=replace(placeable.body.pose, rotation_wxyz=upright))
    return _set_at_rest(replace(placeable, body=body))


def _set_at_rest(placeable: Placeable) -> Placeable:
    zero = (0.0, 0.0, 0.0)
    return replace(placeable, body=replace(placeable.body, velocity_m_s=zero, spin_rad_s=zero))


def _move_to_center(placeable: Placeable, share: float) -> Placeable:
    """Return an object at a share of its distance from the centre."""
    pose = placeable.body.pose
    new_pose = replace(pose, position_m=vec3(np.multiply(pose.position_m, share)))
    return replace(placeable, body=replace(placeable.body, pose=new_pose))


def _compute_stack_offset(placeable: Placeable, factors: FactorValues) -> Floats:
    share = np.divide(placeable.body.pose.position_m[:2], factors.get_float("layout/region_m"))
    return np.asarray(
        _STACK_OFFSET_SHARE * _compute_footprint_radius_m(placeable) * np.clip(share, -0.7, 0.7)
    )


def _compute_corners(placeable: Placeable) -> Floats:
    """Return the corners (8, 3) of the rotated bounding box, relative to the origin."""
    ends = zip(placeable.box_min_m, placeable.box_max_m, strict=True)
    return np.asarray(placeable.body.pose.rotation().apply(list(itertools.product(*ends))))


def _compute_footprint_radius_m(placeable: Placeable) -> float:
    """Return the radius of the vertical cylinder around the bounding box."""
    flat = _compute_corners(placeable)[:, :2]
    return float(np.linalg.norm(flat - flat.mean(axis=0), axis=1).max())


def _place_sphere_at(placeable: Placeable, center: Floats) -> Body:
    """Return the body with the centre of its bounding sphere at a point."""
    offset = (
        placeable.body.pose.rotation().apply(placeable.center_m) if any(placeable.center_m) else 0.0
    )
    return _place_origin_at(placeable, center - offset)


def _place_origin_at(placeable: Placeable, origin: Floats) -> Body:
    return replace(placeable.body, pose=Pose(placeable.body.pose.rotation_wxyz, vec3(origin)))
