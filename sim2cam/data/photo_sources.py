"""Sources of photographs: ``photographs.json`` of a folder names source, licence and author of each image."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from sim2cam.data.parsing import convert_validation_errors, read_json
from sim2cam.data.writer import write_json

PHOTO_SOURCES = "photographs.json"
"""File with the sources of the photographs in its folder and subfolders."""

_MAX_BYTES = 64_000_000


@dataclass(frozen=True)
class PhotoSource:
    """Source of a photograph.

    Attributes:
        source: Package and file, or address, from which it comes.
        licence: SPDX identifier or address of the licence.
        author: Author; empty if unknown.
        categories: Categories of objects that it shows, as far as labelled.
    """

    source: str
    licence: str
    author: str = ""
    categories: tuple[str, ...] = ()

    def format_credit(self) -> str:
        """Return author and source as text."""
        return f"{self.author}, {self.source}" if self.author else self.source


_ADAPTER: TypeAdapter[dict[str, PhotoSource]] = TypeAdapter(dict[str, PhotoSource])


def write_photo_sources(folder: Path, sources: Mapping[str, PhotoSource]) -> None:
    """Write the sources of the photographs of a folder, by path relative to it.

    Raises:
        OutputError: If the folder is not writable.
    """
    write_json(folder / PHOTO_SOURCES, {name: asdict(source) for name, source in sources.items()})


def read_photo_sources(folder: Path) -> dict[str, PhotoSource]:
    """Return the sources of the photographs of a folder, by path relative to it; empty if not recorded.

    Raises:
        InputError: If the file is broken.
    """
    path = folder / PHOTO_SOURCES
    if not path.is_file():
        return {}
    with convert_validation_errors(path, "Fetch the photographs again."):
        return _ADAPTER.validate_python(read_json(path, _MAX_BYTES, "list of photographs"))


def find_photo_sources(paths: Iterable[Path]) -> dict[Path, PhotoSource]:
    """Return the known sources of image files, from their folders or the folders above these.

    Raises:
        InputError: If a list of sources is broken.
    """
    lists: dict[Path, dict[str, PhotoSource]] = {}
    found: dict[Path, PhotoSource] = {}
    for path in paths:
        for folder in path.parents[:_MAX_LEVELS]:
            if folder not in lists:
                lists[folder] = read_photo_sources(folder)
            source = lists[folder].get(Path(os.path.relpath(path, folder)).as_posix())
            if source is not None:
                found[path] = source
                break
    return found


_MAX_LEVELS = 2  # images lie in the folder of the list or in a subfolder


def list_photo_folders(root: Path) -> list[Path]:
    """Return the subfolders with a list of sources, sorted by name."""
    return sorted(path.parent for path in root.glob(f"*/{PHOTO_SOURCES}"))
