"""Meshes from files: read, checked, repaired where that is safe, and brought into our form."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets import user_cache
from sim2cam.assets.convex_hull import compute_hull, compute_inertia, decompose_content
from sim2cam.assets.mesh_cache import MeshContent, unpack
from sim2cam.assets.mesh_files.raw_mesh import RawMesh, weld
from sim2cam.assets.mesh_files.reader import MODEL_SUFFIXES, SourceFiles, check_file, read_raw_mesh
from sim2cam.assets.model_files.assembly import assemble_model
from sim2cam.assets.repair import (
    check_raw_mesh,
    compute_smooth_normals,
    drop_degenerate_faces,
    orient_outwards,
)
from sim2cam.assets.unwrap import apply_image, apply_vertex_colors, compute_tangents, unwrap
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
    content = unpack(user_cache.read_entry(f"{asset.digest}.npz")) if asset.digest else None
    if content is None:
        content = (
            _reread(asset)
            if asset.digest
            else parse_file(Path(asset.path), asset.max_faces).content
        )
    return content.scale(asset.unit_m)


def _reread(asset: MeshFile) -> MeshContent:
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
        if parsed.sources.compute_digest() == asset.digest:
            return decompose_content(parsed.content)
        if not parsed.sources.missing:
            break
    changed = InputError(asset.path, "is not what it was when it was brought in. Start anew.")
    raise changed from problem


def load_content(asset: MeshFile) -> MeshContent:
    """Return the content of a file, with its joints as they stand; raises as ``read_mesh_file``."""
    return read_mesh_file(replace(asset, joints=(), keypoints=())).pose(asset.joints)


@dataclass(frozen=True, eq=False)
class ParsedFile:
    """What a file holds in its own unit, and what it was read from.

    Attributes:
        mass_kg: 0 when it does not say.
    """

    content: MeshContent
    sources: SourceFiles
    mass_kg: float = 0.0


def parse_file(path: Path, max_faces: int, root: Path | None = None) -> ParsedFile:
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
        raw, sources = read_raw_mesh(path, max_faces, root)
        return ParsedFile(_build_content(raw, path), sources)
    found = assemble_model(path, max_faces, root)
    content = replace(
        _build_content(found.raw, path),
        parts=found.parts,
        links=found.links,
        articulation=found.articulation,
        inertias=found.inertias,
    )
    return ParsedFile(content, found.sources, found.mass_kg)


def _build_content(raw: RawMesh, path: Path) -> MeshContent:
    """Return a mesh as its file has it, brought into our form."""
    check_raw_mesh(raw, path)
    raw = orient_outwards(drop_degenerate_faces(raw, path), path)
    if raw.normals is None:
        raw = compute_smooth_normals(raw)
    is_closed = bool(weld(raw.vertices, raw.faces).is_watertight)
    if raw.uvs is not None:
        raw, colors = apply_image(raw, raw.uvs, path)
    elif raw.vertex_colors is not None:
        raw, colors = apply_vertex_colors(raw, raw.vertex_colors)
    else:
        raw, colors = unwrap(raw), None
    assert raw.normals is not None
    assert raw.uvs is not None
    tangents = compute_tangents(raw.vertices, raw.faces, raw.normals, raw.uvs)
    mesh = Mesh(raw.vertices, raw.normals, tangents, raw.uvs, raw.faces, raw.parts)
    return MeshContent(mesh, colors, is_closed)


@dataclass(frozen=True, eq=False)
class LinkCollider:
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
class MeshCollider:
    """What an asset from a file collides as, as its joints stand.

    Attributes:
        links: those that collide; a mesh is one, in the asset's own frame.
        inertia: (4, 4) of its mass, of any amount, in the asset's own frame; see ``geometry.masses``.
    """

    links: tuple[LinkCollider, ...]
    inertia: Floats

    @property
    def center(self) -> Floats:
        """Centre (3,) of its mass, in the asset's own frame."""
        return compute_center_of_mass(self.inertia)

    @property
    def parts(self) -> tuple[Floats, ...]:
        """Corners (n, 3) of all convex solids, in the asset's own frame."""
        return tuple(link.pose.apply(part) for link in self.links for part in link.parts)


@functools.lru_cache(maxsize=64)
def build_collider(asset: MeshFile) -> MeshCollider:
    """Return what a file collides as: its parts if it was brought in, its hull otherwise."""
    content = read_mesh_file(replace(asset, joints=(), keypoints=()))
    spread = compute_inertia(content, asset.joints)
    if content.articulation is None or not content.parts:
        parts = content.parts or (compute_hull(content.mesh.vertices_m).points,)
        return MeshCollider((LinkCollider(1, Pose(), parts),), spread)
    matrices = content.articulation.compute_link_matrices(asset.joints)
    links = tuple(
        LinkCollider(
            number,
            Pose.from_matrix(matrices[number - 1]),
            tuple(p for p, n in zip(content.parts, content.links, strict=True) if n == number),
        )
        for number in sorted(set(content.links))
    )
    return MeshCollider(links, spread)
