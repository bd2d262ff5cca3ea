"""Triangle meshes, in metres, in the object's frame: those of the built-in shapes are made here."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.render.dice import die_shadow_faces, die_surface
from sim2cam.scene.asset import Asset, Box, Cylinder, Die, Ground, MeshFile, Sphere

Floats = NDArray[np.float64]

_ROUND_SEGMENTS = 40
_SPHERE_RINGS = 20


@dataclass(frozen=True)
class Mesh:
    """A surface made of triangles, counter-clockwise seen from outside.

    Attributes:
        vertices_m: (n, 3).
        normals: (n, 3) unit vectors.
        tangents: (n, 3) unit vectors along which u grows.
        uvs: (n, 2); in metres for shapes with a plane texture, in 0..1 for those with an atlas.
        faces: (m, 3) indices.
        parts: (n,) number of the part, from 1: the value of a die's face, the side of a box (-x, +x,
            -y, ...), the lower, the upper end and the side of a cylinder.
        shadow_faces: (k, 3) indices of fewer triangles that cast the same shadow, but for the width
            of a hair; None where there are none.
        is_closed: whether it is the skin of a solid, so that nothing of it is seen from behind.
    """

    vertices_m: Floats
    normals: Floats
    tangents: Floats
    uvs: Floats
    faces: NDArray[np.int64]
    parts: NDArray[np.uint32]
    shadow_faces: NDArray[np.int64] | None = None
    is_closed: bool = False


def mesh_of(asset: Asset) -> Mesh:
    """Returns the mesh of an asset.

    Raises:
        InputError: its file cannot be used.
    """
    match asset:
        case Die():
            return Mesh(*die_surface(asset), shadow_faces=die_shadow_faces(), is_closed=True)
        case Box():
            return replace(_box(asset), is_closed=True)
        case Cylinder():
            return replace(_cylinder(asset), is_closed=True)
        case Sphere():
            return replace(_sphere(asset), is_closed=True)
        case Ground():
            return _ground(asset)
        case MeshFile():
            from sim2cam.render.mesh_file import read_mesh_file

            return read_mesh_file(asset).mesh


def extent_of(asset: Asset) -> tuple[Vec3, Vec3]:
    """Returns two opposite corners, low and high, of the box around an asset in its own frame."""
    vertices = mesh_of(asset).vertices_m
    return vec3(vertices.min(axis=0)), vec3(vertices.max(axis=0))


def surface_points(asset: Asset, count: int, rng: np.random.Generator) -> Floats:
    """Returns points (count, 3) of an asset's surface, evenly by area, in its own frame."""
    mesh = mesh_of(asset)
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    face = rng.choice(len(areas), count, p=areas / areas.sum())
    u, v = rng.random((2, count, 1))
    beyond = u + v > 1  # the other half of the parallelogram, turned back
    u, v = np.where(beyond, 1 - u, u), np.where(beyond, 1 - v, v)
    return np.asarray(a[face] + u * (b - a)[face] + v * (c - a)[face])


def _box(box: Box) -> Mesh:
    parts = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal, tangent = np.eye(3)[axis] * sign, np.eye(3)[(axis + 1) % 3]
            bitangent = np.cross(normal, tangent)
            corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) / 2
            points = normal / 2 + corners[:, :1] * tangent + corners[:, 1:] * bitangent
            points = points * box.size_m
            parts.append(_patch(points, normal, tangent, bitangent, [[0, 1, 2], [0, 2, 3]]))
    return _joined(parts)


def _ground(ground: Ground) -> Mesh:
    half = ground.side_m / 2
    points = np.array([[-half, -half, 0], [half, -half, 0], [half, half, 0], [-half, half, 0]])
    x, y, z = np.eye(3)
    return _patch(points, z, x, y, [[0, 1, 2], [0, 2, 3]])


def _cylinder(cylinder: Cylinder) -> Mesh:
    angle = np.linspace(0, 2 * math.pi, _ROUND_SEGMENTS + 1)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    x, y, z = np.eye(3)
    caps = []
    for sign in (-1.0, 1.0):
        rim = np.column_stack(
            [ring * cylinder.radius_m, np.full(len(ring), sign * cylinder.height_m / 2)]
        )
        points = np.vstack([[0, 0, sign * cylinder.height_m / 2], rim])
        fan = [[0, i, i + 1][:: int(sign)] for i in range(1, len(ring))]
        caps.append(_patch(points, sign * z, x, y, fan))
    return _joined([*caps, _lathe(ring, angle, cylinder)])


def _lathe(ring: Floats, angle: Floats, cylinder: Cylinder) -> Mesh:
    normals = np.column_stack([ring, np.zeros(len(ring))])
    tangents = np.column_stack([-ring[:, 1], ring[:, 0], np.zeros(len(ring))])
    heights = (-cylinder.height_m / 2, cylinder.height_m / 2)
    points = [np.column_stack([ring * cylinder.radius_m, np.full(len(ring), h)]) for h in heights]
    uvs = [np.column_stack([angle * cylinder.radius_m, np.full(len(ring), h)]) for h in heights]
    return Mesh(
        np.vstack(points), np.tile(normals, (2, 1)), np.tile(tangents, (2, 1)), np.vstack(uvs),
        _grid_faces(2, len(ring)), _one_part(2 * len(ring)),
    )  # fmt: skip


def _sphere(sphere: Sphere) -> Mesh:
    grid = np.meshgrid(
        np.linspace(0, 2 * math.pi, _ROUND_SEGMENTS + 1),
        np.linspace(math.pi, 0, _SPHERE_RINGS + 1),
    )
    around, down = grid[0].ravel(), grid[1].ravel()
    normals = np.stack(
        [np.sin(down) * np.cos(around), np.sin(down) * np.sin(around), np.cos(down)], axis=1
    )
    tangents = np.stack([-np.sin(around), np.cos(around), np.zeros_like(around)], axis=1)
    uvs = np.stack([around, math.pi - down], axis=1) * sphere.radius_m
    grid_size = (_SPHERE_RINGS + 1, _ROUND_SEGMENTS + 1)
    points = normals * sphere.radius_m
    return Mesh(
        points, normals, tangents, uvs, _grid_faces(*grid_size), _one_part(len(points)),
        _grid_faces(*grid_size, step=2),
    )  # fmt: skip


def _grid_faces(rows: int, columns: int, step: int = 1) -> NDArray[np.int64]:
    """Returns two triangles for each cell of a grid of vertices, or for each so many both ways."""
    row, column = np.mgrid[: rows - 1 : step, : columns - 1 : step]
    corner = (row * columns + column).ravel()
    near, across = corner + step, corner + step * columns
    far = across + step
    return np.concatenate(
        [np.stack([corner, near, far], 1), np.stack([corner, far, across], 1)]
    ).astype(np.int64)


def _patch(
    points: Floats, normal: Floats, tangent: Floats, bitangent: Floats, faces: list[list[int]]
) -> Mesh:
    uvs = np.stack([points @ tangent, points @ bitangent], axis=1)
    n = len(points)
    return Mesh(
        points,
        np.tile(normal, (n, 1)),
        np.tile(tangent, (n, 1)),
        uvs,
        np.array(faces),
        _one_part(n),
    )


def _one_part(n: int) -> NDArray[np.uint32]:
    return np.ones(n, np.uint32)


def _joined(parts: list[Mesh]) -> Mesh:
    starts = np.cumsum([0, *(len(p.vertices_m) for p in parts[:-1])])
    return Mesh(
        np.vstack([p.vertices_m for p in parts]),
        np.vstack([p.normals for p in parts]),
        np.vstack([p.tangents for p in parts]),
        np.vstack([p.uvs for p in parts]),
        np.vstack([p.faces + start for p, start in zip(parts, starts, strict=True)]),
        np.repeat(np.arange(1, len(parts) + 1, dtype=np.uint32), [len(p.parts) for p in parts]),
    )
