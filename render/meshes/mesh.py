"""Triangle meshes of assets, in metres, in the object frame."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.objects.block import build_rounded_box
from sim2cam.objects.die import build_die_shadow_faces, build_die_surface
from sim2cam.objects.fasteners import build_bolt_mesh, build_nut_mesh
from sim2cam.objects.packages import build_carton_mesh, build_tin_mesh
from sim2cam.objects.tubes import build_tubes_mesh
from sim2cam.objects.twisty import build_twisty_mesh
from sim2cam.scene.shape import (
    Asset,
    Cuboid,
    Cylinder,
    Die,
    Ground,
    MeshFile,
    Sphere,
)
from sim2cam.surfaces.lathe import SEGMENTS, build_disc, build_frustum
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch, make_single_part

Floats = NDArray[np.float64]

_SPHERE_RINGS = 20
_CORNER_SEGMENTS = 6
_BOARD_CORNER_RADIUS_M = 5e-4  # of a sawn edge
_SHEET_CORNER_RADIUS_M = 2e-4


def build_mesh(asset: Asset) -> Mesh:
    """Return the mesh of an asset.

    Raises:
        InputError: its mesh file is unusable.
    """
    match asset:
        case MeshFile():
            from sim2cam.assets.mesh import load_content

            return load_content(asset).mesh
        case _:
            return _build_shape(asset)


@functools.lru_cache(maxsize=64)  # physics, rendering and labels of a scene share meshes
def _build_shape(asset: Asset) -> Mesh:
    match asset:
        case Ground():
            return _build_ground(asset)
        case Die():
            return Mesh(
                *build_die_surface(asset), shadow_faces=build_die_shadow_faces(), is_closed=True
            )
        case _:
            return replace(_MESH_BUILDERS[asset.kind](asset), is_closed=True)


@functools.lru_cache(maxsize=1024)
def compute_extent(asset: Asset) -> tuple[Vec3, Vec3]:
    """Return the minimum and maximum corner of the bounding box of an asset, in its own frame."""
    vertices = build_mesh(asset).vertices_m
    return vec3(vertices.min(axis=0)), vec3(vertices.max(axis=0))


def sample_surface_points(asset: Asset, count: int, rng: np.random.Generator) -> Floats:
    """Sample points (count, 3) on the surface of an asset, uniformly by area, in its own frame."""
    mesh = build_mesh(asset)
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    face = rng.choice(len(areas), count, p=areas / areas.sum())
    u, v = rng.random((2, count, 1))
    beyond = u + v > 1  # fold the other half of the parallelogram back
    u, v = np.where(beyond, 1 - u, u), np.where(beyond, 1 - v, v)
    return np.asarray(a[face] + u * (b - a)[face] + v * (c - a)[face])


def _build_box(box: Cuboid) -> Mesh:
    parts = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal, tangent = np.eye(3)[axis] * sign, np.eye(3)[(axis + 1) % 3]
            bitangent = np.cross(normal, tangent)
            corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
            points = normal / 2 + corners[:, :1] * tangent + corners[:, 1:] * bitangent
            points = points * box.size_m
            parts.append(make_patch(points, normal, tangent, bitangent, [[0, 1, 2], [0, 2, 3]]))
    return join_meshes(parts)


def _build_slab(size_m: Vec3, corner_radius_m: float) -> Mesh:
    """Return a plate with round corners; its atlas has the front (+z) at the left, the back at the right."""
    width, height, thick = size_m
    angles = np.linspace(0, math.pi / 2, _CORNER_SEGMENTS + 1) + np.arange(4)[:, None] * math.pi / 2
    outward = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=-1)  # (4, n, 3)
    inner = (width / 2 - corner_radius_m, height / 2 - corner_radius_m, 0.0)
    centres = np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]]) * inner
    outline = (centres[:, None] + corner_radius_m * outward).reshape(-1, 3)
    outward = outward.reshape(-1, 3)
    n, up = len(outline), np.array([0.0, 0.0, thick / 2])
    fan = np.array([[n, i, (i + 1) % n] for i in range(n)])
    left = np.column_stack([outline[:, 0] / width + 0.5, 0.5 - outline[:, 1] / height]) / [2, 1]
    right = np.column_stack([1 - left[:, 0], left[:, 1]])
    ends = []
    for side, uvs, faces in ((1.0, left, fan), (-1.0, right, fan[:, ::-1])):
        x, z = side * np.eye(3)[0], side * np.eye(3)[2]
        points = np.vstack([outline, np.zeros(3)]) + side * up
        patch = make_patch(points, z, x, np.cross(z, x), faces)
        ends.append(replace(patch, uvs=np.vstack([uvs, [[0.5 - side / 4, 0.5]]])))
    ring = np.append(np.arange(n), 0)
    edge = Mesh(
        np.vstack([outline[ring] - up, outline[ring] + up]),
        np.tile(outward[ring], (2, 1)),
        np.tile(np.cross(np.eye(3)[2], outward[ring]), (2, 1)),
        np.tile(left[ring], (2, 1)),
        make_grid_faces(2, n + 1),
        make_single_part(2 * (n + 1)),
    )
    return join_meshes([*ends, edge])


def _build_ground(ground: Ground) -> Mesh:
    half = ground.side_m / 2
    points = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]])
    x, y, z = np.eye(3)
    return make_patch(points, z, x, y, [[0, 1, 2], [0, 2, 3]])


def _build_cylinder(cylinder: Cylinder) -> Mesh:
    radius, half = cylinder.radius_m, cylinder.height_m / 2
    ends = [build_disc(radius, side * half, side) for side in (-1, 1)]
    return join_meshes([*ends, build_frustum((radius, radius), (-half, half))])


def _build_sphere(sphere: Sphere) -> Mesh:
    grid = np.meshgrid(
        np.linspace(0, 2 * math.pi, SEGMENTS + 1),
        np.linspace(math.pi, 0, _SPHERE_RINGS + 1),
    )
    azimuth, polar = grid[0].ravel(), grid[1].ravel()
    normals = np.stack(
        [np.sin(polar) * np.cos(azimuth), np.sin(polar) * np.sin(azimuth), np.cos(polar)], axis=1
    )
    tangents = np.stack([-np.sin(azimuth), np.cos(azimuth), np.zeros_like(azimuth)], axis=1)
    uvs = np.stack([azimuth, math.pi - polar], axis=1) * sphere.radius_m
    grid_size = (_SPHERE_RINGS + 1, SEGMENTS + 1)
    points = normals * sphere.radius_m
    return Mesh(
        points, normals, tangents, uvs, make_grid_faces(*grid_size), make_single_part(len(points)),
        make_grid_faces(*grid_size, step=2),
    )  # fmt: skip


_MESH_BUILDERS: dict[str, Callable[[Any], Mesh]] = {
    "box": _build_box,
    "cylinder": _build_cylinder,
    "sphere": _build_sphere,
    "block": lambda block: build_rounded_box(block.size_m, block.rounding),
    "board": lambda board: _build_slab(board.size_m, _BOARD_CORNER_RADIUS_M),
    "card": lambda card: _build_slab(card.size_m, card.corner_radius_m),
    "twisty": build_twisty_mesh,
    "tin": build_tin_mesh,
    "carton": build_carton_mesh,
    "bolt": build_bolt_mesh,
    "nut": build_nut_mesh,
    "sheet": lambda sheet: _build_slab(sheet.size_m, _SHEET_CORNER_RADIUS_M),
    "tubes": build_tubes_mesh,
}
"""Mesh builder of each kind of solid asset."""
