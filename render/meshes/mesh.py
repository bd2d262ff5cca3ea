"""Triangle meshes of shapes, in metres, in the object frame."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh import load_content
from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.objects.solid import Solid
from sim2cam.scene.shape import MeshFile, Shape
from sim2cam.surfaces.mesh import Mesh

Floats = NDArray[np.float64]


def build_mesh(asset: Shape) -> Mesh:
    """Return the mesh of a shape.

    Raises:
        InputError: its mesh file is unusable.
    """
    if isinstance(asset, MeshFile):
        return load_content(asset).mesh
    assert isinstance(asset, Solid)
    return _build_solid_mesh(asset)


@functools.lru_cache(maxsize=64)  # physics, rendering and labels of a scene share meshes
def _build_solid_mesh(solid: Solid) -> Mesh:
    return replace(solid.build_mesh(), is_closed=solid.is_closed)


@functools.lru_cache(maxsize=1024)
def compute_extent(asset: Shape) -> tuple[Vec3, Vec3]:
    """Return the minimum and maximum corner of the bounding box of a shape, in its own frame."""
    vertices = build_mesh(asset).vertices_m
    return vec3(vertices.min(axis=0)), vec3(vertices.max(axis=0))


def sample_surface_points(asset: Shape, count: int, rng: np.random.Generator) -> Floats:
    """Sample points (count, 3) on the surface of a shape, uniformly by area, in its own frame."""
    mesh = build_mesh(asset)
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    face = rng.choice(len(areas), count, p=areas / areas.sum())
    u, v = rng.random((2, count, 1))
    beyond = u + v > 1  # fold the other half of the parallelogram back
    u, v = np.where(beyond, 1 - u, u), np.where(beyond, 1 - v, v)
    return np.asarray(a[face] + u * (b - a)[face] + v * (c - a)[face])
