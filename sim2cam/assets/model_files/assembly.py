"""Assembly: a model's links as one mesh, whose parts they are, and as what they collide."""

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
from sim2cam.scene.articulation import Articulation
from sim2cam.scene.shape import Cuboid, Cylinder, Sphere

Floats = NDArray[np.float64]

_READERS: dict[str, Callable[[Path], Model]] = {
    ".urdf": read_urdf,
    ".sdf": read_sdf,
    ".mjcf": read_mjcf,
    ".xml": read_mjcf,
}
_BALL_RINGS = (24, 12)
_MAX_PIECES = 64  # of one collision mesh; what falls into more is no solid


@dataclass(frozen=True, eq=False)
class Assembly:
    """A model as it looks with all its joints at 0, in the frame of its first link.

    Attributes:
        raw: all that is seen of it; part *n* is link *n*, from 1.
        parts: corners (n, 3) of the convex solids as which it collides, in the frames of their links;
            none of one link as whose collision the file has nothing, or one mesh in one piece.
        links: number of the link of each of them, from 1.
        articulation: its links and joints.
        mass_kg: of all links; 0 when the file says none.
        inertias: (m, 4, 4) of each link's mass, as ``geometry.masses`` has them, in its own frame; none
            where the file does not say what could be.
        sources: all that it was read from.
    """

    raw: RawMesh
    parts: tuple[Floats, ...]
    links: tuple[int, ...]
    articulation: Articulation
    mass_kg: float
    inertias: Floats
    sources: SourceFiles


def assemble_model(path: Path, max_faces: int, root: Path | None = None) -> Assembly:
    """Return the model of a file, with the meshes that it names.

    Args:
        path: of the file.
        max_faces: of all its meshes.
        root: the folder that holds all that it may name; its own without.

    Raises:
        InputError: the file, or a mesh that it names, cannot be used, or it has more than
            ``max_faces`` faces.
    """
    model = _READERS[path.suffix.lower()](path)
    meshes = _MeshLoader(FileLocation(path, path.parent if root is None else root), max_faces)
    seen = [meshes.load(link.visuals, colored=True) for link in model.links]
    pieces = [
        _split_pieces(meshes.load(link.collisions, colored=False) or solids, path)
        for link, solids in zip(model.links, seen, strict=True)
    ]
    spreads = _compute_inertias(model.links, seen, pieces, path)
    if len(pieces) == len(pieces[0]) == 1 and _has_mesh(model.links[0]):
        pieces = [[]]
    names = tuple(link.name for link in model.links)
    articulation = Articulation(names, model.joints, tuple(map(_compute_box, seen)))
    with convert_errors(path):
        placed = [
            solid.transform(matrix)
            for solids, matrix in zip(seen, articulation.compute_link_matrices(), strict=True)
            for solid in solids
        ]
        parts_of = np.repeat(range(1, len(seen) + 1), list(map(len, seen))).tolist()
        raw = join_solids(placed, path, parts_of)
    masses = [link.inertial.mass_kg for link in model.links if link.inertial.mass_kg is not None]
    if masses and not any(masses):
        warn(path, "says that it weighs 0 kg. Its mass is assumed instead.")
    parts = tuple(part for found in pieces for part in found)
    links = tuple(np.repeat(range(1, len(pieces) + 1), list(map(len, pieces))).tolist())
    return Assembly(raw, parts, links, articulation, sum(masses), spreads, meshes.get_sources())


class _MeshLoader:
    """The shapes of one model as meshes; each file is read once."""

    def __init__(self, place: FileLocation, max_faces: int) -> None:
        self._place, self._path = place, place.path
        self._most, self._faces = max_faces, 0
        self._read: dict[Path, list[Submesh]] = {}
        self._hashes: dict[str, str] = {self._path.name: hash_file(self._path)}
        self._missing: list[str] = []

    def load(self, shapes: tuple[Shape, ...], *, colored: bool) -> list[Submesh]:
        """Return shapes, placed in the frame of their link; without their colours, if they need none."""
        found = []
        for shape in shapes:
            for solid in self._build_solids(shape, colored=colored):
                with convert_errors(self._path):
                    placed = solid.transform(shape.pose.matrix())
                    found.append(
                        placed if shape.color is None else placed.with_default_color(shape.color)
                    )
                self._faces += len(solid.faces)
                if self._faces > 2 * self._most:  # what is seen of it, and as what it collides
                    problem = f"has more than {self._most} faces. Simplify its meshes."
                    raise InputError(self._path, problem)
        return found

    def get_sources(self) -> SourceFiles:
        """Return all that was read."""
        return SourceFiles(self._hashes, tuple(self._missing))

    def _build_solids(self, shape: Shape, *, colored: bool) -> list[Submesh]:
        solid = shape.solid
        if not isinstance(solid, MeshPart):
            return [_check_solid(solid)]
        path = find_mesh(solid.name, self._place)
        if path is None:
            shown = f"the mesh '{solid.name[:80]}', which it names, is not in its folder."
            raise InputError(self._path, f"{shown} Put it there, or give a folder that holds both.")
        if path not in self._read:
            self._read[path] = self._open(path, colored=colored)
        scale = np.diag([*solid.scale, 1.0])
        return [one.transform(scale) for one in self._read[path]]

    def _open(self, path: Path, *, colored: bool) -> list[Submesh]:
        root = self._place.get_top(path)
        solids, sources = read_solids(path, self._most, root, colored=colored)
        beside = Path(self._place.get_relative_path(path.parent))
        self._hashes |= {os.path.normpath(beside / one): sha for one, sha in sources.hashes.items()}
        self._missing += [(beside / name).as_posix() for name in sources.missing]
        return solids


def _check_solid(solid: Cuboid | Cylinder | Sphere | Capsule) -> Submesh:
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
    """Return the corners (n, 3) of the hull of each piece of meshes, as simulators take them."""
    from trimesh.graph import connected_component_labels

    found = []
    with convert_errors(path):
        for solid in solids:
            if not np.isfinite(solid.vertices).all():
                raise InputError(path, "a vertex of what it collides as lies nowhere.")
            whole = weld(np.asarray(solid.vertices), np.asarray(solid.faces))
            group = connected_component_labels(whole.face_adjacency, node_count=len(whole.faces))
            count = int(group.max()) + 1
            pieces = [whole.faces[group == n] for n in range(count if count <= _MAX_PIECES else 0)]
            hulls = [compute_hull(whole.vertices[np.unique(faces)]) for faces in pieces]
            thick = [hull.points for hull in hulls if hull.volume > 0]
            if len(thick) < count:  # surfaces rather than solids
                hull = compute_hull(whole.vertices)
                thick = [hull.points] if hull.volume > 0 else []
            found += thick
    return found


def _compute_inertias(
    links: Sequence[Link],
    visual_parts: Sequence[list[Submesh]],
    pieces: Sequence[list[Floats]],
    path: Path,
) -> Floats:
    """Return how the mass of each link is spread (m, 4, 4); none (0, 4, 4) where the file does not say.

    Where it says what a link's shape could not be, its mass fills that evenly. Masses of links without
    a shape are left to the others.
    """
    found, told, doubts = np.zeros((len(links), 4, 4)), False, []
    for number, (link, solids, parts) in enumerate(zip(links, visual_parts, pieces, strict=True)):
        places = [*(np.asarray(solid.vertices, np.float64) for solid in solids), *parts]
        if not places or not link.inertial.mass_kg:
            continue
        even = uniform_inertia(parts or places)
        found[number] = even * (link.inertial.mass_kg / even[3, 3])
        spread = link.inertial.compute_inertia()
        if spread is None:
            continue
        if is_plausible_inertia(spread, np.vstack(places), even):
            found[number], told = spread, True
        else:
            doubts.append(f"'{link.name}'")
    if doubts:
        names = ", ".join(doubts[:3]) + (f" and {len(doubts) - 3} more" if doubts[3:] else "")
        warn(
            path,
            f"the inertia of {names} is none that such a shape can have. The mass is spread evenly over "
            "the shape instead.",
        )
    is_even = not told and len(links) == 1
    return found[:0] if is_even or not found.any() else found


def _has_mesh(link: Link) -> bool:
    """Return whether a mesh is all that a link collides as, so that it is taken apart as meshes are."""
    shapes = link.collisions or link.visuals
    return len(shapes) == 1 and isinstance(shapes[0].solid, MeshPart)


def _compute_box(solids: list[Submesh]) -> tuple[Vec3, Vec3] | None:
    if not solids:
        return None
    vertices = np.vstack([solid.vertices for solid in solids])
    return vec3(vertices.min(axis=0)), vec3(vertices.max(axis=0))
