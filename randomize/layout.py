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
from sim2cam.randomize.bodies import Thing, Things
from sim2cam.randomize.sampling import Draw
from sim2cam.scene.scene import Body

Floats = NDArray[np.float64]

Ball = tuple[Floats, float]
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
_PILE_SHARE = 0.1  # of their way from the middle
_STACK_SHARE = 0.15  # of their radius: so far off the stack's middle
_MAX_PUSHES = 300
_PUSH_BEYOND_M = 1e-5


@dataclass(frozen=True)
class _Room:
    """Where things may be put.

    Attributes:
        limit_m: half sides (2,) of what they may not leave.
        floor_m: height of what they lie on.
        fixed: balls around the parts of what stands fixed; things are let go above those in their
            way, but for placed ones.
    """

    limit_m: Floats
    floor_m: float
    fixed: tuple[Ball, ...]


def arrange(things: Things, drawn: Draw, limit_m: Floats) -> list[Body]:
    """Returns the bodies where they are let go: cables that lie below, distractors, targets, covers.

    Args:
        things: where they were drawn.
        drawn: everything that chance decided.
        limit_m: half sides (2,) of what they may not leave.
    """
    is_shelf = drawn.text("layout/surface") == "shelf"
    low = [cable for cable in things.cables if cable.radius_m < limit_m.min()]
    floor_m = BOARD_THICKNESS_M if is_shelf else MAT_THICKNESS_M
    cables, floor_m = _on_the_floor(low, limit_m, floor_m)
    fixed = tuple(ball for thing in things.fixtures for ball in thing.balls())
    room = _Room(limit_m, floor_m, fixed)
    loose = (_shelved if is_shelf else _arranged)(things.targets, things.distractors, drawn, room)
    reach = {
        thing.body.name: thing.radius_m + math.hypot(*thing.center_m)
        for thing in (*things.targets, *things.distractors)
    }
    top = max((body.pose.position_m[2] + reach[body.name] for body in loose), default=floor_m)
    covers = [*(cable for cable in things.cables if cable not in low), *things.papers]
    return [*cables, *loose, *_over_all(covers, max(top, drawn.number("layout/wall_m")))]


def _arranged(
    targets: Sequence[Thing], distractors: Sequence[Thing], drawn: Draw, room: _Room
) -> list[Body]:
    """Returns distractors and targets as the layout's arrangement has them."""
    match drawn.values.get("layout/arrangement", "throw"):
        case "pile":
            piled = [_at_rest(_moved(thing, _PILE_SHARE)) for thing in targets]
            return _lifted_apart([*distractors, *piled], drawn, room)
        case "stack":
            tower = sorted((_laid(thing) for thing in targets), key=_reach_m, reverse=True)
            return _side_by_side([*([thing] for thing in distractors), tower], drawn, room)
        case "scatter":
            alone = [[_laid(thing)] for thing in targets]
            return _side_by_side([*([thing] for thing in distractors), *alone], drawn, room)
        case "placed":
            placed = [_placed(_at_rest(thing), drawn) for thing in targets]
            balls = (ball for thing in placed for ball in thing.balls())
            beside = replace(room, fixed=(*room.fixed, *balls))
            return [*_lifted_apart(distractors, drawn, beside), *(thing.body for thing in placed)]
        case _:
            return _lifted_apart([*distractors, *targets], drawn, room)


def _placed(thing: Thing, drawn: Draw) -> Thing:
    x, y, z = (drawn.number_or(f"{thing.body.name}/{axis}_m", 0.0) for axis in "xyz")
    lowest = float(_corners(thing)[:, 2].min())
    return replace(thing, body=_with_origin(thing, np.array([x, y, z + _GAP_M - lowest])))


def _shelved(
    targets: Sequence[Thing], distractors: Sequence[Thing], drawn: Draw, room: _Room
) -> list[Body]:
    """Puts things on the boards of a shelf, one after another."""
    count = drawn.count("layout/shelf_count")
    things = [*distractors, *map(_laid, targets)]
    found = []
    for board in range(count):
        groups = [[thing] for thing in things[board::count]]
        height_m = room.floor_m + board * drawn.number("layout/wall_m")
        if groups:
            found += _side_by_side(groups, drawn, replace(room, floor_m=height_m, fixed=()))
    return found


def _on_the_floor(
    cables: Sequence[Thing], limit_m: Floats, floor_m: float
) -> tuple[list[Body], float]:
    """Returns cables that lie, one above the other, below all else, and the height of what they take."""
    bodies = []
    for cable in cables:
        x, y = np.clip(
            cable.body.pose.position_m[:2], cable.radius_m - limit_m, limit_m - cable.radius_m
        )
        bodies.append(_with_origin(cable, np.array([x, y, floor_m + _GAP_M - cable.low_m[2]])))
        floor_m += _GAP_M + cable.high_m[2] - cable.low_m[2]
    return bodies, floor_m


def _over_all(covers: Sequence[Thing], top_m: float) -> list[Body]:
    """Returns things above a height, one above the other."""
    bodies = []
    for cover in covers:
        x, y, _ = cover.body.pose.position_m
        bodies.append(_with_origin(cover, np.array([x, y, top_m + _GAP_M - cover.low_m[2]])))
        top_m += _GAP_M + cover.high_m[2] - cover.low_m[2]
    return bodies


def _lifted_apart(things: Sequence[Thing], drawn: Draw, room: _Room) -> list[Body]:
    """Lifts things so that no bounding spheres overlap when they are let go.

    Targets that do not fall come first, just above the distractors.
    """
    placed = sorted(room.fixed, key=_height_m)
    lifted: list[Body] = []
    for thing in sorted(things, key=lambda thing: thing.body.is_target and not thing.body.is_fixed):
        radius = thing.radius_m
        side = room.limit_m - radius
        x, y = np.clip(thing.body.pose.position_m[:2], -side, side)
        floor = drawn.number("layout/drop_height_m") if thing.body.is_target else 0.0
        if thing.body.is_fixed:
            z = floor + _top(placed, x, y, radius, room.floor_m) - _corners(thing)[:, 2].min()
        else:
            z = _above(placed, x, y, floor + radius + room.floor_m + _GAP_M, radius)
        centre = np.array([x, y, z])
        placed.append((centre, radius))
        placed.sort(key=_height_m)
        lifted.append(_at(thing, centre))
    return lifted


def _above(placed: Sequence[Ball], x: float, y: float, z: float, radius: float) -> float:
    """Returns the height from z on at which a ball overlaps none of those placed, lowest first."""
    for centre, other in placed:
        gap = (radius + other + _GAP_M) ** 2 - (x - centre[0]) ** 2 - (y - centre[1]) ** 2
        if gap > 0 and abs(z - centre[2]) < math.sqrt(gap):
            z = centre[2] + math.sqrt(gap)
    return z


def _top(placed: Sequence[Ball], x: float, y: float, radius: float, floor_m: float) -> float:
    """Returns a height below which nothing is left of those placed, as far as they are near."""
    tops = (
        float(centre[2]) + other
        for centre, other in placed
        if math.hypot(x - centre[0], y - centre[1]) < radius + other
    )
    return max(tops, default=floor_m) + _GAP_M


def _side_by_side(groups: Sequence[Sequence[Thing]], drawn: Draw, room: _Room) -> list[Body]:
    """Puts the things of each group on each other, and the groups beside one another.

    A group for which there is no room lies above those that it covers.
    """
    radii = np.array([max(map(_reach_m, group)) * (1 + _STACK_SHARE) for group in groups])
    starts = np.array([group[0].body.pose.position_m[:2] for group in groups])
    places = _pushed_apart(starts, radii + _GAP_M / 2, room.limit_m)
    tops: list[float] = []
    bodies: list[Body] = []
    for group, place, radius in zip(groups, places, radii, strict=True):
        near = [
            top
            for top, other, reach in zip(tops, places, radii, strict=False)
            if math.dist(place, other) < radius + reach
        ]
        top = max(near, default=room.floor_m + _GAP_M)
        if room.fixed:
            top = _over(room.fixed, group, place, top)
        for thing in group:
            off = _off_middle(thing, drawn) if len(group) > 1 else 0.0
            low, high = np.array([_corners(thing).min(axis=0), _corners(thing).max(axis=0)])
            middle = np.append(place + off - (low + high)[:2] / 2, top - low[2])
            bodies.append(_with_origin(thing, middle))
            top += float(high[2] - low[2]) + _STACK_GAP_M
        tops.append(top + _GAP_M)
    return bodies


def _over(fixed: Sequence[Ball], group: Sequence[Thing], place: Floats, top: float) -> float:
    """Returns the height from ``top`` on at which things on each other touch nothing that is fixed."""
    half = sum(float(np.ptp(_corners(thing)[:, 2])) + _STACK_GAP_M for thing in group) / 2
    radius = math.hypot(half, max(map(_reach_m, group)))
    balls = sorted(fixed, key=_height_m)
    return _above(balls, float(place[0]), float(place[1]), top + half, radius) - half


def _height_m(ball: Ball) -> float:
    return float(ball[0][2])


def _pushed_apart(places: Floats, radii: Floats, limit_m: Floats) -> Floats:
    """Returns places (n, 2) near those given at which discs of these radii do not overlap.

    Where there is no room for all, some still do.
    """
    places = places + 1e-6 * np.arange(len(places))[:, None] * [1.0, 0.618]  # none at the same spot
    needed = radii[:, None] + radii
    inside = np.maximum(limit_m - radii[:, None], 0)
    for _ in range(_MAX_PUSHES):
        places = np.clip(places, -inside, inside)
        apart = places[:, None] - places
        distance = np.maximum(np.linalg.norm(apart, axis=-1), 1e-9)
        overlap = np.clip(needed - distance, 0, None)
        np.fill_diagonal(overlap, 0)
        if not overlap.any():
            break
        ways = apart / distance[..., None]
        pushes = np.where(overlap > 0, overlap / 2 + _PUSH_BEYOND_M, 0)
        places = places + (pushes[..., None] * ways).sum(axis=1)
    return np.asarray(places)


def _laid(thing: Thing) -> Thing:
    """Returns a thing at rest, that axis of its own upright that nearly is."""
    rotation = thing.body.pose.rotation()
    axes = rotation.as_matrix()
    nearest = int(np.abs(axes[2]).argmax())
    up = axes[:, nearest] * np.sign(axes[2, nearest])
    across = np.cross(up, [0.0, 0.0, 1.0])
    turn = across / max(float(np.linalg.norm(across)), 1e-12) * math.acos(min(1.0, up[2]))
    upright = quaternion(Rotation.from_rotvec(turn) * rotation)
    body = replace(thing.body, pose=replace(thing.body.pose, rotation_wxyz=upright))
    return _at_rest(replace(thing, body=body))


def _at_rest(thing: Thing) -> Thing:
    still = (0.0, 0.0, 0.0)
    return replace(thing, body=replace(thing.body, velocity_m_s=still, spin_rad_s=still))


def _moved(thing: Thing, share: float) -> Thing:
    """Returns a thing at a share of its way from the middle."""
    pose = thing.body.pose
    moved = replace(pose, position_m=vec3(np.multiply(pose.position_m, share)))
    return replace(thing, body=replace(thing.body, pose=moved))


def _off_middle(thing: Thing, drawn: Draw) -> Floats:
    share = np.divide(thing.body.pose.position_m[:2], drawn.number("layout/region_m"))
    return np.asarray(_STACK_SHARE * _reach_m(thing) * np.clip(share, -0.7, 0.7))


def _corners(thing: Thing) -> Floats:
    """Returns the corners (8, 3) of a thing's box from its origin, turned as it is."""
    ends = zip(thing.low_m, thing.high_m, strict=True)
    return np.asarray(thing.body.pose.rotation().apply(list(itertools.product(*ends))))


def _reach_m(thing: Thing) -> float:
    """Returns the radius of the upright tube around a thing's box."""
    flat = _corners(thing)[:, :2]
    return float(np.linalg.norm(flat - flat.mean(axis=0), axis=1).max())


def _at(thing: Thing, centre: Floats) -> Body:
    """Returns the body of a thing whose ball is around a place."""
    off = thing.body.pose.rotation().apply(thing.center_m) if any(thing.center_m) else 0.0
    return _with_origin(thing, centre - off)


def _with_origin(thing: Thing, origin: Floats) -> Body:
    return replace(thing.body, pose=Pose(thing.body.pose.rotation_wxyz, vec3(origin)))
