"""Raw meshes as read from files, and operations on them."""

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
"""Colour (sRGB) of submeshes without one, if other submeshes have colours."""


@dataclass(frozen=True, eq=False)
class RawMesh:
    """Mesh as read from a file.

    Attributes:
        vertices: Positions (n, 3).
        faces: Vertex indices (m, 3).
        normals: Vertex normals (n, 3); None without.
        uvs: Texture coordinates (n, 2), v up; None without an image.
        image: Pillow image; None without.
        vertex_colors: sRGB (n, 3); None without.
        parts: Part number (n,) of each vertex, from 1.
    """

    vertices: Floats
    faces: Indices
    normals: Floats | None
    uvs: Floats | None
    image: Any
    vertex_colors: NDArray[np.uint8] | None
    parts: NDArray[np.uint32]


def weld(vertices: Floats, faces: Indices) -> Any:
    """Return a trimesh mesh with duplicate vertices merged."""
    import trimesh

    positions, index = np.unique(vertices, axis=0, return_inverse=True)
    return trimesh.Trimesh(positions, index.ravel()[faces], process=False)


def split_vertices(raw: RawMesh, group: NDArray[Any]) -> RawMesh:
    """Split vertices that are shared by several groups of faces (m,)."""
    corners = np.stack([raw.faces.ravel(), np.repeat(group, 3)], axis=1)
    unique_corners, corner = np.unique(corners, axis=0, return_inverse=True)
    source = unique_corners[:, 0]
    names = ("vertices", "normals", "uvs", "vertex_colors", "parts")
    values = {name: getattr(raw, name) for name in names}
    selected = {name: v[source] for name, v in values.items() if v is not None}
    return replace(raw, faces=corner.reshape(-1, 3).astype(np.int64), **selected)


def compute_face_normals(raw: RawMesh) -> Floats:
    """Return the face normals (m, 3); their length is twice the area."""
    a, b, c = raw.vertices[raw.faces].swapaxes(0, 1)
    return np.cross(b - a, c - a)


def normalize(vectors: Floats, fallback: Floats) -> Floats:
    """Normalize vectors (n, 3); replace zero vectors by ``fallback``."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(lengths > 0, vectors / np.where(lengths > 0, lengths, 1), fallback)


def warn(path: Path, flaw: str) -> None:
    """Issue a RepairWarning about a file."""
    warnings.warn(f"{path}: {flaw}", RepairWarning, stacklevel=2)


def format_unused_images(names: Sequence[str]) -> str:
    """Return the message for unused images."""
    shown = ", ".join(f"'{name[:60]}'" for name in names[:3])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"images {shown}{more} are ignored: only colour images are supported."
