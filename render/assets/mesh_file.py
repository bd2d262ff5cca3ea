"""Meshes from files: read, checked, repaired where that is safe, and brought into our form."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import InputError
from sim2cam.render.assets import cache
from sim2cam.render.assets.content import MeshContent, unpacked
from sim2cam.render.assets.decomposition import center_of
from sim2cam.render.assets.hull import hull_of, taken_apart
from sim2cam.render.assets.raw_mesh import weld
from sim2cam.render.assets.reader import Sources, read_raw
from sim2cam.render.assets.repair import check_raw, smoothed, turned_outwards, without_slivers
from sim2cam.render.assets.unwrap import painted, pictured, tangents_of, wrapped
from sim2cam.render.shapes.surface import Mesh
from sim2cam.scene.asset import MeshFile

Floats = NDArray[np.float64]


@functools.lru_cache(maxsize=64)
def read_mesh_file(asset: MeshFile) -> MeshContent:
    """Returns the content of a mesh file; the last ones that were read are remembered.

    Warns with a ``RepairWarning`` of what was repaired: no normals, faces inside out, faces without
    an area, textures that are missing or too large.

    Raises:
        InputError: the file is missing, damaged, has no faces, too many, or numbers that are none.
    """
    content = unpacked(cache.read(f"{asset.digest}.npz")) if asset.digest else None
    if content is None:
        content, sources = parse_mesh_file(Path(asset.path), asset.max_faces)
        if asset.digest:
            content = taken_apart(content)
        if asset.digest not in ("", sources.digest()):
            raise InputError(asset.path, "is not what it was when it was brought in. Start anew.")
    return content.scaled(asset.unit_m)


def parse_mesh_file(path: Path, max_faces: int) -> tuple[MeshContent, Sources]:
    """Returns the content of a mesh file in its own unit, and what it was read from.

    Raises:
        InputError: as ``read_mesh_file``.
    """
    raw, sources = read_raw(path, max_faces)
    check_raw(raw, path)
    raw = turned_outwards(without_slivers(raw, path), path)
    if raw.normals is None:
        raw = smoothed(raw)
    is_closed = bool(weld(raw).is_watertight)
    if raw.uvs is not None:
        raw, colors = pictured(raw, raw.uvs, path)
    elif raw.paint is not None:
        raw, colors = painted(raw, raw.paint)
    else:
        raw, colors = wrapped(raw), None
    assert raw.normals is not None
    assert raw.uvs is not None
    tangents = tangents_of(raw.vertices, raw.faces, raw.normals, raw.uvs)
    parts = np.ones(len(raw.vertices), np.uint32)
    mesh = Mesh(raw.vertices, raw.normals, tangents, raw.uvs, raw.faces, parts)
    return MeshContent(mesh, colors, is_closed), sources


@dataclass(frozen=True, eq=False)
class Collider:
    """What a mesh collides as.

    Attributes:
        parts: corners (n, 3) of convex solids, metres.
        center: (3,) of the mass of all of them.
    """

    parts: tuple[Floats, ...]
    center: Floats


@functools.lru_cache(maxsize=64)
def collider_of(asset: MeshFile) -> Collider:
    """Returns what a mesh file collides as: its parts if it was brought in, its hull otherwise."""
    content = read_mesh_file(asset)
    if content.parts:
        return Collider(content.parts, center_of(content.parts))
    hull = hull_of(content.mesh.vertices_m)
    return Collider((hull.points,), hull.center)
