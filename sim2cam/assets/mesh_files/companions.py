"""Files that a mesh file names: found within a folder, bounded and hashed."""

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
"""Larger files are not opened."""

_MAX_LISTED = 20_000  # entries of a folder in which another spelling is looked for


@dataclass(frozen=True)
class FileLocation:
    """Where a file lies, and which folders may hold what it names.

    Attributes:
        path: of the file.
        root: the folder that the user gave, or the file's own.
    """

    path: Path
    root: Path

    @cached_property
    def tops(self) -> tuple[Path, ...]:
        """The folders that may be read: the root, where links from there to the file lead, and the file's."""
        home = self.path.parent
        between = [one for one in (home, *home.parents) if one.is_relative_to(self.root)]
        beyond = Path(os.path.realpath(self.path)).parent
        real = [Path(os.path.realpath(one)) for one in (self.root, *reversed(between))]
        return tuple(dict.fromkeys((*real, beyond)))

    def get_top(self, path: Path) -> Path:
        """Return the first of the folders that holds a file."""
        return next((top for top in self.tops if path.is_relative_to(top)), path.parent)

    def find(self, name: str) -> Path | None:
        """Return the file that ``name`` stands for; None if no folder that may be read holds it.

        Backslashes are followed as slashes, and another case where only one file has that name. A
        file that is a link may also have its companions where it leads to.
        """
        folders = (self.path.parent, Path(os.path.realpath(self.path)).parent)
        return next((found for one in folders if (found := self.find_in(one, name))), None)

    def find_companion(self, name: str) -> Path | None:
        """Return the file that ``name`` stands for, or the one of that name beside the file.

        Programs write paths of the computer that they run on.
        """
        return self.find(name) or self.find(
            name.strip().strip("\"'").replace("\\", "/").split("/")[-1]
        )

    def find_in(self, folder: Path, name: str) -> Path | None:
        """Return the file of a name in a folder; None as ``find`` does."""
        return find_within(folder, name, self.tops)

    def get_relative_path(self, path: Path) -> str:
        """Return a path from the folder of the file."""
        return Path(os.path.relpath(path, os.path.realpath(self.path.parent))).as_posix()


def find_within(folder: Path, name: str, tops: Sequence[Path]) -> Path | None:
    """Return the file of a name in a folder; None if there is none within any of the real ``tops``."""
    unquoted = name.strip().strip("\"'")
    slashed = unquoted.replace("\\", "/")
    for spelling in dict.fromkeys((name.strip(), unquoted, slashed)):
        try:
            if (found := Path(os.path.realpath(folder / spelling))) and _is_readable(found, tops):
                return found
        except (OSError, ValueError):  # no name that a file can have
            continue
    return _find_case_insensitive(Path(os.path.realpath(folder)), slashed, tops)


def _is_readable(path: Path, tops: Sequence[Path]) -> bool:
    return any(path.is_relative_to(top) for top in tops) and is_file(path)


def _find_case_insensitive(folder: Path, name: str, tops: Sequence[Path]) -> Path | None:
    """Return the only file of a name, whatever its case; None if there is none or several."""
    target = Path(os.path.normpath(folder / name))
    top = next((top for top in tops if target.is_relative_to(top)), None)
    if top is None:
        return None
    places = [top]
    for part in target.relative_to(top).parts:
        places = [place / other for place in places for other in _suggest_names(place, part)]
    found = [Path(os.path.realpath(place)) for place in places]
    return found[0] if len(found) == 1 and _is_readable(found[0], tops) else None


def _suggest_names(folder: Path, name: str) -> list[str]:
    """Return the entries of a folder with a name; if there are none, those that differ in case alone."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry, _ in zip(entries, range(_MAX_LISTED), strict=False)]
    except (OSError, ValueError):
        return []
    return [name] if name in names else [one for one in names if one.lower() == name.lower()]


@dataclass
class CompanionFiles:
    """The files that one mesh file is read from.

    Attributes:
        location: of the mesh file.
        data: what the mesh file holds.
        hashes: SHA-256 of each file that was read, by its path from the folder of the mesh file.
        missing: names of files that were not there.
    """

    location: FileLocation
    data: bytes = field(init=False)
    hashes: dict[str, str] = field(init=False, default_factory=dict)
    missing: list[str] = field(init=False, default_factory=list)

    @property
    def path(self) -> Path:
        """The mesh file."""
        return self.location.path

    def __post_init__(self) -> None:
        try:
            self.data = self.path.read_bytes()
        except OSError as error:
            raise InputError(self.path, f"cannot be read ({error.strerror}).") from error
        self.hashes[self.path.name] = hashlib.sha256(self.data).hexdigest()

    def read(self, name: str) -> bytes | None:
        """Return what a file holds that the mesh file names; None, with a warning, if there is none."""
        data = self.read_optional(name)
        if data is None:
            warn(self.path, f"{is_absent(name)} It is left out.")
        return data

    def read_optional(self, name: str) -> bytes | None:
        """Return what a file holds that the mesh file names; None if there is none."""
        found = self.location.find_companion(name)
        try:
            data = None if found is None else read_bounded(found)
        except OSError:  # whose it may be
            data = None
        if found is None or data is None:
            if name not in self.missing:
                self.missing.append(name)
            return None
        self.hashes[self.location.get_relative_path(found)] = hashlib.sha256(data).hexdigest()
        return data

    def read_image(self, name: str) -> Any:
        """Return an image that the mesh file names; None, with a warning, if it cannot be read."""
        data = self.read(name)
        return None if data is None else self.decode_image(data, f"'{name}'")

    def decode_image(self, data: bytes, name: str) -> Any:
        """Return the image of an image file; None, with a warning, if it is of no known kind.

        Raises:
            InputError: it is damaged.
        """
        try:
            image = images.open_texture(data, self.path)
        except InputError as error:
            raise InputError(self.path, f"its image {name} is {error.args[1]}") from error
        if image is None:
            warn(self.path, f"its image {name} is of no kind that can be read. It is left out.")
        return image


def read_bounded(path: Path) -> bytes | None:
    """Return what a file holds; None of one that is too large."""
    return None if path.stat().st_size > MAX_BYTES else path.read_bytes()


def is_absent(name: str) -> str:
    """Return that a file is missing, as a sentence."""
    return f"'{name.strip()}', which it names, is not in its folder."


def decode_image(data: bytes) -> str:
    """Return the text of a file with Unix line ends; decode as Latin-1 if it is not UTF-8."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
