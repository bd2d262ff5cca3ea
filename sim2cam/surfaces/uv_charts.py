"""Layout of texels on bodies, for relief and wear."""

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

_FRACTION_BITS = 4  # fractional bits of OpenCV polygon coordinates
_MIN_DOUBLED_AREA_PX = 1e-4  # smaller faces contain no texel centres
_MAX_NEIGHBOR_DISTANCE = 6.0  # texel sizes; neighbours farther apart are in different charts


class TexelGeometry(Protocol):
    """Layout of the texels (h, w) of a texture on a body."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""

    @property
    def points(self) -> Coordinates:
        """Centres of the texels in metres."""

    @property
    def area_m2(self) -> float:
        """Area of the body that the texels cover."""

    def compute_slopes(self, height_m: Floats) -> Floats:
        """Return the slopes (h, w, 2) of heights (h, w) along tangent and bitangent."""

    def find_nearby(self, position: Floats, radius_m: float) -> tuple[Any, Floats, Floats]:
        """Return the index of the texels around a position, and their offsets to the right and up.

        Args:
            position: two numbers in 0..1; uniform values are uniform on the body.
            radius_m: minimum half side of the neighbourhood.
        """


@dataclass(frozen=True)
class PlanarTexels:
    """Texels of equal size on a plane; row 0 is y = 0.

    Attributes:
        shape: number of rows and columns.
        texel_size_m: width and height of a texel on the body.
    """

    shape: tuple[int, int]
    texel_size_m: tuple[float, float]

    @property
    def points(self) -> Coordinates:
        """See ``TexelGeometry``."""
        height, width = self.shape
        x = np.asarray((np.arange(width) + 0.5) * self.texel_size_m[0], np.float64)
        y = np.asarray((np.arange(height) + 0.5) * self.texel_size_m[1], np.float64)
        return x, y[:, None], np.zeros(1)

    @property
    def area_m2(self) -> float:
        """See ``TexelGeometry``."""
        return float(np.prod(self.shape) * np.prod(self.texel_size_m))

    def compute_slopes(self, height_m: Floats) -> Floats:
        """See ``TexelGeometry``."""
        along_v, along_u = np.gradient(height_m, *self.texel_size_m[::-1])
        return np.stack([along_u, along_v], axis=-1)

    def find_nearby(self, position: Floats, radius_m: float) -> tuple[Any, Floats, Floats]:
        """See ``TexelGeometry``."""
        x, y = self.points[0], self.points[1][:, 0]
        center_x, center_y = (
            len(coordinates) * texel * fraction
            for coordinates, texel, fraction in zip(
                (x, y), self.texel_size_m, position, strict=True
            )
        )
        columns, rows = (
            slice(*np.searchsorted(coordinates, (center - radius_m, center + radius_m)))
            for coordinates, center in ((x, center_x), (y, center_y))
        )
        return (rows, columns), x[columns] - center_x, y[rows, None] - center_y


@dataclass(frozen=True, eq=False)
class MeshTexels:
    """Texels of a mesh texture, by the uvs of the mesh.

    Attributes:
        positions_m: (h, w, 3) positions on the mesh; uncovered texels take the nearest covered one.
        texel_size_m: (h, w, 2) lengths of a texel on the body along u and v; the latter is negative
            where v runs against the bitangent. Infinite where neighbours are in another chart.
        dominant_axis: (h, w) axis, 0 to 2, closest to the normal of the face.
        covered_texels: (k, 2) rows and columns of the texels covered by faces.
        area_m2: area of all faces.
        overlap_fraction: share of the covered texels shared by several parts of the body, or share
            of the body without texels, whichever is larger.
    """

    positions_m: Floats
    texel_size_m: Floats
    dominant_axis: Indices
    covered_texels: Indices
    area_m2: float
    overlap_fraction: float

    @property
    def shape(self) -> tuple[int, int]:
        """See ``TexelGeometry``."""
        rows, columns, _ = self.positions_m.shape
        return rows, columns

    @cached_property
    def points(self) -> Coordinates:
        """See ``TexelGeometry``."""
        x, y, z = np.moveaxis(self.positions_m, -1, 0)
        return x, y, z

    def compute_slopes(self, height_m: Floats) -> Floats:
        """See ``TexelGeometry``."""
        along_v, along_u = np.gradient(height_m)
        return np.stack([along_u, along_v], axis=-1) / self.texel_size_m

    def find_nearby(self, position: Floats, radius_m: float) -> tuple[Any, Floats, Floats]:
        """See ``TexelGeometry``; faces with another dominant axis are excluded."""
        center = tuple(
            self.covered_texels[
                min(int(position[0] * len(self.covered_texels)), len(self.covered_texels) - 1)
            ]
        )
        axis = int(self.dominant_axis[center])
        offsets = self.positions_m - self.positions_m[center]
        index = np.nonzero((np.abs(offsets) < radius_m).all(axis=-1) & (self.dominant_axis == axis))
        return index, offsets[(*index, (axis + 1) % 3)], offsets[(*index, (axis + 2) % 3)]


def map_mesh_texels(mesh: Mesh, shape: tuple[int, int]) -> MeshTexels:
    """Return the layout of the texels (h, w) of a mesh texture.

    Args:
        mesh: mesh with uvs in 0..1.
        shape: number of rows and columns of the texture.
    """
    corners = mesh.uvs[mesh.faces] * shape[::-1] - 0.5  # (m, 3, 2); texel centres are integers
    has_texels = np.abs(_compute_doubled_areas(corners)) > _MIN_DOUBLED_AREA_PX
    textured_faces = np.flatnonzero(has_texels)
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    face_normals = np.cross(b - a, c - a)
    areas = np.linalg.norm(face_normals, axis=1) / 2
    area, untextured = float(areas.sum()), float(areas[~has_texels].sum() / areas.sum())
    if not len(textured_faces):
        no_texels = np.zeros((0, 2), np.int64)
        empty_maps = np.zeros((*shape, 3)), np.full((*shape, 2), np.inf), np.zeros(shape, np.int64)
        return MeshTexels(*empty_maps, no_texels, area, untextured)
    face_ids, first_face_ids = (
        _rasterize_faces(corners, order, shape) for order in (textured_faces, textured_faces[::-1])
    )
    covered = np.argwhere(face_ids >= 0)
    row, column = covered.T
    top_face, bottom_face = face_ids[row, column], first_face_ids[row, column]
    texel_positions = covered[:, ::-1].astype(np.float64)
    points = _interpolate_points(mesh, corners, top_face, texel_positions)
    texel_size_m = _compute_texel_size_m(mesh, corners)
    gap_m = np.linalg.norm(
        points - _interpolate_points(mesh, corners, bottom_face, texel_positions), axis=1
    )
    shared = np.zeros(shape, np.uint8)
    shared[row, column] = gap_m > _MAX_NEIGHBOR_DISTANCE * float(
        np.median(np.abs(texel_size_m[textured_faces]).max(axis=1))
    )
    overlaps = cv2.morphologyEx(shared, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))  # ignore seams

    positions = np.zeros((*shape, 3))
    positions[row, column] = points
    nearest = distance_transform_edt(face_ids < 0, return_distances=False, return_indices=True)
    positions, face_ids = positions[tuple(nearest)], face_ids[tuple(nearest)]
    texel_steps = texel_size_m[face_ids]
    for axis in (1, 0):
        jumps = np.linalg.norm(np.gradient(positions, axis=axis), axis=-1)
        texel_steps[..., 1 - axis][
            jumps > _MAX_NEIGHBOR_DISTANCE / 2 * np.abs(texel_steps[..., 1 - axis])
        ] = np.inf
    dominant_axis = np.abs(face_normals).argmax(axis=1)[face_ids]
    return MeshTexels(
        positions,
        texel_steps,
        dominant_axis,
        covered,
        area,
        max(untextured, float(np.mean(overlaps[row, column]))),
    )


def _rasterize_faces(corners: Floats, order: Indices, shape: tuple[int, int]) -> Indices:
    """Return the face (h, w) that covers each texel, the last in order of several; -1 for none."""
    face_ids = np.full(shape, -1, np.int32)
    fixed_point = np.round(corners * (1 << _FRACTION_BITS)).astype(np.int32)
    for face in order:
        cv2.fillConvexPoly(face_ids, fixed_point[face], int(face), shift=_FRACTION_BITS)
    return face_ids.astype(np.int64)


def _interpolate_points(
    mesh: Mesh, corners: Floats, face_ids: Indices, texel_positions: Floats
) -> Floats:
    """Return the points (k, 3) of faces (k,) at texel positions (k, 2)."""
    a, b, c = corners[face_ids].swapaxes(0, 1)
    doubled_areas = _compute_doubled_areas(corners)[face_ids]
    second, third = (
        _cross_2d(texel_positions - a, c - a) / doubled_areas,
        _cross_2d(b - a, texel_positions - a) / doubled_areas,
    )
    weights = np.stack([1 - second - third, second, third], axis=1)
    weights = weights.clip(-1, 2)  # texels beside slivers would extrapolate far away
    return np.asarray(np.einsum("ki,kij->kj", weights, mesh.vertices_m[mesh.faces[face_ids]]))


def _compute_texel_size_m(mesh: Mesh, corners: Floats) -> Floats:
    """Return the texel size (m, 2) along u and v on each face; see ``MeshTexels.texel_size_m``."""
    a, b, c = mesh.vertices_m[mesh.faces].swapaxes(0, 1)
    first, second, third = corners.swapaxes(0, 1)
    doubled_areas = _compute_doubled_areas(corners)
    (du, dv), (eu, ev) = (second - first).T, (third - first).T
    with np.errstate(divide="ignore", invalid="ignore"):
        along = ((b - a) * ev[:, None] - (c - a) * dv[:, None]) / doubled_areas[:, None]
        across = ((c - a) * du[:, None] - (b - a) * eu[:, None]) / doubled_areas[:, None]
    lengths = np.stack([np.linalg.norm(step, axis=1) for step in (along, across)], axis=1)
    lengths[:, 1] *= np.sign(doubled_areas)
    return np.asarray(np.where(np.abs(lengths) > 0, lengths, np.inf))


def _compute_doubled_areas(corners: Floats) -> Floats:
    """Return twice the area (m,) of triangles (m, 3, 2), negative if mirrored."""
    return _cross_2d(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def _cross_2d(a: Floats, b: Floats) -> Floats:
    return np.asarray(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
