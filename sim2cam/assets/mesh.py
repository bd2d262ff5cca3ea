"""Content and colliders of mesh and model files: reading, checks, repair, caching."""

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
    """Read the content of a file in metres, with all joints at 0; recent results are cached.

    Repairs cause a ``RepairWarning``: missing normals, inverted faces, degenerate faces, missing or
    oversized textures.

    Raises:
        InputError: The file is missing or damaged, has no faces or too many, or holds invalid numbers.
    """
    content = unpack(user_cache.read_entry(f"{asset.digest}.npz")) if asset.digest else None
    if content is None:
        path = Path(asset.path)
        content = _reread(asset) if asset.digest else parse_file(path, asset.max_faces).content
    return content.scale(asset.unit_m)


def _reread(asset: MeshFile) -> MeshContent:
    """Read an imported file that is missing from the cache.

    Companion files may lie in any parent folder, so each is tried as the root.

    Raises:
        InputError: The file changed or cannot be read.
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
    changed = InputError(asset.path, "changed since its import. Import it again.")
    raise changed from problem


def load_content(asset: MeshFile) -> MeshContent:
    """Read the content of a file at its joint states; raises like ``read_mesh_file``."""
    return read_mesh_file(replace(asset, joints=(), keypoints=())).pose(asset.joints)


@dataclass(frozen=True, eq=False)
class ParsedFile:
    """Content of a file in its own unit, with its sources.

    Attributes:
        content: Mesh, collision parts and articulation.
        sources: Files that were read.
        mass_kg: 0 if the file gives no mass.
    """

    content: MeshContent
    sources: SourceFiles
    mass_kg: float = 0.0


def parse_file(path: Path, max_faces: int, root: Path | None = None) -> ParsedFile:
    """Read a mesh or model file in its own unit.

    Raises:
        InputError: As ``read_mesh_file``.
    """
    check_file(path)
    if path.suffix.lower() not in MODEL_SUFFIXES:
        raw, sources = read_raw_mesh(path, max_faces, root)
        return ParsedFile(_build_content(raw, path), sources)
    assembly = assemble_model(path, max_faces, root)
    content = replace(
        _build_content(assembly.raw, path),
        parts=assembly.parts,
        links=assembly.links,
        articulation=assembly.articulation,
        inertias=assembly.inertias,
    )
    return ParsedFile(content, assembly.sources, assembly.mass_kg)


def _build_content(raw: RawMesh, path: Path) -> MeshContent:
    """Check and repair a raw mesh, and add normals, uvs and tangents."""
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
    """Collision shape of one link.

    Attributes:
        link: Number of the link, from 1.
        pose: Link frame in the asset frame.
        parts: Vertices (n, 3) of convex parts in the link frame, metres.
    """

    link: int
    pose: Pose
    parts: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class MeshCollider:
    """Collision shape of an asset at its joint states.

    Attributes:
        links: Links with a collision shape; a mesh is one link in the asset frame.
        inertia: Pseudo-inertia matrix (4, 4) up to scale, in the asset frame; see ``geometry.inertia``.
    """

    links: tuple[LinkCollider, ...]
    inertia: Floats

    @property
    def center(self) -> Floats:
        """Centre of mass (3,) in the asset frame."""
        return compute_center_of_mass(self.inertia)

    @property
    def parts(self) -> tuple[Floats, ...]:
        """Vertices (n, 3) of all convex parts, in the asset frame."""
        return tuple(link.pose.apply(part) for link in self.links for part in link.parts)


@functools.lru_cache(maxsize=64)
def build_collider(asset: MeshFile) -> MeshCollider:
    """Build the collider of a file: its convex parts if imported, its hull otherwise."""
    content = read_mesh_file(replace(asset, joints=(), keypoints=()))
    inertia = compute_inertia(content, asset.joints)
    if content.articulation is None or not content.parts:
        parts = content.parts or (compute_hull(content.mesh.vertices_m).points,)
        return MeshCollider((LinkCollider(1, Pose(), parts),), inertia)
    matrices = content.articulation.compute_link_matrices(asset.joints)
    links = tuple(
        LinkCollider(
            number,
            Pose.from_matrix(matrices[number - 1]),
            tuple(p for p, n in zip(content.parts, content.links, strict=True) if n == number),
        )
        for number in sorted(set(content.links))
    )
    return MeshCollider(links, inertia)
