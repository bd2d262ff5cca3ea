"""Wavefront OBJ: faces, colours and images of its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh_files.companions import CompanionFiles, FileLocation, decode_image
from sim2cam.assets.mesh_files.obj_materials import ObjMaterials, read_libraries
from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.assets.mesh_files.triangulation import triangulate
from sim2cam.errors import InputError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MAX_INDEX = 2**31
_KINDS = ("vertex", "texture coordinate", "normal")
_LIBRARIES = re.compile(r"(?<=\.mtl)\s+", re.IGNORECASE)  # between names that may hold spaces


def read_obj(files: CompanionFiles, *, colored: bool) -> list[Submesh]:
    """Return the meshes of an OBJ file, one for each material.

    Args:
        files: the file and its companions.
        colored: whether the MTL files that it names are read.

    Raises:
        InputError: the text breaks the format; names the line.
    """
    text = _ObjText(files.location)
    text.parse(decode_image(files.data))
    corners = text.check_corners()
    if not text.counts:
        return []
    flat, counts = np.array(text.faces, np.int64), np.array(text.counts, np.int64)
    positions = _to_array(text.numbers["v"], 3, 0.0)
    places = positions[corners[flat, 0]]
    triangles, polygon = triangulate(places, counts)
    group = np.array(text.groups, np.int64)[polygon]
    whole = _build_solid(text, positions, corners, flat[triangles])
    used = set(text.groups)
    names = [name for name, number in text.names.items() if number in used]
    materials = read_libraries(text.libraries, names, files) if colored else {}
    skins = ObjMaterials(files)
    solids = []
    for name, number in text.names.items():
        faces = whole.faces[group == number]
        is_bare = _has_missing_vertices(whole, faces)
        for some in (faces[~is_bare], faces[is_bare]):
            if len(some):
                solids.append(skins.apply(_select_part(whole, some), materials.get(name)))
    skins.report_unused()
    return solids


def _has_missing_vertices(whole: Submesh, faces: Indices) -> NDArray[np.bool_]:
    """Return which faces (n, 3) have corners without texture coordinates."""
    if whole.uvs is None:
        return np.zeros(len(faces), bool)
    return np.asarray(np.isnan(whole.uvs[faces]).any(axis=(1, 2)))


def _select_part(whole: Submesh, faces: Indices) -> Submesh:
    """Return some faces of a mesh; without normals or texture coordinates that not all corners have."""
    part = replace(whole, faces=faces).drop_unused_vertices()
    if part.normals is not None and np.isnan(part.normals).any():
        part = replace(part, normals=None)
    if part.uvs is not None and np.isnan(part.uvs).any():
        part = replace(part, uvs=None)
    return part


def _build_solid(text: _ObjText, positions: Floats, corners: Indices, faces: Indices) -> Submesh:
    """Return all faces as one mesh with a vertex for each corner; NaN where corners lack a value."""
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
    """Return rows by their numbers, NaN where that is -1; None where all are."""
    if not (index >= 0).any():
        return None
    return np.where(index[:, None] >= 0, rows[index], np.nan)


def _read_colors(rows: Sequence[Sequence[float]]) -> NDArray[np.uint8] | None:
    """Return the colours (n, 3) of vertices, of which OBJ files have 0 to 1 or 0 to 255."""
    if not any(len(row) >= 6 for row in rows):
        return None
    nothing = (np.nan,) * 3
    shares = np.array([row[3:6] if len(row) >= 6 else nothing for row in rows], np.float64)
    most = 255.0 if np.nanmax(shares) > 1 else 1.0
    return np.round(np.nan_to_num(shares / most, nan=0.8).clip(0, 1) * 255).astype(np.uint8)


class _ObjText:
    """What the lines of an OBJ file hold.

    Attributes:
        numbers: rows of numbers by the statement that gives them: v, vt, vn.
        faces: number of the corner, face after face.
        counts: corners of each face.
        groups: number of the material of each face.
        names: number of each material by its name.
        libraries: names of MTL files.
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
        self._tokens: dict[str, int] = {}  # corners by the words that are none of relative numbers

    def parse(self, text: str) -> None:
        """Read all lines."""
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
            warn(self._path, f"{self._short} of its faces have fewer than three corners. They are left out.")  # fmt: skip

    def check_corners(self) -> Indices:
        """Return the numbers (n, 3) of vertex, texture coordinate and normal of each corner; -1: none.

        Raises:
            InputError: one of them is not there, or a vertex lies nowhere.
        """
        corners = np.array([*self._corners], np.int64).reshape(-1, 3)
        counts = [len(rows) for rows in self.numbers.values()]
        for wrong in np.argwhere(corners >= counts)[:1]:
            row, kind = wrong.tolist()
            problem = f"a face names {_KINDS[kind]} {corners[row, kind] + 1} of {counts[kind]}."
            raise self._error(problem, self._corner_lines[row])
        vertices = _to_array(self.numbers["v"], 3, 0.0)[corners[:, 0]]
        for row in np.flatnonzero(~np.isfinite(vertices).all(axis=1))[:1]:
            place = ", ".join(f"{c:g}" for c in vertices[row])
            raise self._error(f"a vertex lies at ({place}).", self._vertex_lines[corners[row, 0]])
        return corners

    def _error(self, problem: str, line: int | None = None) -> InputError:
        return InputError(self._path, f"line {line or self._line}: {problem}")

    def _parse_row(self, key: str, rest: str) -> None:
        words = rest.partition("#")[0].split()
        least = {"v": 3, "vt": 1, "vn": 3}[key]
        try:
            row = tuple(map(float, words[:7]))
        except ValueError:
            row = ()
        if len(row) < least:
            shown = " ".join(words)[:60]
            raise self._error(f"'{key}' takes {least} numbers or more (found '{shown}').")
        self.numbers[key].append(row)
        if key == "v":
            self._vertex_lines.append(self._line)

    def _parse_face(self, rest: str) -> None:
        words = rest.partition("#")[0].split()
        known = self._tokens
        corners = [known[word] if word in known else self._parse_corner(word) for word in words]
        if len(corners) < 3:
            self._short += 1
            return
        self.faces += corners
        self.counts.append(len(corners))
        self.groups.append(self._group)

    def _parse_corner(self, word: str) -> int:
        """Return the number of a corner that is written for the first time."""
        parts = word.split("/")
        try:
            told = [int(part) if part else None for part in parts]
        except ValueError:
            told = []
        if not 1 <= len(told) <= 3 or told[0] is None:
            raise self._error(f"a face takes corners as 1, 1/1, 1//1 or 1/1/1 (found '{word[:40]}').")  # fmt: skip
        told += [None] * (3 - len(told))
        found = [
            self._resolve_index(kind, index, len(rows))
            for kind, index, rows in zip(_KINDS, told, self.numbers.values(), strict=True)
        ]
        number = self._corners.setdefault((found[0], found[1], found[2]), len(self._corners))
        if number == len(self._corner_lines):
            self._corner_lines.append(self._line)
        if "-" not in word:
            self._tokens[word] = number
        return number

    def _resolve_index(self, kind: str, index: int | None, count: int) -> int:
        """Return an index from 0; -1 of none. Negative ones count back from the last line before."""
        if index is None:
            return -1
        if index == 0 or index > _MAX_INDEX or index < -count:
            raise self._error(f"a face names {kind} {index}; there are {count} before it.")
        return index - 1 if index > 0 else count + index

    def _parse_usemtl(self, rest: str) -> None:
        self._group = self.names.setdefault(rest.strip(), len(self.names))

    def _parse_mtllib(self, rest: str) -> None:
        name = rest.strip()
        is_one = not name or self._place.find_companion(name) is not None
        self.libraries += [name] if is_one else [one.strip() for one in _LIBRARIES.split(name)]


def _join_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the words of each line; lines that end in a backslash go on in the next."""
    before = ""
    for number, line in enumerate(text.split("\n"), 1):
        whole = before + line
        if whole.endswith("\\") and not whole.lstrip().startswith(("#", "usemtl", "mtllib")):
            before = whole[:-1] + " "
            continue
        before = ""
        if whole and not whole.isspace():
            yield number, whole.replace("\t", " ").strip()
