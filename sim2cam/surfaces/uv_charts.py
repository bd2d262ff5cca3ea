"""Charts: where on a body the texels of its picture lie, so that relief and wear can."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from sim2cam.surfaces.mesh import Mesh
from sim2cam.surfaces.textures import Coordinates

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_FRACTION_BITS = 4  # bits behind the point that OpenCV draws with
_MIN_DOUBLED_AREA_PX = 1e-4  # squared texels; smaller faces hold none
_MAX_NEIGHBOR_DISTANCE = 6.0  # lengths of a texel: neighbours farther apart lie on different charts


class TexelGeometry(Protocol):
    """Where the texels (h, w) of a picture lie on a body."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def points(self) -> Coordinates:
        """Where their middles are, metres, along coordinates that broadcast against each other."""

    @property
    def area_m2(self) -> float:
        """What they cover."""

    def compute_slopes(self, height_m: Floats) -> Floats:
        """Return how heights (h, w) change along tangents and bitangents (h, w, 2)."""

    def find_nearby(self, position: Floats, radius_m: float) -> tuple[Any, Floats, Floats]:
        """Return an index of the texels around a place, and how far right of and above it they are.

        Args:
            position: two numbers, 0 to 1, that are everywhere alike often on the body.
            radius_m: so far at least, both ways.
        """


@dataclass(frozen=True)
class PlanarTexels:
    """Texels that lie beside each other, all of one size, row 0 at y = 0.

    Attributes:
        shape: rows and columns.
        texel_size_m: width and height of one on the body.
    """

    shape: tuple[int, int]
    texel_size_m: tuple[float, float]

    @property
    def points(self) -> Coordinates:
        """See ``Places``."""
        height, width = self.shape
        x = np.asarray((np.arange(width) + 0.5) * self.texel_size_m[0], np.float64)
        y = np.asarray((np.arange(height) + 0.5) * self.texel_size_m[1], np.float64)
        return x, y[:, None], np.zeros(1)

    @property
    def area_m2(self) -> float:
        """See ``Places``."""
        return float(np.prod(self.shape) * np.prod(self.texel_size_m))

    def compute_slopes(self, height_m: Floats) -> Floats:
        """See ``Places``."""
        along_v, along_u = np.gradient(height_m, *self.texel_size_m[::-1])
        return np.stack([along_u, along_v], axis=-1)

    def find_nearby(self, position: Floats, radius_m: float) -> tuple[Any, Floats, Floats]:
        """See ``Places``."""
        x, y = self.points[0], self.points[1][:, 0]
        place_x, place_y = (
            len(line) * texel * part
            for line, texel, part in zip((x, y), self.texel_size_m, position, strict=True)
        )
        columns, rows = (
            slice(*np.searchsorted(line, (place - radius_m, place + radius_m)))
            for line, place in ((x, place_x), (y, place_y))
        )
        return (rows, columns), x[columns] - place_x, y[rows, None] - place_y


@dataclass(frozen=True, eq=False)
class MeshTexels:
    """Texels of the picture of a mesh, as its uvs have them.

    Attributes:
        positions_m: (h, w, 3) of the mesh; of texels that no face covers, those of the next one.
        texel_size_m: (h, w, 2) lengths of a texel on the body as u and as v grow, the latter below 0 where
            v grows against the bitangent; infinite where neighbours lie elsewhere on the body.
        dominant_axis: (h, w) axis, 0 to 2, that the face looks along most.
        covered_texels: (k, 2) rows and columns of the texels that faces cover.
        area_m2: of all faces.
        overlap_fraction: share of the covered texels in which more than one part of the body lies, or of the body
            that lies in none of its own.
    """

    positions_m: Floats
    texel_size_m: Floats
    dominant_axis: Indices
    covered_texels: Indices
    area_m2: float
    overlap_fraction: float

    @property
    def shape(self) -> tuple[int, int]:
        """See ``Places``."""
        rows, columns, _ = self.positions_m.shape
        return rows, columns

    @cached_property
    def points(self) -> Coordinates:
        """See ``Places``."""
        x, y, z = np.moveaxis(self.positions_m, -1, 0)
        return x, y, z

    def compute_slopes(self, height_m: Floats) -> Floats:
        """See ``Places``."""
        along_v, along_u = np.gradient(height_m)
        return np.stack([along_u, along_v], axis=-1) / self.texel_size_m

    def find_nearby(self, position: Floats, radius_m: float) -> tuple[Any, Floats, Floats]:
        """See ``Places``; of a face on the other side nothing is near."""
        middle = tuple(
            self.covered_texels[
                min(int(position[0] * len(self.covered_texels)), len(self.covered_texels) - 1)
            ]
        )
        axis = int(self.dominant_axis[middle])
        off = self.positions_m - self.positions_m[middle]
        at = np.nonzero((np.abs(off) < radius_m).all(axis=-1) & (self.dominant_axis == axis))
        return at, off[(*at, (axis + 1) % 3)], off[(*at, (axis + 2) % 3)]


def map_mesh_texels(mesh: Mesh, shape: tuple[int, int]) -> MeshTexels:
    """Return where on a mesh the texels (h, w) of its picture lie.

    Args:
        mesh: with uvs within 0 to 1.
        shape: rows and columns of the picture.
    """
    corners = mesh.uvs[mesh.faces] * shape[::-1] - 0.5  # (m, 3, 2); middles of texels are whole
    has_texels = np.abs(_compute_doubled_areas(corners)) > _MIN_DOUBLED_AREA_PX
    solid = np.flatnonzero(has_texels)
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    across = np.cross(b - a, c - a)
    areas = np.linalg.norm(across, axis=1) / 2
    area, bare = float(areas.sum()), float(areas[~has_texels].sum() / areas.sum())
    if not len(solid):
        nowhere = np.zeros((0, 2), np.int64)
        flat = np.zeros((*shape, 3)), np.full((*shape, 2), np.inf), np.zeros(shape, np.int64)
        return MeshTexels(*flat, nowhere, area, bare)
    number, under = (_rasterize_faces(corners, order, shape) for order in (solid, solid[::-1]))
    covered = np.argwhere(number >= 0)
    row, column = covered.T
    own, other = number[row, column], under[row, column]
    at = covered[:, ::-1].astype(np.float64)
    points = _interpolate_points(mesh, corners, own, at)
    size = _compute_texel_size_m(mesh, corners)
    off = np.linalg.norm(points - _interpolate_points(mesh, corners, other, at), axis=1)
    shared = np.zeros(shape, np.uint8)
    shared[row, column] = off > _MAX_NEIGHBOR_DISTANCE * float(
        np.median(np.abs(size[solid]).max(axis=1))
    )
    wide = cv2.morphologyEx(shared, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))  # but for seams

    places = np.zeros((*shape, 3))
    places[row, column] = points
    nearest = distance_transform_edt(number < 0, return_distances=False, return_indices=True)
    places, number = places[tuple(nearest)], number[tuple(nearest)]
    steps = size[number]
    for axis in (1, 0):
        jumps = np.linalg.norm(np.gradient(places, axis=axis), axis=-1)
        steps[..., 1 - axis][jumps > _MAX_NEIGHBOR_DISTANCE / 2 * np.abs(steps[..., 1 - axis])] = (
            np.inf
        )
    facing = np.abs(across).argmax(axis=1)[number]
    return MeshTexels(
        places, steps, facing, covered, area, max(bare, float(np.mean(wide[row, column])))
    )


def _rasterize_faces(corners: Floats, order: Indices, shape: tuple[int, int]) -> Indices:
    """Return which face covers each texel (h, w), of several the last of the order; -1 none."""
    found = np.full(shape, -1, np.int32)
    fine = np.round(corners * (1 << _FRACTION_BITS)).astype(np.int32)
    for number in order:
        cv2.fillConvexPoly(found, fine[number], int(number), shift=_FRACTION_BITS)
    return found.astype(np.int64)


def _interpolate_points(
    mesh: Mesh, corners: Floats, face_ids: Indices, texel_positions: Floats
) -> Floats:
    """Return points (k, 3) of faces (k,) whose places in the picture are nearest to these (k, 2)."""
    a, b, c = corners[face_ids].swapaxes(0, 1)
    doubled = _compute_doubled_areas(corners)[face_ids]
    second, third = (
        _cross_2d(texel_positions - a, c - a) / doubled,
        _cross_2d(b - a, texel_positions - a) / doubled,
    )
    weights = np.stack([1 - second - third, second, third], axis=1)
    weights = weights.clip(-1, 2)  # of slivers a texel beside them lies far away
    return np.asarray(np.einsum("ki,kij->kj", weights, mesh.vertices_m[mesh.faces[face_ids]]))


def _compute_texel_size_m(mesh: Mesh, corners: Floats) -> Floats:
    """Return what a texel goes along u and v (m, 2) on each face; see ``Charts.steps_m``."""
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    first, second, third = corners.swapaxes(0, 1)
    doubled = _compute_doubled_areas(corners)
    (du, dv), (eu, ev) = (second - first).T, (third - first).T
    with np.errstate(divide="ignore", invalid="ignore"):
        along = ((b - a) * ev[:, None] - (c - a) * dv[:, None]) / doubled[:, None]
        across = ((c - a) * du[:, None] - (b - a) * eu[:, None]) / doubled[:, None]
    lengths = np.stack([np.linalg.norm(way, axis=1) for way in (along, across)], axis=1)
    lengths[:, 1] *= np.sign(doubled)
    return np.asarray(np.where(np.abs(lengths) > 0, lengths, np.inf))


def _compute_doubled_areas(corners: Floats) -> Floats:
    """Return twice the area (m,) of triangles (m, 3, 2), below 0 where they are mirrored."""
    return _cross_2d(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def _cross_2d(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
