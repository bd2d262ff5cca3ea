"""Checks and repairs of raw meshes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sim2cam.assets.mesh_files.raw_mesh import (
    RawMesh,
    compute_face_normals,
    normalize,
    split_vertices,
    warn,
    weld,
)
from sim2cam.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_CREASE_RAD = np.radians(30)
"""Minimum angle between faces at which computed normals are not smoothed."""

_MIN_EXTENT = 1e-15  # too small to compute with, in any unit
_MIN_AREA = 1e-12  # relative to the square of the mesh's size
_X_AXIS = np.array([1.0, 0.0, 0.0])


def check_raw_mesh(raw: RawMesh, path: Path) -> None:
    """Raise InputError if vertices are invalid, faces are out of range, or the mesh has no extent."""
    if raw.faces.min() < 0 or raw.faces.max() >= len(raw.vertices):
        raise InputError(path, f"a face refers to a missing vertex ({len(raw.vertices)} vertices).")
    invalid_rows = np.flatnonzero(~np.isfinite(raw.vertices).all(axis=1))
    if len(invalid_rows):
        coordinates = ", ".join(f"{c:g}" for c in raw.vertices[invalid_rows[0]])
        raise InputError(path, f"vertex {invalid_rows[0] + 1} is not finite: ({coordinates}).")
    if np.ptp(raw.vertices, axis=0).max() < _MIN_EXTENT:
        raise InputError(path, "all vertices are at the same position.")


def drop_degenerate_faces(raw: RawMesh, path: Path) -> RawMesh:
    """Remove the faces without area.

    Raises:
        InputError: No face has an area.
    """
    size = np.ptp(raw.vertices, axis=0).max()
    area = np.linalg.norm(compute_face_normals(raw), axis=1)
    has_area = area > _MIN_AREA * size**2
    if not has_area.any():
        raise InputError(path, f"all {len(has_area)} faces are degenerate (no area).")
    if not has_area.all():
        warn(
            path,
            f"{(~has_area).sum()} of {len(has_area)} faces are degenerate (no area) and removed.",
        )
    return replace(raw, faces=raw.faces[has_area])


def orient_outwards(raw: RawMesh, path: Path) -> RawMesh:
    """Orient faces counter-clockwise as seen from outside.

    The winding is made consistent on each connected surface; a closed mesh gets a positive volume.
    """
    welded = weld(raw.vertices, raw.faces)
    is_flipped = _find_flipped_faces(welded)
    welded.faces = np.where(is_flipped[:, None], welded.faces[:, ::-1], welded.faces)
    with np.errstate(all="ignore"):  # trimesh divides by the volume
        is_inside_out = welded.is_watertight and welded.volume < 0
    is_flipped = ~is_flipped if is_inside_out else is_flipped
    if not is_flipped.any():
        if raw.normals is None and path.suffix.lower() != ".stl":  # STL never has normals
            warn(path, "has no normals. They are computed from the faces.")
        return raw
    warn(
        path,
        f"{is_flipped.sum()} of {len(is_flipped)} faces are inverted. They are flipped and all normals "
        "recomputed.",
    )
    faces = np.where(is_flipped[:, None], raw.faces[:, ::-1], raw.faces)
    return replace(raw, faces=faces, normals=None)


def _find_flipped_faces(welded: Any) -> NDArray[np.bool_]:
    """Return the faces (m,) whose winding differs from most of their surface."""
    count = len(welded.faces)
    if welded.is_winding_consistent:
        return np.zeros(count, bool)
    pairs, edges = welded.face_adjacency, welded.face_adjacency_edges
    first, second = (_follows_edges(welded.faces[pairs[:, side]], edges) for side in (0, 1))
    is_inconsistent = first == second  # consistent faces traverse an edge in opposite directions
    # two nodes for each face, kept and flipped; a component is one consistent orientation
    starts = np.concatenate([pairs[:, 0], pairs[:, 0] + count])
    ends = np.concatenate(
        [pairs[:, 1] + count * is_inconsistent, pairs[:, 1] + count * ~is_inconsistent]
    )
    links = coo_array((np.ones(len(starts)), (starts, ends)), shape=(2 * count, 2 * count))
    component = connected_components(links, directed=False)[1]
    surface = np.unique(np.minimum(component[:count], component[count:]), return_inverse=True)[1]
    is_flipped = component[:count] > component[count:]
    flipped_fraction = np.bincount(surface, is_flipped) / np.bincount(surface)
    return np.asarray(is_flipped ^ (flipped_fraction > 0.5)[surface])


def _follows_edges(faces: Indices, edges: Indices) -> NDArray[np.bool_]:
    """Return whether faces (n, 3) traverse their edges (n, 2) from the first to the second end."""
    follows = np.roll(faces, -1, axis=1)
    return np.asarray(((faces == edges[:, :1]) & (follows == edges[:, 1:])).any(axis=1))


def compute_smooth_normals(raw: RawMesh) -> RawMesh:
    """Add area-weighted vertex normals, split at creases."""
    welded = weld(raw.vertices, raw.faces)
    smooth_edges = welded.face_adjacency[welded.face_adjacency_angles < _CREASE_RAD]
    count = len(raw.faces)
    adjacency = coo_array((np.ones(len(smooth_edges)), smooth_edges.T), shape=(count, count))
    smooth_group = connected_components(adjacency, directed=False)[1]
    corners = np.stack([welded.faces.ravel(), np.repeat(smooth_group, 3)], axis=1)
    _, corner_index = np.unique(corners, axis=0, return_inverse=True)
    normal_sums = np.zeros((corner_index.max() + 1, 3))
    np.add.at(normal_sums, corner_index.ravel(), np.repeat(compute_face_normals(raw), 3, axis=0))
    split = split_vertices(raw, smooth_group)
    normals = np.zeros_like(split.vertices)
    normals[split.faces.ravel()] = normalize(normal_sums, _X_AXIS)[corner_index.ravel()]
    return replace(split, normals=normals)
