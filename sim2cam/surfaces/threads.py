"""Threads and chamfered hexagons of bolts and nuts, along z."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Quaternion
from sim2cam.surfaces.lathe import make_unit_circle
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch, make_single_part

Floats = NDArray[np.float64]

THREAD_DEPTH = 0.6134
"""Depth of an external thread over its pitch (ISO 68-1: 17/24 of the triangle's height)."""
FLAT_RADIUS_RATIO = 0.95
"""Radius of the flat inside the chamfer of a hexagon, over its inradius."""

_MAX_THREAD_TURNS = 80
_SEGMENTS = 36  # per circle, six per side of a hexagon
_CHAMFER_SLOPE = math.tan(math.radians(30))


def compute_hexagon_area_m2(across_m: float) -> float:
    """Return the area of a hexagon by its width across flats."""
    return math.sqrt(3) / 2 * across_m**2


def compute_thread_area_m2(diameter_m: float, pitch_m: float) -> float:
    """Return the mean cross-section of a thread with straight flanks."""
    radius, depth = diameter_m / 2, THREAD_DEPTH * pitch_m
    return math.pi * (radius**2 - radius * depth + depth**2 / 3)


def check_thread(
    name: str,
    diameter_m: float,
    pitch_m: float,
    across_m: float,
    length_m: float,
    threaded: float = 1.0,
) -> None:
    """Raise an error if a thread cannot be built.

    Args:
        name: Name of the object in the error.
        diameter_m, pitch_m: Major diameter and pitch of the thread.
        across_m: Width across flats of the hexagon.
        length_m, threaded: Length of the shank or hole, and its fraction with thread.

    Raises:
        SpecError: With the sizes and what is allowed.
    """
    if not 1.2 * diameter_m <= across_m <= 4 * diameter_m:
        raise SpecError(
            f"a {name} for a thread of {diameter_m} m is {across_m} m across flats. Allowed: 1.2 to 4 times "
            "the thread diameter."
        )
    if not (threaded <= 1 and threaded * length_m <= _MAX_THREAD_TURNS * pitch_m):
        raise SpecError(
            f"a thread with a pitch of {pitch_m} m covers {threaded} of {length_m} m. Allowed: up to 1, and "
            f"{_MAX_THREAD_TURNS} turns."
        )
    if not pitch_m <= diameter_m / 2:
        raise SpecError(
            f"a thread of {diameter_m} m has a pitch of {pitch_m} m. Allowed: up to half of the diameter."
        )


def rotate_by_sixths(sixths: int) -> Quaternion:
    """Return the rotation about z by a number of sixths of a turn."""
    return math.cos(sixths * math.pi / 6), 0.0, 0.0, math.sin(sixths * math.pi / 6)


def join_groups(*groups: list[Mesh]) -> Mesh:
    """Return groups of meshes as one mesh, each group a part."""
    counts = [sum(len(mesh.parts) for mesh in group) for group in groups]
    joined = join_meshes([mesh for group in groups for mesh in group])
    part_numbers = np.arange(1, len(groups) + 1, dtype=np.uint32)
    return replace(joined, parts=np.repeat(part_numbers, counts))


def _sample_hexagon(across_m: float) -> tuple[Floats, Floats]:
    """Return directions (6, n, 2) to the sides of a hexagon, including ends, and distances (6, n)."""
    offsets = np.linspace(-math.pi / 6, math.pi / 6, _SEGMENTS // 6 + 1)
    angle = offsets + np.arange(6)[:, None] * math.pi / 3
    distances = np.tile(across_m / 2 / np.cos(offsets), (6, 1))
    return np.stack([np.cos(angle), np.sin(angle)], axis=-1), distances


def build_hexagonal_prism(
    across_m: float, low_m: float, high_m: float, *, are_chamfered: tuple[bool, bool]
) -> list[Mesh]:
    """Return the sides of a hexagonal prism, and the chamfers of its lower and upper end."""
    directions, distances = _sample_hexagon(across_m)
    chamfer_m = (distances - FLAT_RADIUS_RATIO * across_m / 2) * _CHAMFER_SLOPE
    low = low_m + chamfer_m * are_chamfered[0]
    high = high_m - chamfer_m * are_chamfered[1]
    meshes = []
    for side in range(6):
        normal = np.append(directions[side, _SEGMENTS // 12], 0.0)
        outline_xy = directions[side] * distances[side][:, None]
        points = np.vstack([np.column_stack([outline_xy, z[side]]) for z in (low, high)])
        patch = make_patch(
            points, normal, np.array([-normal[1], normal[0], 0.0]), np.eye(3)[2],
            make_grid_faces(2, len(outline_xy)),
        )  # fmt: skip
        meshes.append(patch)
        for is_cut, rim_z, end_z, z_sign in (
            (are_chamfered[0], low, low_m, -1),
            (are_chamfered[1], high, high_m, 1),
        ):
            if is_cut:
                inner = np.column_stack(
                    [
                        directions[side] * FLAT_RADIUS_RATIO * across_m / 2,
                        np.full(len(outline_xy), end_z),
                    ]
                )
                outer = np.column_stack([outline_xy, rim_z[side]])
                meshes.append(_build_chamfer(outer, inner, directions[side], z_sign))
    return meshes


def _build_chamfer(outer: Floats, inner: Floats, directions: Floats, z_sign: int) -> Mesh:
    """Return the part of a chamfer between two edges (n, 3) in directions (n, 2)."""
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


def build_ring(inner_m: float, outer_m: float, height_m: float, *, faces_up: bool) -> Mesh:
    """Return a level ring; a disc at inner radius 0."""
    ring, _ = make_unit_circle(_SEGMENTS)
    circles = [
        np.column_stack([r * ring, np.full(len(ring), height_m)]) for r in (outer_m, inner_m)
    ]
    x, y, z = np.eye(3)
    points = np.vstack(circles if faces_up else circles[::-1])
    return make_patch(points, z if faces_up else -z, x, y, make_grid_faces(2, len(ring)))


def build_hexagon_underside(across_m: float, inner_m: float, height_m: float) -> Mesh:
    """Return the lower face of a hexagon around a shank."""
    directions, distances = _sample_hexagon(across_m)
    x, y, z = np.eye(3)
    meshes = []
    for side in range(6):
        edges = [directions[side] * inner_m, directions[side] * distances[side][:, None]]
        points = np.vstack(
            [np.column_stack([edge, np.full(len(edge), height_m)]) for edge in edges]
        )
        meshes.append(make_patch(points, -z, x, y, make_grid_faces(2, len(edges[0]))))
    return join_meshes(meshes)


def build_tube(radius_m: float, heights_m: tuple[float, float]) -> Mesh:
    """Return the side of a cylinder between two heights."""
    ring, angle = make_unit_circle(_SEGMENTS)
    points = np.vstack(
        [np.column_stack([radius_m * ring, np.full(len(ring), z)]) for z in heights_m]
    )
    return _build_band(points, np.tile(ring, (2, 1)), np.zeros(len(points)), angle, radius_m)


def build_thread(
    crest_m: float, root_m: float, pitch_m: float, heights_m: tuple[float, float]
) -> Mesh:
    """Return a thread between two heights; internal if the crest radius is the smaller one.

    Vertex rows are helices, alternating between root and crest, so that ridges are sharp. The ends
    run out at the root radius.
    """
    ring, angle = make_unit_circle(_SEGMENTS)
    low, high = heights_m
    rows = np.arange(-2, 2 * math.ceil((high - low) / pitch_m) + 3)
    z = low + (rows[:, None] / 2 + angle / (2 * math.pi)) * pitch_m
    radius = np.where((rows % 2 == 0)[:, None] | (z <= low) | (z >= high), root_m, crest_m)
    z = z.clip(low, high)
    helices = np.concatenate([ring * radius[..., None], z[..., None]], axis=-1)
    sign = 1.0 if crest_m > root_m else -1.0
    bands = []
    for row in range(len(rows) - 1):
        points = helices[row : row + 2].reshape(-1, 3)
        rise = (crest_m - root_m) * (1 if rows[row] % 2 == 0 else -1)
        slope = math.hypot(rise, pitch_m / 2)
        outward = sign * np.tile(ring, (2, 1)) * pitch_m / 2 / slope
        outward_z = np.full(len(points), -sign * rise / slope)
        bands.append(_build_band(points, outward, outward_z, angle, crest_m))
    thread = join_meshes(bands)
    return thread if sign > 0 else replace(thread, faces=thread.faces[:, ::-1])


def _build_band(
    points: Floats, outward: Floats, outward_z: Floats, angle: Floats, radius_m: float
) -> Mesh:
    """Return the surface between two circles of n vertices.

    Args:
        points: (2 n, 3) vertices of both circles.
        outward: (2 n, 2) x and y of the normals.
        outward_z: (2 n,) z of the normals.
        angle: (n,) angles of the vertices of a circle.
        radius_m: radius of the arc length along u.
    """
    tangents = np.column_stack([-np.sin(angle), np.cos(angle), np.zeros(len(angle))])
    uvs = np.column_stack([np.tile(angle * radius_m, 2), points[:, 2]])
    return Mesh(
        points, np.column_stack([outward, outward_z]), np.tile(tangents, (2, 1)), uvs,
        make_grid_faces(2, len(angle)), make_single_part(len(points)),
    )  # fmt: skip
