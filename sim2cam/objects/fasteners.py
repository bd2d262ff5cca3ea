"""Bolts and nuts: hexagons with chamfers, and threads that are helices."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.fasteners import THREAD_DEPTH, Bolt, Nut
from sim2cam.surfaces.lathe import make_unit_circle
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch, make_single_part

Floats = NDArray[np.float64]

_SEGMENTS = 36  # around, six for each side of a hexagon
_FLAT_RADIUS_RATIO = (
    0.95  # radius of what a chamfer leaves level, over that of the circle in the hexagon
)
_CHAMFER_SLOPE = math.tan(math.radians(30))


def build_bolt_mesh(bolt: Bolt) -> Mesh:
    """Return the surface of a bolt; its parts are head, thread and what of its shank has none."""
    radius, bearing = bolt.diameter_m / 2, bolt.head_bottom_z_m
    end = bolt.tip_z_m + bolt.threaded * bolt.length_m
    root = radius - THREAD_DEPTH * bolt.pitch_m
    head = [
        *_build_hexagonal_prism(
            bolt.head_m, bearing, bolt.head_top_z_m, are_chamfered=(False, True)
        ),
        _build_ring(0.0, _FLAT_RADIUS_RATIO * bolt.head_m / 2, bolt.head_top_z_m, faces_up=True),
        _build_hexagon_underside(bolt.head_m, radius, bearing),
    ]
    thread = [
        _build_ring(0.0, root, bolt.tip_z_m, faces_up=False),
        _build_thread(radius, root, bolt.pitch_m, (bolt.tip_z_m, end)),
    ]
    shank = [_build_ring(root, radius, end, faces_up=False), _build_tube(radius, (end, bearing))]
    return _join_groups(head, thread, shank)


def build_nut_mesh(nut: Nut) -> Mesh:
    """Return the surface of a nut; its parts are its outside and its thread."""
    high, depth = nut.height_m / 2, THREAD_DEPTH * nut.pitch_m
    outside = [
        *_build_hexagonal_prism(nut.across_m, -high, high, are_chamfered=(True, True)),
        *(
            _build_ring(
                nut.diameter_m / 2, _FLAT_RADIUS_RATIO * nut.across_m / 2, z, faces_up=z > 0
            )
            for z in (-high, high)
        ),
    ]
    inside = _build_thread(
        nut.diameter_m / 2 - depth, nut.diameter_m / 2, nut.pitch_m, (-high, high)
    )
    return _join_groups(outside, [inside])


def _join_groups(*groups: list[Mesh]) -> Mesh:
    counts = [sum(len(one.parts) for one in group) for group in groups]
    whole = join_meshes([one for group in groups for one in group])
    numbers = np.arange(1, len(groups) + 1, dtype=np.uint32)
    return replace(whole, parts=np.repeat(numbers, counts))


def _sample_hexagon(across_m: float) -> tuple[Floats, Floats]:
    """Return directions (6, n, 2) to each side of a hexagon, ends included, and how far it is there."""
    along = np.linspace(-math.pi / 6, math.pi / 6, _SEGMENTS // 6 + 1)
    angle = along + np.arange(6)[:, None] * math.pi / 3
    reach = np.tile(across_m / 2 / np.cos(along), (6, 1))
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1), reach


def _build_hexagonal_prism(
    across_m: float, low_m: float, high_m: float, *, are_chamfered: tuple[bool, bool]
) -> list[Mesh]:
    """Return the sides of a hexagonal prism, and the cones that cut its lower and its upper corners."""
    ways, reach = _sample_hexagon(across_m)
    cut = (reach - _FLAT_RADIUS_RATIO * across_m / 2) * _CHAMFER_SLOPE
    low = low_m + cut * are_chamfered[0]
    high = high_m - cut * are_chamfered[1]
    pieces = []
    for side in range(6):
        middle = np.append(ways[side, _SEGMENTS // 12], 0.0)
        around = ways[side] * reach[side][:, None]
        points = np.vstack([np.column_stack([around, z[side]]) for z in (low, high)])
        flat = make_patch(
            points, middle, np.array([-middle[1], middle[0], 0.0]), np.eye(3)[2],
            make_grid_faces(2, len(around)),
        )  # fmt: skip
        pieces.append(flat)
        for is_cut, outline, end, up in (
            (are_chamfered[0], low, low_m, -1),
            (are_chamfered[1], high, high_m, 1),
        ):
            if is_cut:
                inner = np.column_stack(
                    [ways[side] * _FLAT_RADIUS_RATIO * across_m / 2, np.full(len(around), end)]
                )
                outer = np.column_stack([around, outline[side]])
                pieces.append(_build_chamfer(outer, inner, ways[side], up))
    return pieces


def _build_chamfer(outer: Floats, inner: Floats, directions: Floats, z_sign: int) -> Mesh:
    """Return the piece of a chamfer between two edges (n, 3) in directions (n, 2)."""
    slope = math.hypot(1.0, _CHAMFER_SLOPE)
    normals = (
        np.column_stack([directions * _CHAMFER_SLOPE, np.full(len(directions), z_sign)]) / slope
    )
    tangents = np.column_stack([-directions[:, 1], directions[:, 0], np.zeros(len(directions))])
    points = np.vstack([outer, inner][::z_sign])
    return Mesh(
        points, np.tile(normals, (2, 1)), np.tile(tangents, (2, 1)), points[:, :2],
        make_grid_faces(2, len(directions)), make_single_part(len(points)),
    )  # fmt: skip


def _build_ring(inner_m: float, outer_m: float, height_m: float, *, faces_up: bool) -> Mesh:
    """Return a level ring, or a disc where the inner radius is 0."""
    ring, _ = make_unit_circle(_SEGMENTS)
    circles = [
        np.column_stack([r * ring, np.full(len(ring), height_m)]) for r in (outer_m, inner_m)
    ]
    x, y, z = np.eye(3)
    points = np.vstack(circles if faces_up else circles[::-1])
    return make_patch(points, z if faces_up else -z, x, y, make_grid_faces(2, len(ring)))


def _build_hexagon_underside(across_m: float, inner_m: float, height_m: float) -> Mesh:
    """Return the lower side of a hexagon around a shank."""
    ways, reach = _sample_hexagon(across_m)
    x, y, z = np.eye(3)
    pieces = []
    for side in range(6):
        edges = [ways[side] * inner_m, ways[side] * reach[side][:, None]]
        points = np.vstack(
            [np.column_stack([edge, np.full(len(edge), height_m)]) for edge in edges]
        )
        pieces.append(make_patch(points, -z, x, y, make_grid_faces(2, len(edges[0]))))
    return join_meshes(pieces)


def _build_tube(radius_m: float, heights_m: tuple[float, float]) -> Mesh:
    ring, angle = make_unit_circle(_SEGMENTS)
    points = np.vstack(
        [np.column_stack([radius_m * ring, np.full(len(ring), z)]) for z in heights_m]
    )
    return _build_band(points, np.tile(ring, (2, 1)), np.zeros(len(points)), angle, radius_m)


def _build_thread(
    crest_m: float, root_m: float, pitch_m: float, heights_m: tuple[float, float]
) -> Mesh:
    """Return a thread between two heights, which runs out in its root; inside, where the crest is less.

    Its rows are helices, in turn along its root and along its crest, so that its ridges are sharp.
    """
    ring, angle = make_unit_circle(_SEGMENTS)
    low, high = heights_m
    rows = np.arange(-2, 2 * math.ceil((high - low) / pitch_m) + 3)
    z = low + (rows[:, None] / 2 + angle / (2 * math.pi)) * pitch_m
    radius = np.where((rows % 2 == 0)[:, None] | (z <= low) | (z >= high), root_m, crest_m)
    z = z.clip(low, high)
    lines = np.concatenate([ring * radius[..., None], z[..., None]], axis=-1)
    outside = 1.0 if crest_m > root_m else -1.0
    pieces = []
    for row in range(len(rows) - 1):
        points = lines[row : row + 2].reshape(-1, 3)
        rise = (crest_m - root_m) * (1 if rows[row] % 2 == 0 else -1)
        slope = math.hypot(rise, pitch_m / 2)
        outward = outside * np.tile(ring, (2, 1)) * pitch_m / 2 / slope
        up = np.full(len(points), -outside * rise / slope)
        pieces.append(_build_band(points, outward, up, angle, crest_m))
    whole = join_meshes(pieces)
    return whole if outside > 0 else replace(whole, faces=whole.faces[:, ::-1])


def _build_band(
    points: Floats, outward: Floats, outward_z: Floats, angle: Floats, radius_m: float
) -> Mesh:
    """Return two circles (2 n, 3) of vertices as a surface.

    Args:
        points: of both.
        outward: of their normals, the part (2 n, 2) across the axis.
        outward_z: and that along it.
        angle: of the first circle's vertices.
        radius_m: along which uvs run.
    """
    ring = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(len(angle))])
    uvs = np.column_stack([np.tile(angle * radius_m, 2), points[:, 2]])
    return Mesh(
        points, np.column_stack([outward, outward_z]), np.tile(ring, (2, 1)), uvs,
        make_grid_faces(2, len(angle)), make_single_part(len(points)),
    )  # fmt: skip
