"""Rigid bent tubes, such as cables and hands: circles swept along strands, with round ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.errors import SpecError
from sim2cam.geometry.poses import Pose, Vec3, quaternion, vec3
from sim2cam.objects.solid import ConvexPart, Solid
from sim2cam.surfaces.lathe import make_unit_circle
from sim2cam.surfaces.mesh import Mesh, join_meshes, make_grid_faces, make_single_part

Floats = NDArray[np.float64]

_MAX_STRANDS, _MAX_POINTS = 64, 1024
_MIN_STEP_M = 1e-6
_SEGMENTS = 16
_CAP_RINGS = 4  # circles per round end, including the pole
_EPSILON = 1e-9


@dataclass(frozen=True)
class Strand:
    """A round bar with round ends along a polyline.

    Attributes:
        points_m: Vertices of the centre line.
        radii_m: Radius at each vertex.
    """

    points_m: tuple[Vec3, ...]
    radii_m: tuple[float, ...]

    def __post_init__(self) -> None:
        if not (2 <= len(self.points_m) <= _MAX_POINTS and len(self.radii_m) == len(self.points_m)):
            raise SpecError(
                f"a strand has {len(self.points_m)} points and {len(self.radii_m)} radii. It needs equal "
                f"numbers of both, 2 to {_MAX_POINTS}."
            )
        if not all(0 < radius < math.inf for radius in self.radii_m):
            raise SpecError(
                f"a strand has a radius of {min(self.radii_m)} m. Radii must be finite and above 0."
            )
        steps = itertools.starmap(math.dist, itertools.pairwise(self.points_m))
        if not all(_MIN_STEP_M <= step < math.inf for step in steps):
            raise SpecError("two successive points of a strand are equal or not finite.")


@dataclass(frozen=True)
class Tubes(Solid):
    """Strands that form one body: a cable, or arm, palm and fingers of a hand."""

    rolling_friction_m: ClassVar[float] = 5e-4
    is_compound: ClassVar[bool] = True

    strands: tuple[Strand, ...]
    kind: Literal["tubes"] = "tubes"

    def __post_init__(self) -> None:
        if not 1 <= len(self.strands) <= _MAX_STRANDS:
            raise SpecError(
                f"tubes have {len(self.strands)} strands. Allowed: 1 to {_MAX_STRANDS}."
            )

    @property
    def size_m(self) -> Vec3:
        """Sides of the bounding box."""
        low, high = self.bounds_m
        return vec3(np.subtract(high, low))

    @property
    def bounds_m(self) -> tuple[Vec3, Vec3]:
        """Opposite corners of the bounding box."""
        points = np.vstack([strand.points_m for strand in self.strands])
        radii = np.concatenate([strand.radii_m for strand in self.strands])[:, None]
        return vec3((points - radii).min(axis=0)), vec3((points + radii).max(axis=0))

    @property
    def bounding_radius_m(self) -> float:
        """Radius of the bounding sphere about the origin."""
        points = np.vstack([strand.points_m for strand in self.strands])
        radii = np.concatenate([strand.radii_m for strand in self.strands])
        return float((np.linalg.norm(points, axis=1) + radii).max())

    def build_mesh(self) -> Mesh:
        """Return the mesh of all strands, each a closed part."""
        return join_meshes([_build_strand_mesh(strand) for strand in self.strands])

    def build_collider(self) -> tuple[ConvexPart, ...]:
        """Return a capsule for each segment of a strand."""
        return tuple(part for strand in self.strands for part in _make_strand_parts(strand))

    def build_moving_collider(self, max_parts: int) -> tuple[ConvexPart, ...]:
        """Return the capsules of strands with fewer points; end points are kept."""
        max_segments = max(1, max_parts // len(self.strands))
        strands = [_simplify_strand(strand, max_segments) for strand in self.strands]
        return Tubes(tuple(strands)).build_collider()


def _make_strand_parts(strand: Strand) -> Iterator[ConvexPart]:
    """Yield a capsule of mean radius for each segment of a strand."""
    points, radii = np.array(strand.points_m), np.array(strand.radii_m)
    for (start, end), end_radii in zip(
        itertools.pairwise(points), itertools.pairwise(radii), strict=True
    ):
        rotation, _ = Rotation.align_vectors([end - start], [[0.0, 0.0, 1.0]])
        diameter_m = 2 * float(np.mean(end_radii))
        size = (diameter_m, diameter_m, math.dist(start, end))
        yield ConvexPart("capsule", size, Pose(quaternion(rotation), vec3((start + end) / 2)))


def _simplify_strand(strand: Strand, max_segments: int) -> Strand:
    count = min(max_segments + 1, len(strand.points_m))
    indices = np.linspace(0, len(strand.points_m) - 1, count).round().astype(int)
    return Strand(
        tuple(strand.points_m[index] for index in indices),
        tuple(strand.radii_m[index] for index in indices),
    )


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
