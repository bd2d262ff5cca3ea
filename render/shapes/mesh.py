"""Triangle meshes, in metres, in the object's frame: those of the built-in shapes are made here."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.render.shapes.dice import die_shadow_faces, die_surface
from sim2cam.scene.asset import (
    Asset,
    Block,
    Board,
    Box,
    Card,
    Cylinder,
    Die,
    Ground,
    MeshFile,
    Sphere,
)

Floats = NDArray[np.float64]

_ROUND_SEGMENTS = 40
_SPHERE_RINGS = 20
_LEAST_ROUNDING = 1e-3  # of a block's shortest side; sharper edges would have no normals
_CORNER_SEGMENTS = 6
_BOARD_CORNER_M = 5e-4  # as a saw leaves it


@dataclass(frozen=True)
class Mesh:
    """A surface made of triangles, counter-clockwise seen from outside.

    Attributes:
        vertices_m: (n, 3).
        normals: (n, 3) unit vectors.
        tangents: (n, 3) unit vectors along which u grows.
        uvs: (n, 2); in metres for shapes with a plane texture, in 0..1 for those with an atlas.
        faces: (m, 3) indices.
        parts: (n,) number of the part, from 1: the value of a die's face, the side of a box or block
            (-x, +x, -y, ...), the lower, the upper end and the side of a cylinder, the front, the back
            and the edge of a board or card.
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
        case MeshFile():
            from sim2cam.render.assets.mesh_file import content_of

            return content_of(asset).mesh
        case Ground():
            return _ground(asset)
        case Die():
            return Mesh(*die_surface(asset), shadow_faces=die_shadow_faces(), is_closed=True)
        case _:
            return replace(_solid(asset), is_closed=True)


def _solid(asset: Box | Cylinder | Sphere | Block | Board | Card) -> Mesh:
    match asset:
        case Box():
            return _box(asset)
        case Cylinder():
            return _cylinder(asset)
        case Sphere():
            return _sphere(asset)
        case Block():
            return _block(asset)
        case Board():
            return _slab(asset.size_m, _BOARD_CORNER_M)
        case Card():
            return _slab(asset.size_m, asset.corner_m)


@functools.lru_cache(maxsize=1024)
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


def _block(block: Block) -> Mesh:
    half = np.array(block.size_m) / 2
    bend = 2 * half.min() * max(block.rounding, _LEAST_ROUNDING)
    parts = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal, tangent = np.eye(3)[axis] * sign, np.eye(3)[(axis + 1) % 3]
            bitangent = np.cross(normal, tangent)
            u, v = np.meshgrid(
                *(_lines(float(np.abs(way) @ half), bend) for way in (tangent, bitangent))
            )
            around = half * normal + u.reshape(-1, 1) * tangent + v.reshape(-1, 1) * bitangent
            core = np.clip(around, bend - half, half - bend)
            outward = around - core
            outward /= np.linalg.norm(outward, axis=1, keepdims=True)
            points, faces = core + bend * outward, _grid_faces(*u.shape)
            flat = _patch(points, normal, tangent, bitangent, faces)
            parts.append(replace(flat, normals=outward))
    return _joined(parts)


def _lines(half: float, bend: float) -> Floats:
    """Returns where (6,) on one side of a block, that bends near its ends, vertices lie."""
    ends = half - bend * np.array([0.0, 0.3, 1.0])
    return np.concatenate([-ends, ends[::-1]])


def _slab(size_m: Vec3, corner_m: float) -> Mesh:
    """Returns a plate with round corners; its atlas has the front (+z) at the left, the back beside it."""
    width, height, thick = size_m
    turns = np.linspace(0, math.pi / 2, _CORNER_SEGMENTS + 1) + np.arange(4)[:, None] * math.pi / 2
    outward = np.stack([np.cos(turns), np.sin(turns), 0 * turns], axis=-1)  # (4, n, 3)
    inner = (width / 2 - corner_m, height / 2 - corner_m, 0.0)
    middles = np.array([[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]]) * inner
    outline = (middles[:, None] + corner_m * outward).reshape(-1, 3)
    outward = outward.reshape(-1, 3)
    n, up = len(outline), np.array([0.0, 0.0, thick / 2])
    fan = np.array([[n, i, (i + 1) % n] for i in range(n)])
    left = np.column_stack([outline[:, 0] / width + 0.5, 0.5 - outline[:, 1] / height]) / [2, 1]
    right = np.column_stack([1 - left[:, 0], left[:, 1]])
    ends = []
    for side, uvs, faces in ((1.0, left, fan), (-1.0, right, fan[:, ::-1])):
        x, z = side * np.eye(3)[0], side * np.eye(3)[2]
        points = np.vstack([outline, np.zeros(3)]) + side * up
        flat = _patch(points, z, x, np.cross(z, x), faces)
        ends.append(replace(flat, uvs=np.vstack([uvs, [[0.5 - side / 4, 0.5]]])))
    ring = np.append(np.arange(n), 0)
    edge = Mesh(
        np.vstack([outline[ring] - up, outline[ring] + up]),
        np.tile(outward[ring], (2, 1)),
        np.tile(np.cross(np.eye(3)[2], outward[ring]), (2, 1)),
        np.tile(left[ring], (2, 1)),
        _grid_faces(2, n + 1),
        _one_part(2 * (n + 1)),
    )
    return _joined([*ends, edge])


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
    points: Floats, normal: Floats, tangent: Floats, bitangent: Floats, faces: ArrayLike
) -> Mesh:
    uvs = np.stack([points @ tangent, points @ bitangent], axis=1)
    n = len(points)
    return Mesh(
        points,
        np.tile(normal, (n, 1)),
        np.tile(tangent, (n, 1)),
        uvs,
        np.asarray(faces),
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
