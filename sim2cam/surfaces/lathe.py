"""Surfaces of revolution about the z axis."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sim2cam.surfaces.mesh import Mesh, make_grid_faces, make_patch, make_single_part

Floats = NDArray[np.float64]

SEGMENTS = 40
"""Segments per circle."""


def build_disc(radius_m: float, height_m: float, z_sign: int) -> Mesh:
    """Return a level disc that faces up (``z_sign`` 1) or down (-1)."""
    ring, _ = make_unit_circle(SEGMENTS)
    rim = np.column_stack([ring * radius_m, np.full(len(ring), height_m)])
    points = np.vstack([[0, 0, height_m], rim])
    fan = [[0, i, i + 1][::z_sign] for i in range(1, len(ring))]
    x, y, z = np.eye(3)
    return make_patch(points, float(z_sign) * z, x, y, fan)


def build_frustum(radii_m: tuple[float, float], heights_m: tuple[float, float]) -> Mesh:
    """Return the lateral surface of a frustum between two circles.

    Its uvs are the arc length along the first circle and the height, in metres.
    """
    ring, angle = make_unit_circle(SEGMENTS)
    (r0, r1), (z0, z1) = radii_m, heights_m
    outward, up = np.array([z1 - z0, r0 - r1]) / math.hypot(z1 - z0, r1 - r0)
    normals = np.column_stack([ring * outward, np.full(len(ring), up)])
    tangents = np.column_stack([-ring[:, 1], ring[:, 0], np.zeros(len(ring))])
    circles = tuple(zip(radii_m, heights_m, strict=True))
    points = [np.column_stack([ring * r, np.full(len(ring), z)]) for r, z in circles]
    uvs = [np.column_stack([angle * r0, np.full(len(ring), z)]) for _, z in circles]
    return Mesh(
        np.vstack(points), np.tile(normals, (2, 1)), np.tile(tangents, (2, 1)), np.vstack(uvs),
        make_grid_faces(2, len(ring)), make_single_part(2 * len(ring)),
    )  # fmt: skip


def make_unit_circle(segments: int) -> tuple[Floats, Floats]:
    """Return points (n + 1, 2) of the closed unit circle, and their angles."""
    angle = np.linspace(0, 2 * math.pi, segments + 1)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1), angle
