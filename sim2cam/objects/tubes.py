"""Meshes of tubes: circles swept along strands, with round ends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.tubes import Strand, Tubes
from sim2cam.surfaces.lathe import make_unit_circle
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_single_part

Floats = NDArray[np.float64]

_SEGMENTS = 16
_CAP_RINGS = 4  # circles per round end, including the pole
_EPSILON = 1e-9


def build_tubes_mesh(tubes: Tubes) -> Mesh:
    """Return the mesh of all strands, each a closed part."""
    return join_meshes([_build_strand_mesh(strand) for strand in tubes.strands])


def _build_strand_mesh(strand: Strand) -> Mesh:
    """Return the mesh of a strand; its uvs run around and along it, in metres."""
    points, radii = np.array(strand.points_m), np.array(strand.radii_m)
    bend = np.linspace(0, math.pi / 2, _CAP_RINGS + 1)[1:]
    tilt = np.concatenate([-bend[::-1], np.zeros(len(points)), bend])
    indices = np.clip(np.arange(len(tilt)) - _CAP_RINGS, 0, len(points) - 1)
    axes, sides = (vectors[indices] for vectors in _compute_frames(points))
    axial_offset = radii[indices] * np.sin(tilt)
    centres = points[indices] + axial_offset[:, None] * axes
    ring, angle = make_unit_circle(_SEGMENTS)
    ups = np.cross(axes, sides)
    outward = ring[:, :1] * sides[:, None] + ring[:, 1:] * ups[:, None]  # (rings, angles, 3)
    tangents = np.cross(axes[:, None], outward)
    ring_radii = (radii[indices] * np.cos(tilt))[:, None, None]
    normals = np.cos(tilt)[:, None, None] * outward + (np.sin(tilt)[:, None] * axes)[:, None]
    lengths = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    u, v = np.broadcast_arrays(angle * radii.mean(), (lengths[indices] + axial_offset)[:, None])
    return Mesh(
        (centres[:, None] + ring_radii * outward).reshape(-1, 3), normals.reshape(-1, 3),
        tangents.reshape(-1, 3), np.stack([u.ravel(), v.ravel()], axis=1),
        make_grid_faces(len(tilt), len(angle)), make_single_part(u.size),
    )  # fmt: skip


def _compute_frames(points: Floats) -> tuple[Floats, Floats]:
    """Return tangent and side vector at each point (n, 3) of a strand, without twist."""
    directions = _normalize(np.diff(points, axis=0))
    axes = _normalize(
        np.vstack(
            [
                directions[:1],
                directions[:-1] + directions[1:] + _EPSILON * directions[1:],
                directions[-1:],
            ]
        )
    )
    side = np.eye(3)[np.abs(axes[0]).argmin()]
    sides = []
    for axis in axes:
        candidate = side - (side @ axis) * axis
        if np.linalg.norm(candidate) < _EPSILON:
            candidate = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
        side = candidate / np.linalg.norm(candidate)
        sides.append(side)
    return axes, np.array(sides)


def _normalize(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
