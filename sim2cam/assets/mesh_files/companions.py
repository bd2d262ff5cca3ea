"""Companion files of meshes (materials, images): resolution, size limits, hashes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from sim2cam import images
from sim2cam.assets.mesh_files.raw_mesh import warn
from sim2cam.assets.walk import is_file
from sim2cam.errors import InputError

MAX_BYTES = 256 * 2**20
"""Maximum size of a file."""

_MAX_LISTED = 20_000  # maximum folder entries for case-insensitive search


@dataclass(frozen=True)
class FileLocation:
    """Location of a file, and the folders from which companions may be read.

    Attributes:
        path: Path of the file.
        root: Folder given by the user, or the file's folder.
    """

    path: Path
    root: Path

    @cached_property
    def tops(self) -> tuple[Path, ...]:
        """Readable folders: the root, targets of links between root and file, and the file's folder."""
        folder = self.path.parent
        inner_folders = [p for p in (folder, *folder.parents) if p.is_relative_to(self.root)]
        target_folder = Path(os.path.realpath(self.path)).parent
        resolved = [Path(os.path.realpath(p)) for p in (self.root, *reversed(inner_folders))]
        return tuple(dict.fromkeys((*resolved, target_folder)))

    def get_top(self, path: Path) -> Path:
        """Return the first readable folder that contains a file."""
        return next((top for top in self.tops if path.is_relative_to(top)), path.parent)

    def find(self, name: str) -> Path | None:
        """Resolve a companion's name; return None if no readable folder contains it.

        Backslashes count as slashes, and case is ignored if the match is unique. If the file is a
        link, its target's folder is searched too.
        """
        folders = (self.path.parent, Path(os.path.realpath(self.path)).parent)
        return next((p for folder in folders if (p := self.find_in(folder, name))), None)

    def find_companion(self, name: str) -> Path | None:
        """Resolve a companion's name; fall back to its base name next to the file.

        Exporters often write absolute paths of another computer.
        """
        return self.find(name) or self.find(
            name.strip().strip("\"'").replace("\\", "/").split("/")[-1]
        )

    def find_in(self, folder: Path, name: str) -> Path | None:
        """Resolve a name relative to a folder; return None like ``find``."""
        return find_within(folder, name, self.tops)

    def get_relative_path(self, path: Path) -> str:
        """Return a path relative to the folder of the file."""
        return Path(os.path.relpath(path, os.path.realpath(self.path.parent))).as_posix()


def find_within(folder: Path, name: str, tops: Sequence[Path]) -> Path | None:
    """Resolve a name relative to a folder; return None if it is outside the resolved ``tops``."""
    unquoted = name.strip().strip("\"'")
    slashed = unquoted.replace("\\", "/")
    for spelling in dict.fromkeys((name.strip(), unquoted, slashed)):
        try:
            if (path := Path(os.path.realpath(folder / spelling))) and _is_readable(path, tops):
                return path
        except (OSError, ValueError):  # not a valid file name
            continue
    return _find_case_insensitive(Path(os.path.realpath(folder)), slashed, tops)


def _is_readable(path: Path, tops: Sequence[Path]) -> bool:
    return any(path.is_relative_to(top) for top in tops) and is_file(path)


def _find_case_insensitive(folder: Path, name: str, tops: Sequence[Path]) -> Path | None:
    """Resolve a name ignoring case; return None if there is no unique match."""
    target = Path(os.path.normpath(folder / name))
    top = next((top for top in tops if target.is_relative_to(top)), None)
    if top is None:
        return None
    matches = [top]
    for part in target.relative_to(top).parts:
        matches = [
            match / other for match in matches for other in _list_matching_names(match, part)
        ]
    files = [Path(os.path.realpath(match)) for match in matches]
    return files[0] if len(files) == 1 and _is_readable(files[0], tops) else None


def _list_matching_names(folder: Path, name: str) -> list[str]:
    """Return the exact match of a name in a folder, else the matches ignoring case."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_LISTED), strict=False)]
    except (OSError, ValueError):
        return []
    return [name] if name in names else [n for n in names if n.lower() == name.lower()]


@dataclass
class CompanionFiles:
    """Mesh file with its companion files.

    Attributes:
        location: Location of the mesh file.
        data: Bytes of the mesh file.
        hashes: SHA-256 of each file read, by its path relative to the mesh file's folder.
        missing: Names of missing files.
    """

    location: FileLocation
    data: bytes = field(init=False)
    hashes: dict[str, str] = field(init=False, default_factory=dict)
    missing: list[str] = field(init=False, default_factory=list)
    _warned: set[str] = field(init=False, default_factory=set)

    @property
    def path(self) -> Path:
        """Path of the mesh file."""
        return self.location.path

    def __post_init__(self) -> None:
        try:
            self.data = self.path.read_bytes()
        except OSError as error:
            raise InputError(self.path, f"cannot be read ({error.strerror}).") from error
        self.hashes[self.path.name] = hashlib.sha256(self.data).hexdigest()

    def warn_once(self, flaw: str) -> None:
        """Issue a warning about the mesh file, each text once."""
        if flaw not in self._warned:
            self._warned.add(flaw)
            warn(self.path, flaw)

    def read(self, name: str) -> bytes | None:
        """Read a companion file; warn and return None if it is missing."""
        data = self.read_optional(name)
        if data is None:
            warn(self.path, f"{format_missing_file(name)} It is ignored.")
        return data

    def read_optional(self, name: str) -> bytes | None:
        """Read a companion file; return None if it is missing."""
        path = self.location.find_companion(name)
        try:
            data = None if path is None else read_bounded(path)
        except OSError:  # no permission
            data = None
        if path is None or data is None:
            if name not in self.missing:
                self.missing.append(name)
            return None
        self.hashes[self.location.get_relative_path(path)] = hashlib.sha256(data).hexdigest()
        return data

    def read_image(self, name: str) -> Any:
        """Read a companion image; warn and return None if it is missing or unsupported."""
        data = self.read(name)
        return None if data is None else self.decode_image(data, f"'{name}'")

    def decode_image(self, data: bytes, name: str) -> Any:
        """Decode an image file; warn and return None if the format is not supported.

        Raises:
            InputError: The image is damaged.
        """
        try:
            image = images.open_texture(data, self.path)
        except InputError as error:
            raise InputError(self.path, f"image {name}: {error.args[1]}") from error
        if image is None:
            warn(self.path, f"image {name} has an unsupported format and is ignored.")
        return image


def read_bounded(path: Path) -> bytes | None:
    """Read a file; return None if it exceeds ``MAX_BYTES``."""
    return None if path.stat().st_size > MAX_BYTES else path.read_bytes()


def format_missing_file(name: str) -> str:
    """Return the message for a missing companion file."""
    return f"file '{name.strip()}' is missing."


def decode_text(data: bytes) -> str:
    """Decode UTF-8, else Latin-1, and normalize line ends."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
