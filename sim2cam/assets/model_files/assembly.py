"""Assembly of a model's links into one mesh with convex collision parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.convex_hull import compute_hull, uniform_inertia
from sim2cam.assets.mesh_files.atlas import join_solids
from sim2cam.assets.mesh_files.companions import FileLocation
from sim2cam.assets.mesh_files.raw_mesh import RawMesh, warn, weld
from sim2cam.assets.mesh_files.reader import SourceFiles, convert_errors, hash_file, read_solids
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.assets.model_files.mesh_names import find_mesh
from sim2cam.assets.model_files.mjcf import read_mjcf
from sim2cam.assets.model_files.model import Capsule, Link, MeshPart, Model, Shape
from sim2cam.assets.model_files.sdf import read_sdf
from sim2cam.assets.model_files.urdf import read_urdf
from sim2cam.errors import InputError
from sim2cam.geometry.inertia import is_plausible_inertia
from sim2cam.geometry.poses import Vec3, vec3
from sim2cam.objects.primitives import Cuboid, Cylinder, Sphere
from sim2cam.scene.articulation import Articulation

Floats = NDArray[np.float64]

_READERS: dict[str, Callable[[Path], Model]] = {
    ".urdf": read_urdf,
    ".sdf": read_sdf,
    ".mjcf": read_mjcf,
    ".xml": read_mjcf,
}
_BALL_RINGS = (24, 12)
_MAX_PIECES = 64  # of one collision mesh; more pieces mean a triangle soup


@dataclass(frozen=True, eq=False)
class Assembly:
    """Model with all joints at 0, in the frame of the first link.

    Attributes:
        raw: Visual mesh; part *n* is link *n*, from 1.
        parts: Vertices (n, 3) of convex collision parts in their link frames; empty for a single link
            with one connected mesh, which is decomposed later.
        links: Link number (from 1) of each part.
        articulation: Links and joints.
        mass_kg: Total mass; 0 if the file gives none.
        inertias: Pseudo-inertia matrices (m, 4, 4) of the links in their own frames, see
            ``geometry.inertia``; empty if the file gives no plausible ones.
        sources: Files that were read.
    """

    raw: RawMesh
    parts: tuple[Floats, ...]
    links: tuple[int, ...]
    articulation: Articulation
    mass_kg: float
    inertias: Floats
    sources: SourceFiles


def assemble_model(path: Path, max_faces: int, root: Path | None = None) -> Assembly:
    """Read a model file with its meshes.

    Raises:
        InputError: The file or one of its meshes is invalid, or there are more than ``max_faces`` faces.
    """
    model = _READERS[path.suffix.lower()](path)
    meshes = _MeshLoader(FileLocation(path, path.parent if root is None else root), max_faces)
    visuals = [meshes.load(link.visuals, colored=True) for link in model.links]
    pieces = [
        _split_pieces(meshes.load(link.collisions, colored=False) or solids, path)
        for link, solids in zip(model.links, visuals, strict=True)
    ]
    inertias = _compute_inertias(model.links, visuals, pieces, path)
    if len(pieces) == len(pieces[0]) == 1 and _has_mesh(model.links[0]):
        pieces = [[]]
    names = tuple(link.name for link in model.links)
    articulation = Articulation(names, model.joints, tuple(map(_compute_box, visuals)))
    with convert_errors(path):
        placed_solids = [
            solid.transform(matrix)
            for solids, matrix in zip(visuals, articulation.compute_link_matrices(), strict=True)
            for solid in solids
        ]
        link_numbers = np.repeat(range(1, len(visuals) + 1), list(map(len, visuals))).tolist()
        raw = join_solids(placed_solids, path, link_numbers)
    masses = [link.inertial.mass_kg for link in model.links if link.inertial.mass_kg is not None]
    if masses and not any(masses):
        warn(path, "has a mass of 0 kg. A mass is assumed instead.")
    parts = tuple(part for link_pieces in pieces for part in link_pieces)
    links = tuple(np.repeat(range(1, len(pieces) + 1), list(map(len, pieces))).tolist())
    return Assembly(raw, parts, links, articulation, sum(masses), inertias, meshes.get_sources())


class _MeshLoader:
    """Loader of a model's shapes as meshes; each file is read once."""

    def __init__(self, place: FileLocation, max_faces: int) -> None:
        self._place, self._path = place, place.path
        self._max_faces, self._n_faces = max_faces, 0
        self._read: dict[Path, list[Submesh]] = {}
        self._hashes: dict[str, str] = {self._path.name: hash_file(self._path)}
        self._missing: list[str] = []

    def load(self, shapes: tuple[Shape, ...], *, colored: bool) -> list[Submesh]:
        """Return shapes as meshes in the link frame, optionally without colours."""
        meshes = []
        for shape in shapes:
            for solid in self._build_solids(shape, colored=colored):
                with convert_errors(self._path):
                    placed = solid.transform(shape.pose.matrix())
                    meshes.append(
                        placed if shape.color is None else placed.with_default_color(shape.color)
                    )
                self._n_faces += len(solid.faces)
                if self._n_faces > 2 * self._max_faces:  # visual and collision meshes
                    problem = f"has more than {self._max_faces} faces. Simplify the meshes."
                    raise InputError(self._path, problem)
        return meshes

    def get_sources(self) -> SourceFiles:
        """Return the files that were read."""
        return SourceFiles(self._hashes, tuple(self._missing))

    def _build_solids(self, shape: Shape, *, colored: bool) -> list[Submesh]:
        solid = shape.solid
        if not isinstance(solid, MeshPart):
            return [_build_primitive(solid)]
        path = find_mesh(solid.name, self._place)
        if path is None:
            problem = f"mesh '{solid.name[:80]}' is missing."
            raise InputError(
                self._path, f"{problem} Copy it to the folder, or give a folder that contains both."
            )
        if path not in self._read:
            self._read[path] = self._open(path, colored=colored)
        scale = np.diag([*solid.scale, 1.0])
        return [mesh.transform(scale) for mesh in self._read[path]]

    def _open(self, path: Path, *, colored: bool) -> list[Submesh]:
        root = self._place.get_top(path)
        solids, sources = read_solids(path, self._max_faces, root, colored=colored)
        folder = Path(self._place.get_relative_path(path.parent))
        self._hashes |= {
            os.path.normpath(folder / name): digest for name, digest in sources.hashes.items()
        }
        self._missing += [(folder / name).as_posix() for name in sources.missing]
        return solids


def _build_primitive(solid: Cuboid | Cylinder | Sphere | Capsule) -> Submesh:
    from trimesh import creation

    match solid:
        case Cuboid():
            mesh = creation.box(solid.size_m)
        case Cylinder():
            mesh = creation.cylinder(solid.radius_m, solid.height_m)
        case Sphere():
            mesh = creation.uv_sphere(solid.radius_m, count=_BALL_RINGS)
        case Capsule():
            mesh = creation.capsule(solid.height_m, solid.radius_m, count=_BALL_RINGS)
    has_normals = "vertex_normals" in mesh._cache  # reading the attribute would compute normals
    normals = np.array(mesh.vertex_normals, np.float64) if has_normals else None
    return Submesh(np.array(mesh.vertices, np.float64), np.array(mesh.faces, np.int64), normals)


def _split_pieces(solids: list[Submesh], path: Path) -> list[Floats]:
    """Return the hull vertices (n, 3) of each connected piece of meshes."""
    from trimesh.graph import connected_component_labels

    parts = []
    with convert_errors(path):
        for solid in solids:
            if not np.isfinite(solid.vertices).all():
                raise InputError(path, "a vertex of a collision mesh is not finite.")
            welded = weld(np.asarray(solid.vertices), np.asarray(solid.faces))
            group = connected_component_labels(welded.face_adjacency, node_count=len(welded.faces))
            count = int(group.max()) + 1
            pieces = [welded.faces[group == n] for n in range(count if count <= _MAX_PIECES else 0)]
            hulls = [compute_hull(welded.vertices[np.unique(faces)]) for faces in pieces]
            solid_hulls = [hull.points for hull in hulls if hull.volume > 0]
            if len(solid_hulls) < count:  # open surfaces
                hull = compute_hull(welded.vertices)
                solid_hulls = [hull.points] if hull.volume > 0 else []
            parts += solid_hulls
    return parts


def _compute_inertias(
    links: Sequence[Link],
    visual_parts: Sequence[list[Submesh]],
    pieces: Sequence[list[Floats]],
    path: Path,
) -> Floats:
    """Return the pseudo-inertia matrix (m, 4, 4) of each link; empty (0, 4, 4) if the file gives none.

    An implausible inertia is replaced by that of uniform density. Links without a shape get no mass.
    """
    inertias, has_given, implausible = np.zeros((len(links), 4, 4)), False, []
    for number, (link, solids, parts) in enumerate(zip(links, visual_parts, pieces, strict=True)):
        vertices = [*(np.asarray(solid.vertices, np.float64) for solid in solids), *parts]
        if not vertices or not link.inertial.mass_kg:
            continue
        uniform = uniform_inertia(parts or vertices)
        inertias[number] = uniform * (link.inertial.mass_kg / uniform[3, 3])
        inertia = link.inertial.compute_inertia()
        if inertia is None:
            continue
        if is_plausible_inertia(inertia, np.vstack(vertices), uniform):
            inertias[number], has_given = inertia, True
        else:
            implausible.append(f"'{link.name}'")
    if implausible:
        names = ", ".join(implausible[:3]) + (
            f" and {len(implausible) - 3} more" if implausible[3:] else ""
        )
        warn(
            path,
            f"the inertia of {names} is implausible for the shape. Uniform density is assumed instead.",
        )
    is_even = not has_given and len(links) == 1
    return inertias[:0] if is_even or not inertias.any() else inertias


def _has_mesh(link: Link) -> bool:
    """Return whether the collision shape of a link is a single mesh."""
    shapes = link.collisions or link.visuals
    return len(shapes) == 1 and isinstance(shapes[0].solid, MeshPart)


def _compute_box(solids: list[Submesh]) -> tuple[Vec3, Vec3] | None:
    if not solids:
        return None
    vertices = np.vstack([solid.vertices for solid in solids])
    return vec3(vertices.min(axis=0)), vec3(vertices.max(axis=0))
