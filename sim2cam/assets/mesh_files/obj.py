"""Reader of Wavefront OBJ files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh_files.companions import CompanionFiles, FileLocation, decode_text
from sim2cam.assets.mesh_files.obj_materials import ObjMaterials, read_libraries
from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.assets.mesh_files.triangulation import triangulate
from sim2cam.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MAX_INDEX = 2**31
_KINDS = ("vertex", "texture coordinate", "normal")
_LIBRARIES = re.compile(r"(?<=\.mtl)\s+", re.IGNORECASE)  # separates names that may contain spaces


def read_obj(files: CompanionFiles, *, colored: bool) -> list[Submesh]:
    """Read the meshes of an OBJ file, one for each material.

    Raises:
        InputError: The file is invalid.
    """
    text = _ObjText(files.location)
    text.parse(decode_text(files.data))
    corners = text.check_corners()
    if not text.counts:
        return []
    corner_indices, counts = np.array(text.faces, np.int64), np.array(text.counts, np.int64)
    positions = _to_array(text.numbers["v"], 3, 0.0)
    points = positions[corners[corner_indices, 0]]
    triangles, polygon = triangulate(points, counts)
    group = np.array(text.groups, np.int64)[polygon]
    mesh = _build_solid(text, positions, corners, corner_indices[triangles])
    used_groups = set(text.groups)
    names = [name for name, number in text.names.items() if number in used_groups]
    materials = read_libraries(text.libraries, names, files) if colored else {}
    obj_materials = ObjMaterials(files)
    solids = []
    for name, number in text.names.items():
        faces = mesh.faces[group == number]
        lacks_uvs = _find_faces_without_uvs(mesh, faces)
        for group_faces in (faces[~lacks_uvs], faces[lacks_uvs]):
            if len(group_faces):
                solids.append(
                    obj_materials.apply(_select_part(mesh, group_faces), materials.get(name))
                )
    obj_materials.report_unused()
    return solids


def _find_faces_without_uvs(mesh: Submesh, faces: Indices) -> NDArray[np.bool_]:
    """Return the mask (n,) of faces (n, 3) with corners without texture coordinates."""
    if mesh.uvs is None:
        return np.zeros(len(faces), bool)
    return np.asarray(np.isnan(mesh.uvs[faces]).any(axis=(1, 2)))


def _select_part(mesh: Submesh, faces: Indices) -> Submesh:
    """Select faces of a mesh; drop normals or texture coordinates that are incomplete."""
    part = replace(mesh, faces=faces).drop_unused_vertices()
    if part.normals is not None and np.isnan(part.normals).any():
        part = replace(part, normals=None)
    if part.uvs is not None and np.isnan(part.uvs).any():
        part = replace(part, uvs=None)
    return part


def _build_solid(text: _ObjText, positions: Floats, corners: Indices, faces: Indices) -> Submesh:
    """Build one mesh with a vertex for each distinct corner; missing values are NaN."""
    normals = _select_rows(_to_array(text.numbers["vn"], 3, np.nan), corners[:, 2])
    uvs = _select_rows(_to_array(text.numbers["vt"], 2, 0.0), corners[:, 1])
    paint = _read_colors(text.numbers["v"])
    return Submesh(
        positions[corners[:, 0]],
        faces,
        normals,
        uvs,
        vertex_colors=None if paint is None else paint[corners[:, 0]],
    )


def _to_array(rows: Sequence[Sequence[float]], count: int, filler: float) -> Floats:
    padded = [(*row[:count], *[filler] * (count - len(row))) for row in rows]
    return np.array(padded, np.float64).reshape(-1, count)


def _select_rows(rows: Floats, index: Indices) -> Floats | None:
    """Select rows by index, NaN for -1; return None if all are -1."""
    if not (index >= 0).any():
        return None
    return np.where(index[:, None] >= 0, rows[index], np.nan)


def _read_colors(rows: Sequence[Sequence[float]]) -> NDArray[np.uint8] | None:
    """Return vertex colours (n, 3) from values in 0 to 1 or 0 to 255; None without."""
    if not any(len(row) >= 6 for row in rows):
        return None
    missing = (np.nan,) * 3
    channels = np.array([row[3:6] if len(row) >= 6 else missing for row in rows], np.float64)
    max_value = 255.0 if np.nanmax(channels) > 1 else 1.0
    return np.round(np.nan_to_num(channels / max_value, nan=0.8).clip(0, 1) * 255).astype(np.uint8)


class _ObjText:
    """Parsed statements of an OBJ file.

    Attributes:
        numbers: Rows of numbers by statement (v, vt, vn).
        faces: Corner indices of all faces, concatenated.
        counts: Number of corners of each face.
        groups: Material index of each face.
        names: Material index by name.
        libraries: Names of MTL files.
    """

    def __init__(self, place: FileLocation) -> None:
        self._path, self._place = place.path, place
        self.numbers: dict[str, list[tuple[float, ...]]] = {"v": [], "vt": [], "vn": []}
        self.faces: list[int] = []
        self.counts: list[int] = []
        self.groups: list[int] = []
        self.names = {"": 0}
        self.libraries: list[str] = []
        self._vertex_lines: list[int] = []
        self._line, self._group, self._short = 0, 0, 0
        self._corners: dict[tuple[int, int, int], int] = {}
        self._corner_lines: list[int] = []
        self._tokens: dict[str, int] = {}  # corner by word, absolute indices only

    def parse(self, text: str) -> None:
        """Parse all lines."""
        statements: dict[str, Callable[[str], None]] = {
            "f": self._parse_face, "fo": self._parse_face, "usemtl": self._parse_usemtl, "mtllib": self._parse_mtllib,
        }  # fmt: skip
        for self._line, line in _join_lines(text):
            key, _, rest = line.partition(" ")
            if key in self.numbers:
                self._parse_row(key, rest)
            elif key in statements:
                statements[key](rest)
        if self._short:
            warn(self._path, f"{self._short} faces with fewer than three corners are ignored.")  # fmt: skip

    def check_corners(self) -> Indices:
        """Return the vertex, texture coordinate and normal index (n, 3) of each corner; -1 without.

        Raises:
            InputError: An index is out of range, or a vertex is not finite.
        """
        corners = np.array([*self._corners], np.int64).reshape(-1, 3)
        counts = [len(rows) for rows in self.numbers.values()]
        for invalid in np.argwhere(corners >= counts)[:1]:
            row, kind = invalid.tolist()
            problem = f"a face refers to {_KINDS[kind]} {corners[row, kind] + 1} of {counts[kind]}."
            raise self._error(problem, self._corner_lines[row])
        vertices = _to_array(self.numbers["v"], 3, 0.0)[corners[:, 0]]
        for row in np.flatnonzero(~np.isfinite(vertices).all(axis=1))[:1]:
            coordinates = ", ".join(f"{c:g}" for c in vertices[row])
            raise self._error(
                f"a vertex is not finite: ({coordinates}).", self._vertex_lines[corners[row, 0]]
            )
        return corners

    def _error(self, problem: str, line: int | None = None) -> InputError:
        return InputError(self._path, f"line {line or self._line}: {problem}")

    def _parse_row(self, key: str, rest: str) -> None:
        words = rest.partition("#")[0].split()
        min_count = {"v": 3, "vt": 1, "vn": 3}[key]
        try:
            row = tuple(map(float, words[:7]))
        except ValueError:
            row = ()
        if len(row) < min_count:
            shown = " ".join(words)[:60]
            raise self._error(f"'{key}' needs at least {min_count} numbers (found '{shown}').")
        self.numbers[key].append(row)
        if key == "v":
            self._vertex_lines.append(self._line)

    def _parse_face(self, rest: str) -> None:
        words = rest.partition("#")[0].split()
        tokens = self._tokens
        corners = [tokens[word] if word in tokens else self._parse_corner(word) for word in words]
        if len(corners) < 3:
            self._short += 1
            return
        self.faces += corners
        self.counts.append(len(corners))
        self.groups.append(self._group)

    def _parse_corner(self, word: str) -> int:
        """Parse a corner that is not cached, and return its index."""
        parts = word.split("/")
        try:
            indices = [int(part) if part else None for part in parts]
        except ValueError:
            indices = []
        if not 1 <= len(indices) <= 3 or indices[0] is None:
            raise self._error(f"a corner must have the form 1, 1/1, 1//1 or 1/1/1 (found '{word[:40]}').")  # fmt: skip
        indices += [None] * (3 - len(indices))
        resolved = [
            self._resolve_index(kind, index, len(rows))
            for kind, index, rows in zip(_KINDS, indices, self.numbers.values(), strict=True)
        ]
        number = self._corners.setdefault(
            (resolved[0], resolved[1], resolved[2]), len(self._corners)
        )
        if number == len(self._corner_lines):
            self._corner_lines.append(self._line)
        if "-" not in word:
            self._tokens[word] = number
        return number

    def _resolve_index(self, kind: str, index: int | None, count: int) -> int:
        """Return a zero-based index; -1 if missing. Negative indices count back from the current line."""
        if index is None:
            return -1
        if index == 0 or index > _MAX_INDEX or index < -count:
            raise self._error(f"a face refers to {kind} {index}; {count} are defined before it.")
        return index - 1 if index > 0 else count + index

    def _parse_usemtl(self, rest: str) -> None:
        self._group = self.names.setdefault(rest.strip(), len(self.names))

    def _parse_mtllib(self, rest: str) -> None:
        name = rest.strip()
        is_one = not name or self._place.find_companion(name) is not None
        self.libraries += [name] if is_one else [n.strip() for n in _LIBRARIES.split(name)]


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each non-empty line; join lines that end in a backslash."""
    prefix = ""
    for number, line in enumerate(text.split("\n"), 1):
        joined = prefix + line
        if joined.endswith("\\") and not joined.lstrip().startswith(("#", "usemtl", "mtllib")):
            prefix = joined[:-1] + " "
            continue
        prefix = ""
        if joined and not joined.isspace():
            yield number, joined.replace("\t", " ").strip()
