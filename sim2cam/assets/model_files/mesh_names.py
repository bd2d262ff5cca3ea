"""Where the mesh files lie that models name: beside them, and in packages of ROS."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from sim2cam.assets.mesh_files.companions import FileLocation, find_within

PACKAGES_VARIABLE = "ROS_PACKAGE_PATH"
"""Environment variable with the folders of ROS packages, which may lie anywhere."""

_PACKAGE_NAME = re.compile(rb"<name>\s*([^<\s]+)\s*</name>")
_MAX_BYTES = 2**20


def find_mesh(name: str, place: FileLocation) -> Path | None:
    """Return the mesh file that a model names; None if it is in no folder that may be read.

    Names are paths from the model's folder, ``file://`` with a whole path, or ``package://NAME/PLACE``
    and ``model://NAME/PLACE``: PLACE in the folder or ROS package NAME, which lies beside or above the
    model, or in a folder of ``ROS_PACKAGE_PATH``.
    """
    scheme, separator, rest = name.partition("://")
    if not separator:
        return place.find(name)
    if scheme == "file":
        return place.find(unquote(rest))
    if scheme not in ("package", "model"):
        return None
    spots = ((folder, inner) for folder, inner in _list_candidates(rest, place))
    found = (place.find_in(folder, inner) for folder, inner in spots)
    return next((one for one in found if one), None) or _find_in_packages(rest)


def _list_candidates(rest: str, place: FileLocation) -> Iterator[tuple[Path, str]]:
    """Yield folders, and where in them NAME/PLACE may lie; the nearest first."""
    package, _, inner = rest.partition("/")
    home = place.path.parent
    yield home, rest
    for folder in (home, *home.parents):
        if not folder.is_relative_to(place.root):
            break
        yield folder, rest
        if folder.name == package or _read_package_name(folder) == package:
            yield folder, inner
    yield home, inner


def _find_in_packages(rest: str) -> Path | None:
    package, _, inner = rest.partition("/")
    for word in filter(None, os.environ.get(PACKAGES_VARIABLE, "").split(os.pathsep)):
        folder = Path(os.path.realpath(word))
        places = [rest, inner] if folder.name == package else [rest]
        for spot in places:
            if found := find_within(folder, spot, (folder,)):
                return found
    return None


def _read_package_name(folder: Path) -> str:
    """Return the name that a folder's package.xml gives; empty without."""
    path = folder / "package.xml"
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        found = _PACKAGE_NAME.search(path.read_bytes())
    except OSError:
        return ""
    return found[1].decode("utf-8", "replace") if found else ""
