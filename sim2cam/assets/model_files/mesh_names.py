"""Resolution of mesh references in models: relative paths, URIs and ROS packages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from sim2cam.assets.mesh_files.companions import FileLocation, find_within

PACKAGES_VARIABLE = "ROS_PACKAGE_PATH"
"""Environment variable with additional folders of ROS packages."""

_PACKAGE_NAME = re.compile(rb"<name>\s*([^<\s]+)\s*</name>")
_MAX_BYTES = 2**20


def find_mesh(name: str, place: FileLocation) -> Path | None:
    """Resolve a mesh reference of a model; return None if no readable folder contains the file.

    Args:
        name: Relative path, ``file://`` URI with an absolute path, or ``package://NAME/PATH`` or
            ``model://NAME/PATH``, where NAME is a folder or ROS package next to or above the model, or
            in ``ROS_PACKAGE_PATH``.
        place: Location of the model.
    """
    scheme, separator, rest = name.partition("://")
    if not separator:
        return place.find(name)
    if scheme == "file":
        return place.find(unquote(rest))
    if scheme not in ("package", "model"):
        return None
    candidates = ((folder, inner) for folder, inner in _list_candidates(rest, place))
    paths = (place.find_in(folder, inner) for folder, inner in candidates)
    return next((path for path in paths if path), None) or _find_in_packages(rest)


def _list_candidates(rest: str, place: FileLocation) -> Iterator[tuple[Path, str]]:
    """Yield candidate folders, nearest first, each with the relative path of the mesh."""
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
    for entry in filter(None, os.environ.get(PACKAGES_VARIABLE, "").split(os.pathsep)):
        folder = Path(os.path.realpath(entry))
        relative_paths = [rest, inner] if folder.name == package else [rest]
        for relative_path in relative_paths:
            if path := find_within(folder, relative_path, (folder,)):
                return path
    return None


def _read_package_name(folder: Path) -> str:
    """Return the package name in a folder's package.xml; empty if missing."""
    path = folder / "package.xml"
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return ""
        match = _PACKAGE_NAME.search(path.read_bytes())
    except OSError:
        return ""
    return match[1].decode("utf-8", "replace") if match else ""
