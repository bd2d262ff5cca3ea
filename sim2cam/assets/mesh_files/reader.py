"""Mesh files, opened: which kinds can be read, from what, and what is refused before it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from sim2cam.assets.decomposition import get_decomposer
from sim2cam.assets.mesh_files.atlas import join_solids
from sim2cam.assets.mesh_files.collada import read_collada
from sim2cam.assets.mesh_files.companions import MAX_BYTES, CompanionFiles, FileLocation
from sim2cam.assets.mesh_files.gltf import read_gltf
from sim2cam.assets.mesh_files.obj import read_obj
from sim2cam.assets.mesh_files.ply import read_ply
from sim2cam.assets.mesh_files.raw_mesh import RawMesh
from sim2cam.assets.mesh_files.stl import read_stl
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.errors import InputError

MESH_SUFFIXES = (".obj", ".ply", ".stl", ".glb", ".gltf", ".dae")
MODEL_SUFFIXES = (".urdf", ".sdf", ".mjcf", ".xml")
"""Files of links and joints, which name meshes."""
SUFFIXES = (*MESH_SUFFIXES, *MODEL_SUFFIXES)
"""All files of shapes that can be read."""

_BROKEN = (
    ValueError, LookupError, TypeError, AttributeError, AssertionError, EOFError, OSError,
    RuntimeError, ArithmeticError, ImportError,
)  # fmt: skip
"""What damaged files raise where a reader does not foresee their flaw."""
_MAX_COORDINATE = 1e15
_MIN_EXTENT = 1e-6  # of normals that have a direction


@dataclass(frozen=True)
class SourceFiles:
    """What a mesh was read from.

    Attributes:
        hashes: SHA-256 of each file, by its path from the folder of the first, which is the mesh.
        missing: names of files that were not there.
    """

    hashes: Mapping[str, str]
    missing: tuple[str, ...]

    def compute_digest(self) -> str:
        """Return a SHA-256 over all of them, and over what takes concave solids apart here."""
        facts = [get_decomposer(), *self.hashes.items()]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_raw_mesh(
    path: Path, max_faces: int, root: Path | None = None
) -> tuple[RawMesh, SourceFiles]:
    """Return all that a mesh file draws as one mesh, and what it was read from.

    Args:
        path: of the file.
        max_faces: with more triangles it is refused.
        root: the folder that holds all that it may name; its own without.

    Raises:
        InputError: the file is missing, damaged, too large, of another kind, or has no faces or more
            than ``max_faces``.
    """
    solids, sources = read_solids(path, max_faces, root)
    with convert_errors(path):
        return join_solids(solids, path), sources


def read_solids(
    path: Path, max_faces: int, root: Path | None = None, *, colored: bool = True
) -> tuple[list[Submesh], SourceFiles]:
    """Return all meshes that a mesh file draws, and what they were read from.

    Args:
        path: of the file.
        max_faces: with more triangles it is refused.
        root: the folder that holds all that it may name; its own without.
        colored: whether its colours are read, and the files that hold them.

    Raises:
        InputError: as ``read_raw_mesh``.
    """
    check_file(path)
    with convert_errors(path):
        files = CompanionFiles(FileLocation(path, path.parent if root is None else root))
        solids = _read_solids(files, max_faces, colored=colored)
        _check_count(sum(len(solid.faces) for solid in solids), max_faces, path)
        solids = [_check_solid(solid, path) for solid in solids]
    return solids, SourceFiles(files.hashes, tuple(files.missing))


def _read_solids(files: CompanionFiles, max_faces: int, *, colored: bool) -> list[Submesh]:
    match files.path.suffix.lower():
        case ".obj":
            return read_obj(files, colored=colored)
        case ".ply":
            return read_ply(files, colored=colored)
        case ".stl":
            return read_stl(files)
        case ".dae":
            return read_collada(files, colored=colored)
        case _:
            return read_gltf(files, max_faces, colored=colored)


def check_file(path: Path) -> None:
    """Refuse a file that is not there, of another kind, or too large to be opened.

    Raises:
        InputError: saying which.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(path, f"no mesh of a kind that can be read ({', '.join(SUFFIXES)}).")
    if not path.is_file():
        raise InputError(path, "no such file. Check the path.")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(path, f"larger than {MAX_BYTES >> 20} MiB. Simplify it.")


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Turn what damaged files raise into an InputError that names the file."""
    try:
        with np.errstate(all="ignore"):  # files may hold any numbers
            yield
    except _BROKEN as error:
        kind = path.suffix[1:].upper()
        problem = f"no {kind} that can be read: it is damaged, or not formed as {kind} files are."
        raise InputError(path, f"{problem} Export it again.") from error


def _check_count(count: int, max_count: int, path: Path) -> None:
    if not count:
        raise InputError(path, "has no faces.")
    if count > max_count:
        raise InputError(
            path, f"has {count} faces, more than {max_count}. Simplify it, or raise max_faces."
        )


def _check_solid(solid: Submesh, path: Path) -> Submesh:
    """Return a mesh with normals of length 1; without them if any has no direction.

    Raises:
        InputError: a vertex lies nowhere, or too far away to be reckoned with.
    """
    near = (np.abs(solid.vertices) < _MAX_COORDINATE).all(axis=1)
    for row in np.flatnonzero(~near)[:1]:
        place = ", ".join(f"{c:g}" for c in solid.vertices[row])
        raise InputError(path, f"a vertex lies at ({place}).")
    if solid.normals is None:
        return solid
    length = np.linalg.norm(solid.normals, axis=1, keepdims=True)
    is_sound = (np.isfinite(length) & (length > _MIN_EXTENT)).all()
    return replace(solid, normals=solid.normals / length if is_sound else None)
