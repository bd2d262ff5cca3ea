"""Arranging: where things are let go, so that none is inside another. No chance here."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.geometry.poses import Pose, quaternion, vec3
from sim2cam.randomize.bodies import Placeable, Placeables
from sim2cam.randomize.sampling import FactorValues
from sim2cam.scene.scene import Body

Floats = NDArray[np.float64]

BoundingSphere = tuple[Floats, float]
"""A place (3,) and a radius."""
Arrangement = Literal["throw", "pile", "stack", "scatter", "placed"]
"""How things that are to be found are let go.

``throw``: each over its place, with the layout's speed and spin. ``pile``: one after another over
about the same place, at rest. ``stack``: flat on each other, the largest lowest. ``scatter``: flat,
side by side as far as there is room. ``placed``: at rest where ``x_m``, ``y_m`` and ``z_m`` say.
Stacked and scattered things lie on the side that was lowest. In a shelf all are scattered, on one
board after another.
"""

MAT_THICKNESS_M = 0.002
BOARD_THICKNESS_M = 0.01

_GAP_M = 0.001
_STACK_GAP_M = 2e-4  # so little that a tower does not fall when it is let go
_PILE_RADIUS_SHARE = 0.1  # of their way from the middle
_STACK_OFFSET_SHARE = 0.15  # of their radius: so far off the stack's middle
_MAX_SEPARATION_STEPS = 300
_SEPARATION_MARGIN_M = 1e-5


@dataclass(frozen=True)
class _FreeSpace:
    """Where things may be put.

    Attributes:
        half_extents_m: half sides (2,) of what they may not leave.
        floor_m: height of what they lie on.
        obstacles: balls around the parts of what stands fixed; things are let go above those in their
            way, but for placed ones.
    """

    half_extents_m: Floats
    floor_m: float
    obstacles: tuple[BoundingSphere, ...]


def arrange_bodies(
    placeables: Placeables, factors: FactorValues, half_extents_m: Floats
) -> list[Body]:
    """Return the bodies where they are let go: cables that lie below, distractors, targets, covers.

    Args:
        placeables: where they were drawn.
        factors: everything that chance decided.
        half_extents_m: half sides (2,) of what they may not leave.
    """
    is_shelf = factors.get_str("layout/surface") == "shelf"
    low = [cable for cable in placeables.cables if cable.radius_m < half_extents_m.min()]
    floor_m = BOARD_THICKNESS_M if is_shelf else MAT_THICKNESS_M
    cables, floor_m = _place_cables(low, half_extents_m, floor_m)
    fixed = tuple(ball for thing in placeables.fixtures for ball in thing.get_bounding_spheres())
    room = _FreeSpace(half_extents_m, floor_m, fixed)
    loose = (_arrange_on_shelf if is_shelf else _arrange_by_layout)(
        placeables.targets, placeables.distractors, factors, room
    )
    reach = {
        thing.body.name: thing.radius_m + math.hypot(*thing.center_m)
        for thing in (*placeables.targets, *placeables.distractors)
    }
    top = max((body.pose.position_m[2] + reach[body.name] for body in loose), default=floor_m)
    covers = [*(cable for cable in placeables.cables if cable not in low), *placeables.papers]
    return [*cables, *loose, *_place_above(covers, max(top, factors.get_float("layout/wall_m")))]


def _arrange_by_layout(
    targets: Sequence[Placeable],
    distractors: Sequence[Placeable],
    factors: FactorValues,
    space: _FreeSpace,
) -> list[Body]:
    """Return distractors and targets as the layout's arrangement has them."""
    match factors.values.get("layout/arrangement", "throw"):
        case "pile":
            piled = [_set_at_rest(_move_to_center(thing, _PILE_RADIUS_SHARE)) for thing in targets]
            return _lift_apart([*distractors, *piled], factors, space)
        case "stack":
            tower = sorted(
                (_lay_flat(thing) for thing in targets),
                key=_compute_footprint_radius_m,
                reverse=True,
            )
            return _place_side_by_side([*([thing] for thing in distractors), tower], factors, space)
        case "scatter":
            alone = [[_lay_flat(thing)] for thing in targets]
            return _place_side_by_side(
                [*([thing] for thing in distractors), *alone], factors, space
            )
        case "placed":
            placed = [_place_at_position(_set_at_rest(thing), factors) for thing in targets]
            balls = (ball for thing in placed for ball in thing.get_bounding_spheres())
            beside = replace(space, obstacles=(*space.obstacles, *balls))
            return [*_lift_apart(distractors, factors, beside), *(thing.body for thing in placed)]
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
    """Put things on the boards of a shelf, one after another."""
    count = factors.get_int("layout/shelf_count")
    things = [*distractors, *map(_lay_flat, targets)]
    found = []
    for board in range(count):
        groups = [[thing] for thing in things[board::count]]
        height_m = space.floor_m + board * factors.get_float("layout/wall_m")
        if groups:
            found += _place_side_by_side(
                groups, factors, replace(space, floor_m=height_m, obstacles=())
            )
    return found


def _place_cables(
    cables: Sequence[Placeable], half_extents_m: Floats, floor_m: float
) -> tuple[list[Body], float]:
    """Return cables that lie, one above the other, below all else, and the height of what they take."""
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
    """Return things above a height, one above the other."""
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
    """Lift things so that no bounding spheres overlap when they are let go.

    Targets that do not fall come first, just above the distractors.
    """
    placed = sorted(space.obstacles, key=_get_height_m)
    lifted: list[Body] = []
    for thing in sorted(
        placeables, key=lambda thing: thing.body.is_target and not thing.body.is_fixed
    ):
        radius = thing.radius_m
        side = space.half_extents_m - radius
        x, y = np.clip(thing.body.pose.position_m[:2], -side, side)
        floor = factors.get_float("layout/drop_height_m") if thing.body.is_target else 0.0
        if thing.body.is_fixed:
            z = (
                floor
                + _compute_top_height(placed, x, y, radius, space.floor_m)
                - _compute_corners(thing)[:, 2].min()
            )
        else:
            z = _find_free_height(placed, x, y, floor + radius + space.floor_m + _GAP_M, radius)
        centre = np.array([x, y, z])
        placed.append((centre, radius))
        placed.sort(key=_get_height_m)
        lifted.append(_place_sphere_at(thing, centre))
    return lifted


def _find_free_height(
    spheres: Sequence[BoundingSphere], x: float, y: float, z: float, radius: float
) -> float:
    """Return the height from z on at which a ball overlaps none of those placed, lowest first."""
    for centre, other in spheres:
        gap = (radius + other + _GAP_M) ** 2 - (x - centre[0]) ** 2 - (y - centre[1]) ** 2
        if gap > 0 and abs(z - centre[2]) < math.sqrt(gap):
            z = centre[2] + math.sqrt(gap)
    return z


def _compute_top_height(
    spheres: Sequence[BoundingSphere], x: float, y: float, radius: float, floor_m: float
) -> float:
    """Return a height below which nothing is left of those placed, as far as they are near."""
    tops = (
        float(centre[2]) + other
        for centre, other in spheres
        if math.hypot(x - centre[0], y - centre[1]) < radius + other
    )
    return max(tops, default=floor_m) + _GAP_M


def _place_side_by_side(
    groups: Sequence[Sequence[Placeable]], factors: FactorValues, space: _FreeSpace
) -> list[Body]:
    """Put the things of each group on each other, and the groups beside one another.

    A group for which there is no room lies above those that it covers.
    """
    radii = np.array(
        [
            max(map(_compute_footprint_radius_m, group)) * (1 + _STACK_OFFSET_SHARE)
            for group in groups
        ]
    )
    starts = np.array([group[0].body.pose.position_m[:2] for group in groups])
    places = _separate_discs(starts, radii + _GAP_M / 2, space.half_extents_m)
    tops: list[float] = []
    bodies: list[Body] = []
    for group, place, radius in zip(groups, places, radii, strict=True):
        near = [
            top
            for top, other, reach in zip(tops, places, radii, strict=False)
            if math.dist(place, other) < radius + reach
        ]
        top = max(near, default=space.floor_m + _GAP_M)
        if space.obstacles:
            top = _find_height_over_obstacles(space.obstacles, group, place, top)
        for thing in group:
            off = _compute_stack_offset(thing, factors) if len(group) > 1 else 0.0
            low, high = np.array(
                [_compute_corners(thing).min(axis=0), _compute_corners(thing).max(axis=0)]
            )
            middle = np.append(place + off - (low + high)[:2] / 2, top - low[2])
            bodies.append(_place_origin_at(thing, middle))
            top += float(high[2] - low[2]) + _STACK_GAP_M
        tops.append(top + _GAP_M)
    return bodies


def _find_height_over_obstacles(
    obstacles: Sequence[BoundingSphere], group: Sequence[Placeable], position: Floats, top: float
) -> float:
    """Return the height from ``top`` on at which things on each other touch nothing that is fixed."""
    half = sum(float(np.ptp(_compute_corners(thing)[:, 2])) + _STACK_GAP_M for thing in group) / 2
    radius = math.hypot(half, max(map(_compute_footprint_radius_m, group)))
    balls = sorted(obstacles, key=_get_height_m)
    return (
        _find_free_height(balls, float(position[0]), float(position[1]), top + half, radius) - half
    )


def _get_height_m(sphere: BoundingSphere) -> float:
    return float(sphere[0][2])


def _separate_discs(centers: Floats, radii: Floats, half_extents_m: Floats) -> Floats:
    """Return places (n, 2) near those given at which discs of these radii do not overlap.

    Where there is no room for all, some still do.
    """
    centers = centers + 1e-6 * np.arange(len(centers))[:, None] * [
        1.0,
        0.618,
    ]  # none at the same spot
    needed = radii[:, None] + radii
    inside = np.maximum(half_extents_m - radii[:, None], 0)
    for _ in range(_MAX_SEPARATION_STEPS):
        centers = np.clip(centers, -inside, inside)
        apart = centers[:, None] - centers
        distance = np.maximum(np.linalg.norm(apart, axis=-1), 1e-9)
        overlap = np.clip(needed - distance, 0, None)
        np.fill_diagonal(overlap, 0)
        if not overlap.any():
            break
        ways = apart / distance[..., None]
        pushes = np.where(overlap > 0, overlap / 2 + _SEPARATION_MARGIN_M, 0)
        centers = centers + (pushes[..., None] * ways).sum(axis=1)
    return np.asarray(centers)


def _lay_flat(placeable: Placeable) -> Placeable:
    """Return a thing at rest, that axis of its own upright that nearly is."""
    rotation = placeable.body.pose.rotation()
    axes = rotation.as_matrix()
    nearest = int(np.abs(axes[2]).argmax())
    up = axes[:, nearest] * np.sign(axes[2, nearest])
    across = np.cross(up, [0.0, 0.0, 1.0])
    turn = across / max(float(np.linalg.norm(across)), 1e-12) * math.acos(min(1.0, up[2]))
    upright = quaternion(Rotation.from_rotvec(turn) * rotation)
    body = replace(placeable.body, pose=replace(placeable.body.pose, rotation_wxyz=upright))
    return _set_at_rest(replace(placeable, body=body))


def _set_at_rest(placeable: Placeable) -> Placeable:
    still = (0.0, 0.0, 0.0)
    return replace(placeable, body=replace(placeable.body, velocity_m_s=still, spin_rad_s=still))


def _move_to_center(placeable: Placeable, share: float) -> Placeable:
    """Return a thing at a share of its way from the middle."""
    pose = placeable.body.pose
    moved = replace(pose, position_m=vec3(np.multiply(pose.position_m, share)))
    return replace(placeable, body=replace(placeable.body, pose=moved))


def _compute_stack_offset(placeable: Placeable, factors: FactorValues) -> Floats:
    share = np.divide(placeable.body.pose.position_m[:2], factors.get_float("layout/region_m"))
    return np.asarray(
        _STACK_OFFSET_SHARE * _compute_footprint_radius_m(placeable) * np.clip(share, -0.7, 0.7)
    )


def _compute_corners(placeable: Placeable) -> Floats:
    """Return the corners (8, 3) of a thing's box from its origin, turned as it is."""
    ends = zip(placeable.box_min_m, placeable.box_max_m, strict=True)
    return np.asarray(placeable.body.pose.rotation().apply(list(itertools.product(*ends))))


def _compute_footprint_radius_m(placeable: Placeable) -> float:
    """Return the radius of the upright tube around a thing's box."""
    flat = _compute_corners(placeable)[:, :2]
    return float(np.linalg.norm(flat - flat.mean(axis=0), axis=1).max())


def _place_sphere_at(placeable: Placeable, centre: Floats) -> Body:
    """Return the body of a thing whose ball is around a place."""
    off = (
        placeable.body.pose.rotation().apply(placeable.center_m) if any(placeable.center_m) else 0.0
    )
    return _place_origin_at(placeable, centre - off)


def _place_origin_at(placeable: Placeable, origin: Floats) -> Body:
    return replace(placeable.body, pose=Pose(placeable.body.pose.rotation_wxyz, vec3(origin)))
