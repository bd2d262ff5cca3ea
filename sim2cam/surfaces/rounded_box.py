"""Mesh of cuboids with rounded edges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.geometry.poses import Vec3
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_patch

Floats = NDArray[np.float64]

FACE_VERTICES = 6
"""Vertices along each side of a face."""

_MIN_ROUNDING = 1e-3  # of the shortest side; sharp edges have no defined normals


def build_rounded_box(size_m: Vec3, rounding: float) -> Mesh:
    """Return a cuboid with rounded edges, centred on the origin.

    Its parts are the sides (-x, +x, -y, ...), with ``FACE_VERTICES`` x ``FACE_VERTICES`` vertices each.

    Args:
        size_m: sides along the axes.
        rounding: radius of the edges over the shortest side.
    """
    half = np.array(size_m) / 2
    radius_m = 2 * half.min() * max(rounding, _MIN_ROUNDING)
    parts = []
    for axis in range(3):
        for sign in (-1.0, 1.0):
            normal, tangent = np.eye(3)[axis] * sign, np.eye(3)[(axis + 1) % 3]
            bitangent = np.cross(normal, tangent)
            u, v = np.meshgrid(
                *(
                    _place_vertices(float(np.abs(axis_vector) @ half), radius_m)
                    for axis_vector in (tangent, bitangent)
                )
            )
            box_points = half * normal + u.reshape(-1, 1) * tangent + v.reshape(-1, 1) * bitangent
            core = np.clip(box_points, radius_m - half, half - radius_m)
            outward = box_points - core
            outward /= np.linalg.norm(outward, axis=1, keepdims=True)
            points, faces = core + radius_m * outward, make_grid_faces(*u.shape)
            patch = make_patch(points, normal, tangent, bitangent, faces)
            parts.append(replace(patch, normals=outward))
    return join_meshes(parts)


def _place_vertices(half_extent: float, corner_radius: float) -> Floats:
    """Return vertex coordinates (``FACE_VERTICES``,) along a side, denser in the rounded ends."""
    upper = half_extent - corner_radius * np.array([0.0, 0.3, 1.0])
    return np.concatenate([-upper, upper[::-1]])
