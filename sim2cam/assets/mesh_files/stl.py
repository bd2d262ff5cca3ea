"""Reader of binary and text STL files."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from sim2cam.assets.mesh_files.companions import CompanionFiles
from sim2cam.assets.mesh_files.submesh import Submesh
from sim2cam.errors import InputError

_HEADER = 84
_RECORD = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
_VERTEX = re.compile(rb"^[ \t]*vertex[ \t]+([^\r\n]*)", re.IGNORECASE | re.MULTILINE)


def read_stl(files: CompanionFiles) -> list[Submesh]:
    """Read the mesh of an STL file; triangles do not share vertices.

    Raises:
        InputError: The file is truncated, or a line is invalid.
    """
    data = files.data
    count = int.from_bytes(data[80:_HEADER], "little")
    is_binary = len(data) == _HEADER + _RECORD.itemsize * count
    if not is_binary and data[:512].lstrip()[:5].lower() == b"solid" and b"\0" not in data[:512]:
        corners = _read_text(files)
    elif len(data) < _HEADER:
        raise InputError(files.path, "not STL: the file is shorter than the header.")
    elif len(data) < _HEADER + _RECORD.itemsize * count:
        available = (len(data) - _HEADER) // _RECORD.itemsize
        problem = (
            f"the file is truncated: it has {available} of {count} triangles. Export it again."
        )
        raise InputError(files.path, problem)
    else:
        corners = np.frombuffer(data, _RECORD, count, _HEADER)["corners"].astype(np.float64)
    if not len(corners):
        return []
    return [Submesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))]


def _read_text(files: CompanionFiles) -> NDArray[np.float64]:
    """Return the triangles (n, 3, 3) of a text STL file in any encoding."""
    lines = _VERTEX.findall(files.data.replace(b"\r", b"\n"))
    try:
        vertices = [tuple(map(float, line.split()[:3])) for line in lines]
    except ValueError:
        vertices = [()]
    if any(len(vertex) != 3 for vertex in vertices):
        raise _make_vertex_error(files)
    if len(vertices) % 3:
        problem = f"the file is truncated: {len(vertices)} vertices are not a multiple of three."
        raise InputError(files.path, f"{problem} Export it again.")
    return np.array(vertices, np.float64).reshape(-1, 3, 3)


def _make_vertex_error(files: CompanionFiles) -> InputError:
    """Return the error for the first invalid vertex line."""
    for number, line in enumerate(files.data.replace(b"\r\n", b"\n").splitlines(), 1):
        match = _VERTEX.match(line)
        words = match[1].split()[:3] if match else [b"0"] * 3
        try:
            if len([float(word) for word in words]) == 3:
                continue
        except ValueError:
            pass
        shown = line.strip()[:60].decode("latin-1")
        return InputError(
            files.path, f"line {number}: a vertex must have 3 numbers (found '{shown}')."
        )
    return InputError(files.path, "a vertex must have 3 numbers.")
