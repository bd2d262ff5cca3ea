"""Meshes from files: read, checked, repaired where that is safe, and brought into our form."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets import user_cache
from sim2cam.assets.convex_hull import hull_of, spread_of, taken_apart
from sim2cam.assets.mesh_cache import MeshContent, unpacked
from sim2cam.assets.mesh_files.raw_mesh import RawMesh, weld
from sim2cam.assets.mesh_files.reader import MODEL_SUFFIXES, Sources, check_file, read_raw
from sim2cam.assets.model_files.assembly import assembled
from sim2cam.assets.repair import check_raw, smoothed, turned_outwards, without_slivers
from sim2cam.assets.unwrap import painted, pictured, tangents_of, wrapped
from sim2cam.errors import InputError
from sim2cam.geometry.inertia import compute_center_of_mass
from sim2cam.geometry.poses import Pose
from sim2cam.scene.shape import MeshFile
from sim2cam.surfaces.mesh import Mesh

Floats = NDArray[np.float64]


@functools.lru_cache(maxsize=64)
def read_mesh_file(asset: MeshFile) -> MeshContent:
    """Return the content of a file, with all joints at 0; the last ones that were read are remembered.

    Warns with a ``RepairWarning`` of what was repaired: no normals, faces inside out, faces without
    an area, textures that are missing or too large.

    Raises:
        InputError: the file is missing, damaged, has no faces, too many, or numbers that are none.
    """
    content = unpacked(user_cache.read(f"{asset.digest}.npz")) if asset.digest else None
    if content is None:
        content = (
            _read_again(asset)
            if asset.digest
            else parse_file(Path(asset.path), asset.max_faces).content
        )
    return content.scaled(asset.unit_m)


def _read_again(asset: MeshFile) -> MeshContent:
    """Return the content of a file that was brought in and is not in the cache.

    What it names may lie in a folder above its own; which one was given then is not known here.

    Raises:
        InputError: it is not what it was, or cannot be read.
    """
    path, problem = Path(asset.path).absolute(), None
    for root in path.parents:
        try:
            parsed = parse_file(path, asset.max_faces, root)
        except InputError as error:
            problem = problem or error
            continue
        if parsed.sources.digest() == asset.digest:
            return taken_apart(parsed.content)
        if not parsed.sources.missing:
            break
    changed = InputError(asset.path, "is not what it was when it was brought in. Start anew.")
    raise changed from problem


def content_of(asset: MeshFile) -> MeshContent:
    """Return the content of a file, with its joints as they stand; raises as ``read_mesh_file``."""
    return read_mesh_file(replace(asset, joints=(), keypoints=())).posed(asset.joints)


@dataclass(frozen=True, eq=False)
class Parsed:
    """What a file holds in its own unit, and what it was read from.

    Attributes:
        mass_kg: 0 when it does not say.
    """

    content: MeshContent
    sources: Sources
    mass_kg: float = 0.0


def parse_file(path: Path, max_faces: int, root: Path | None = None) -> Parsed:
    """Return what a file of a mesh or of a model holds.

    Args:
        path: of the file.
        max_faces: with more triangles it is refused.
        root: the folder that holds all that it may name; its own without.

    Raises:
        InputError: as ``read_mesh_file``.
    """
    check_file(path)
    if path.suffix.lower() not in MODEL_SUFFIXES:
        raw, sources = read_raw(path, max_faces, root)
        return Parsed(_content(raw, path), sources)
    found = assembled(path, max_faces, root)
    content = replace(
        _content(found.raw, path),
        parts=found.parts,
        links=found.links,
        articulation=found.articulation,
        spreads=found.spreads,
    )
    return Parsed(content, found.sources, found.mass_kg)


def _content(raw: RawMesh, path: Path) -> MeshContent:
    """Return a mesh as its file has it, brought into our form."""
    check_raw(raw, path)
    raw = turned_outwards(without_slivers(raw, path), path)
    if raw.normals is None:
        raw = smoothed(raw)
    is_closed = bool(weld(raw.vertices, raw.faces).is_watertight)
    if raw.uvs is not None:
        raw, colors = pictured(raw, raw.uvs, path)
    elif raw.paint is not None:
        raw, colors = painted(raw, raw.paint)
    else:
        raw, colors = wrapped(raw), None
    assert raw.normals is not None
    assert raw.uvs is not None
    tangents = tangents_of(raw.vertices, raw.faces, raw.normals, raw.uvs)
    mesh = Mesh(raw.vertices, raw.normals, tangents, raw.uvs, raw.faces, raw.parts)
    return MeshContent(mesh, colors, is_closed)


@dataclass(frozen=True, eq=False)
class LinkSolids:
    """What one link collides as.

    Attributes:
        link: number of it, from 1.
        pose: its frame in that of the asset.
        parts: corners (n, 3) of convex solids in its own frame, metres.
    """

    link: int
    pose: Pose
    parts: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class Collider:
    """What an asset from a file collides as, as its joints stand.

    Attributes:
        links: those that collide; a mesh is one, in the asset's own frame.
        spread: (4, 4) of its mass, of any amount, in the asset's own frame; see ``geometry.masses``.
    """

    links: tuple[LinkSolids, ...]
    spread: Floats

    @property
    def center(self) -> Floats:
        """Centre (3,) of its mass, in the asset's own frame."""
        return compute_center_of_mass(self.spread)

    @property
    def parts(self) -> tuple[Floats, ...]:
        """Corners (n, 3) of all convex solids, in the asset's own frame."""
        return tuple(link.pose.apply(part) for link in self.links for part in link.parts)


@functools.lru_cache(maxsize=64)
def collider_of(asset: MeshFile) -> Collider:
    """Return what a file collides as: its parts if it was brought in, its hull otherwise."""
    content = read_mesh_file(replace(asset, joints=(), keypoints=()))
    spread = spread_of(content, asset.joints)
    if content.articulation is None or not content.parts:
        parts = content.parts or (hull_of(content.mesh.vertices_m).points,)
        return Collider((LinkSolids(1, Pose(), parts),), spread)
    matrices = content.articulation.compute_link_matrices(asset.joints)
    links = tuple(
        LinkSolids(
            number,
            Pose.from_matrix(matrices[number - 1]),
            tuple(p for p, n in zip(content.parts, content.links, strict=True) if n == number),
        )
        for number in sorted(set(content.links))
    )
    return Collider(links, spread)
