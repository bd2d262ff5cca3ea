"""STL: the triangles of its binary and of its text form."""

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
    """Return the mesh of an STL file; each triangle has corners of its own.

    Raises:
        InputError: it ends early, or a line holds no numbers.
    """
    data = files.data
    count = int.from_bytes(data[80:_HEADER], "little")
    is_whole = len(data) == _HEADER + _RECORD.itemsize * count
    if not is_whole and data[:512].lstrip()[:5].lower() == b"solid" and b"\0" not in data[:512]:
        corners = _read_text(files)
    elif len(data) < _HEADER:
        raise InputError(files.path, "no STL: it is shorter than the header of one.")
    elif len(data) < _HEADER + _RECORD.itemsize * count:
        there = (len(data) - _HEADER) // _RECORD.itemsize
        problem = f"it ends early: it says {count} triangles and holds {there}. Export it again."
        raise InputError(files.path, problem)
    else:
        corners = np.frombuffer(data, _RECORD, count, _HEADER)["corners"].astype(np.float64)
    if not len(corners):
        return []
    return [Submesh(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))]


def _read_text(files: CompanionFiles) -> NDArray[np.float64]:
    """Return the corners (n, 3, 3) of an STL file of text, whatever encoding its names are in."""
    lines = _VERTEX.findall(files.data.replace(b"\r", b"\n"))
    try:
        places = [tuple(map(float, line.split()[:3])) for line in lines]
    except ValueError:
        places = [()]
    if any(len(place) != 3 for place in places):
        raise _bad_line(files)
    if len(places) % 3:
        problem = f"it ends early: its {len(places)} vertices are no whole triangles."
        raise InputError(files.path, f"{problem} Export it again.")
    return np.array(places, np.float64).reshape(-1, 3, 3)


def _bad_line(files: CompanionFiles) -> InputError:
    """Return the error for the first vertex without three numbers."""
    for number, line in enumerate(files.data.replace(b"\r\n", b"\n").splitlines(), 1):
        found = _VERTEX.match(line)
        words = found[1].split()[:3] if found else [b"0"] * 3
        try:
            if len([float(word) for word in words]) == 3:
                continue
        except ValueError:
            pass
        shown = line.strip()[:60].decode("latin-1")
        return InputError(files.path, f"line {number}: a vertex takes 3 numbers (found '{shown}').")
    return InputError(files.path, "a vertex does not hold 3 numbers.")
