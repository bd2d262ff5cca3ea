"""What is wrong with meshes from files: mended where that is safe, refused otherwise."""

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
"""Between faces that meet at more, normals that had to be made do not run on."""

_MIN_EXTENT = 1e-15  # too small to compute with, in any unit
_MIN_AREA = 1e-12  # of the square of the mesh's size
_X_AXIS = np.array([1.0, 0.0, 0.0])


def check_raw_mesh(raw: RawMesh, path: Path) -> None:
    """Refuse numbers that are none, vertices that are not there, and meshes without a size."""
    if raw.vertices.ndim != 2 or raw.vertices.shape[1] != 3:
        raise InputError(path, "its vertices have no three coordinates each.")
    if raw.faces.min() < 0 or raw.faces.max() >= len(raw.vertices):
        raise InputError(path, f"a face names a vertex that is none of its {len(raw.vertices)}.")
    wrong = np.flatnonzero(~np.isfinite(raw.vertices).all(axis=1))
    if len(wrong):
        place = ", ".join(f"{c:g}" for c in raw.vertices[wrong[0]])
        raise InputError(path, f"vertex {wrong[0] + 1} lies at ({place}).")
    if np.ptp(raw.vertices, axis=0).max() < _MIN_EXTENT:
        raise InputError(path, "has no size: all its vertices lie at one place.")


def drop_degenerate_faces(raw: RawMesh, path: Path) -> RawMesh:
    """Return the mesh without the faces that have no area."""
    size = np.ptp(raw.vertices, axis=0).max()
    area = np.linalg.norm(compute_face_normals(raw), axis=1)
    whole = area > _MIN_AREA * size**2
    if not whole.any():
        raise InputError(path, f"none of its {len(whole)} faces has an area.")
    if not whole.all():
        warn(path, f"{(~whole).sum()} of its {len(whole)} faces have no area. They are left out.")
    return replace(raw, faces=raw.faces[whole])


def orient_outwards(raw: RawMesh, path: Path) -> RawMesh:
    """Return the mesh with its faces counter-clockwise seen from outside, as far as that is known.

    Faces of one surface are turned alike; a closed one so that its volume is positive.
    """
    welded = weld(raw.vertices, raw.faces)
    turned = _find_flipped_faces(welded)
    welded.faces = np.where(turned[:, None], welded.faces[:, ::-1], welded.faces)
    with np.errstate(all="ignore"):  # trimesh divides by it
        is_inside_out = welded.is_watertight and welded.volume < 0
    turned = ~turned if is_inside_out else turned
    if not turned.any():
        if raw.normals is None and path.suffix.lower() != ".stl":  # which never has any
            warn(path, "has no normals. They are made from its faces.")
        return raw
    warn(
        path,
        f"{turned.sum()} of its {len(turned)} faces were inside out. They are turned, and all "
        "normals made anew.",
    )
    faces = np.where(turned[:, None], raw.faces[:, ::-1], raw.faces)
    return replace(raw, faces=faces, normals=None)


def _find_flipped_faces(welded: Any) -> NDArray[np.bool_]:
    """Return which faces (m,) of a mesh of trimesh's are turned unlike most of their surface."""
    count = len(welded.faces)
    if welded.is_winding_consistent:
        return np.zeros(count, bool)
    pairs, edges = welded.face_adjacency, welded.face_adjacency_edges
    one, other = (_follows_edges(welded.faces[pairs[:, side]], edges) for side in (0, 1))
    unlike = one == other  # along an edge that they share, faces that are turned alike run apart
    # each face twice, as it is and turned; joined is what belongs to one way of turning a surface
    starts = np.concatenate([pairs[:, 0], pairs[:, 0] + count])
    ends = np.concatenate([pairs[:, 1] + count * unlike, pairs[:, 1] + count * ~unlike])
    links = coo_array((np.ones(len(starts)), (starts, ends)), shape=(2 * count, 2 * count))
    way = connected_components(links, directed=False)[1]
    surface = np.unique(np.minimum(way[:count], way[count:]), return_inverse=True)[1]
    turned = way[:count] > way[count:]
    share = np.bincount(surface, turned) / np.bincount(surface)
    return np.asarray(turned ^ (share > 0.5)[surface])


def _follows_edges(faces: Indices, edges: Indices) -> NDArray[np.bool_]:
    """Return whether faces (n, 3) run along edges (n, 2) of theirs from the first end to the second."""
    follows = np.roll(faces, -1, axis=1)
    return np.asarray(((faces == edges[:, :1]) & (follows == edges[:, 1:])).any(axis=1))


def compute_smooth_normals(raw: RawMesh) -> RawMesh:
    """Return the mesh with normals: the mean of the faces around, up to creases."""
    welded = weld(raw.vertices, raw.faces)
    near = welded.face_adjacency[welded.face_adjacency_angles < _CREASE_RAD]
    count = len(raw.faces)
    links = coo_array((np.ones(len(near)), near.T), shape=(count, count))
    smooth = connected_components(links, directed=False)[1]
    corners = np.stack([welded.faces.ravel(), np.repeat(smooth, 3)], axis=1)
    _, point = np.unique(corners, axis=0, return_inverse=True)
    total = np.zeros((point.max() + 1, 3))
    np.add.at(total, point.ravel(), np.repeat(compute_face_normals(raw), 3, axis=0))
    split = split_vertices(raw, smooth)
    normals = np.zeros_like(split.vertices)
    normals[split.faces.ravel()] = normalize(total, _X_AXIS)[point.ravel()]
    return replace(split, normals=normals)
