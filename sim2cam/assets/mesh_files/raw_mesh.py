"""Meshes as files have them, before they are brought into our form."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import RepairWarning

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

GREY = (204, 204, 204, 255)
"""sRGB of what has no colour in a file where other things have one."""


@dataclass(frozen=True, eq=False)
class RawMesh:
    """A mesh as the file has it.

    Attributes:
        vertices: (n, 3).
        faces: (m, 3).
        normals: (n, 3); None without.
        uvs: (n, 2), v upwards; None without a picture.
        image: as Pillow opened it.
        vertex_colors: sRGB (n, 3) of the vertices; None without.
        parts: (n,) number of the part that each vertex belongs to, from 1.
    """

    vertices: Floats
    faces: Indices
    normals: Floats | None
    uvs: Floats | None
    image: Any
    vertex_colors: NDArray[np.uint8] | None
    parts: NDArray[np.uint32]


def weld(vertices: Floats, faces: Indices) -> Any:
    """Return a mesh as trimesh has it, with one vertex a place."""
    import trimesh

    places, place = np.unique(vertices, axis=0, return_inverse=True)
    return trimesh.Trimesh(places, place.ravel()[faces], process=False)


def split_vertices(raw: RawMesh, group: NDArray[Any]) -> RawMesh:
    """Return the mesh with a vertex of its own for each group of faces (m,) that meets there."""
    corners = np.stack([raw.faces.ravel(), np.repeat(group, 3)], axis=1)
    found, corner = np.unique(corners, axis=0, return_inverse=True)
    old = found[:, 0]
    return replace(
        raw,
        vertices=raw.vertices[old],
        faces=corner.reshape(-1, 3).astype(np.int64),
        normals=None if raw.normals is None else raw.normals[old],
        uvs=None if raw.uvs is None else raw.uvs[old],
        vertex_colors=None if raw.vertex_colors is None else raw.vertex_colors[old],
        parts=raw.parts[old],
    )


def compute_face_normals(raw: RawMesh) -> Floats:
    """Return the normals (m, 3) of the faces, twice as long as their areas."""
    a, b, c = raw.vertices[raw.faces].swapaxes(0, 1)
    return np.cross(b - a, c - a)


def normalize(vectors: Floats, fallback: Floats) -> Floats:
    """Return vectors (n, 3) with length 1; others for those that have none."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(lengths > 0, vectors / np.where(lengths > 0, lengths, 1), fallback)


def warn(path: Path, flaw: str) -> None:
    """Warn of a flaw of a file that was mended."""
    warnings.warn(f"{path}: {flaw}", RepairWarning, stacklevel=2)


def warn_unused(names: Sequence[str]) -> str:
    """Return that images are not drawn, as a sentence."""
    shown = ", ".join(f"'{name[:60]}'" for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"its images {shown}{more} are not used: only images of colours are."
