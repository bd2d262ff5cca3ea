"""Blocks: cuboids with round edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch

Floats = NDArray[np.float64]

FACE_VERTICES = 6
"""Vertices along each side of a face."""

_MIN_ROUNDING = 1e-3  # of the shortest side; sharper edges would have no normals


def build_rounded_box(size_m: Vec3, rounding: float) -> Mesh:
    """Return a cuboid with round edges, centred on the origin.

    Its parts are its sides (-x, +x, -y, ...), of ``FACE_VERTICES`` x ``FACE_VERTICES`` vertices each.

    Args:
        size_m: sides along the axes.
        rounding: radius of its edges, over the shortest side.
    """
    half = np.array(size_m) / 2
    bend = 2 * half.min() * max(rounding, _MIN_ROUNDING)
    parts = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal, tangent = np.eye(3)[axis] * sign, np.eye(3)[(axis + 1) % 3]
            bitangent = np.cross(normal, tangent)
            u, v = np.meshgrid(
                *(_place_vertices(float(np.abs(way) @ half), bend) for way in (tangent, bitangent))
            )
            around = half * normal + u.reshape(-1, 1) * tangent + v.reshape(-1, 1) * bitangent
            core = np.clip(around, bend - half, half - bend)
            outward = around - core
            outward /= np.linalg.norm(outward, axis=1, keepdims=True)
            points, faces = core + bend * outward, make_grid_faces(*u.shape)
            flat = make_patch(points, normal, tangent, bitangent, faces)
            parts.append(replace(flat, normals=outward))
    return join_meshes(parts)


def _place_vertices(half_extent: float, corner_radius: float) -> Floats:
    """Return where (``FACE_VERTICES``,) on one side of a block, that bends near its ends, vertices lie."""
    ends = half_extent - corner_radius * np.array([0.0, 0.3, 1.0])
    return np.concatenate([-ends, ends[::-1]])
