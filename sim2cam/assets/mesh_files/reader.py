"""Entry points for reading mesh files, with checks and source hashes."""

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
"""Suffixes of articulated models, which refer to meshes."""
SUFFIXES = (*MESH_SUFFIXES, *MODEL_SUFFIXES)
"""Suffixes of all supported files."""

_READER_ERRORS = (
    ValueError, LookupError, TypeError, AttributeError, AssertionError, EOFError, OSError,
    RuntimeError, ArithmeticError, ImportError,
)  # fmt: skip
"""Exceptions that damaged files cause in readers."""
_MAX_COORDINATE = 1e15
_MIN_EXTENT = 1e-6  # minimum length of a valid normal


@dataclass(frozen=True)
class SourceFiles:
    """Files from which a mesh was read.

    Attributes:
        hashes: SHA-256 of each file by its path relative to the mesh's folder; the mesh comes first.
        missing: Names of missing files.
    """

    hashes: Mapping[str, str]
    missing: tuple[str, ...]

    def compute_digest(self) -> str:
        """Return the SHA-256 over all files and the name of the decomposition library."""
        entries = [get_decomposer(), *self.hashes.items()]
        return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_raw_mesh(
    path: Path, max_faces: int, root: Path | None = None
) -> tuple[RawMesh, SourceFiles]:
    """Read a mesh file as one mesh, with its sources.

    Args:
        path: Mesh file.
        max_faces: Maximum number of triangles.
        root: Folder that contains all companion files; default: the folder of the file.

    Raises:
        InputError: The file is missing, damaged, too large or not supported, or has no faces or more
            than ``max_faces``.
    """
    solids, sources = read_solids(path, max_faces, root)
    with convert_errors(path):
        return join_solids(solids, path), sources


def read_solids(
    path: Path, max_faces: int, root: Path | None = None, *, colored: bool = True
) -> tuple[list[Submesh], SourceFiles]:
    """Read the submeshes of a mesh file, with its sources; raises like ``read_raw_mesh``."""
    check_file(path)
    with convert_errors(path):
        files = CompanionFiles(FileLocation(path, path.parent if root is None else root))
        solids = _read_solids(files, max_faces, colored=colored)
        _check_count(sum(len(solid.faces) for solid in solids), max_faces, path)
        solids = [_normalize_solid(solid, path) for solid in solids]
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
    """Raise InputError if a file is missing, not supported or too large.

    Raises:
        InputError: The file cannot be used.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(path, f"is not in a supported format ({', '.join(SUFFIXES)}).")
    if not path.is_file():
        raise InputError(path, "no such file. Check the path.")
    if path.stat().st_size > MAX_BYTES:
        raise InputError(path, f"is larger than {MAX_BYTES >> 20} MiB. Simplify the mesh.")


@contextmanager
def convert_errors(path: Path) -> Iterator[None]:
    """Convert exceptions caused by damaged files to InputError."""
    try:
        with np.errstate(all="ignore"):  # files may hold any numbers
            yield
    except _READER_ERRORS as error:
        kind = path.suffix[1:].upper()
        raise InputError(path, f"is not a valid {kind} file. Export it again.") from error


def _check_count(count: int, max_count: int, path: Path) -> None:
    if not count:
        raise InputError(path, "has no faces.")
    if count > max_count:
        raise InputError(
            path,
            f"has {count} faces, more than {max_count}. Simplify the mesh.",
        )


def _normalize_solid(solid: Submesh, path: Path) -> Submesh:
    """Normalize the normals; drop them if any is invalid.

    Raises:
        InputError: A vertex is not finite or exceeds the coordinate limit.
    """
    is_valid = (np.abs(solid.vertices) < _MAX_COORDINATE).all(axis=1)
    for row in np.flatnonzero(~is_valid)[:1]:
        coordinates = ", ".join(f"{c:g}" for c in solid.vertices[row])
        raise InputError(path, f"a vertex is not finite or too far away: ({coordinates}).")
    if solid.normals is None:
        return solid
    length = np.linalg.norm(solid.normals, axis=1, keepdims=True)
    has_valid_normals = (np.isfinite(length) & (length > _MIN_EXTENT)).all()
    return replace(solid, normals=solid.normals / length if has_valid_normals else None)
