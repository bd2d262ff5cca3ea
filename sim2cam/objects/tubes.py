"""Tubes: circles swept along strands, with round ends."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.tubes import Strand, Tubes
from sim2cam.surfaces.lathe import make_unit_circle
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_single_part

Floats = NDArray[np.float64]

_SEGMENTS = 16
_CAP_RINGS = 4  # circles of a round end, the last of them its pole
_EPSILON = 1e-9


def build_tubes_mesh(tubes: Tubes) -> Mesh:
    """Return the surface of all strands, each a part and closed in itself."""
    return join_meshes([_build_strand_mesh(strand) for strand in tubes.strands])


def _build_strand_mesh(strand: Strand) -> Mesh:
    """Return one strand; its uvs run around and along it, in metres."""
    points, radii = np.array(strand.points_m), np.array(strand.radii_m)
    bend = np.linspace(0, math.pi / 2, _CAP_RINGS + 1)[1:]
    tilt = np.concatenate([-bend[::-1], np.zeros(len(points)), bend])
    which = np.clip(np.arange(len(tilt)) - _CAP_RINGS, 0, len(points) - 1)
    axes, sides = (ways[which] for ways in _compute_frames(points))
    sunk = radii[which] * np.sin(tilt)
    centres = points[which] + sunk[:, None] * axes
    ring, angle = make_unit_circle(_SEGMENTS)
    ups = np.cross(axes, sides)
    outward = ring[:, :1] * sides[:, None] + ring[:, 1:] * ups[:, None]  # (rings, angles, 3)
    along = np.cross(axes[:, None], outward)
    wide = (radii[which] * np.cos(tilt))[:, None, None]
    normals = np.cos(tilt)[:, None, None] * outward + (np.sin(tilt)[:, None] * axes)[:, None]
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    u, v = np.broadcast_arrays(angle * radii.mean(), (length[which] + sunk)[:, None])
    return Mesh(
        (centres[:, None] + wide * outward).reshape(-1, 3), normals.reshape(-1, 3),
        along.reshape(-1, 3), np.stack([u.ravel(), v.ravel()], axis=1),
        make_grid_faces(len(tilt), len(angle)), make_single_part(u.size),
    )  # fmt: skip


def _compute_frames(points: Floats) -> tuple[Floats, Floats]:
    """Return the direction of a strand at each of its points (n, 3), and one across it.

    The latter is carried along without turning about the former.
    """
    ways = _normalize(np.diff(points, axis=0))
    axes = _normalize(np.vstack([ways[:1], ways[:-1] + ways[1:] + _EPSILON * ways[1:], ways[-1:]]))
    side = np.eye(3)[np.abs(axes[0]).argmin()]
    sides = []
    for axis in axes:
        across = side - (side @ axis) * axis
        if np.linalg.norm(across) < _EPSILON:
            across = np.cross(axis, np.eye(3)[np.abs(axis).argmin()])
        side = across / np.linalg.norm(across)
        sides.append(side)
    return axes, np.array(sides)


def _normalize(vectors: Floats) -> Floats:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True))
