"""Folders of users, walked: links are followed, circles end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sim2cam.errors import InputError

_MAX_ENTRIES = 200_000  # links may lead to whole disks


def walk_folder(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder, and the names of the folders and files in it that are not hidden.

    Linked folders come after all others, and no folder comes twice, so that circles end.

    Raises:
        InputError: there are too many files.
    """
    waiting, count = [root], 0
    links: list[Path] = []
    seen: set[str] = set()
    while waiting or links:
        folder = waiting.pop() if waiting else links.pop(0)
        real = os.path.realpath(folder)
        if real in seen or (folder != root and _is_cycle(folder, root)):
            continue
        seen.add(real)
        try:
            entries = [one for one in os.scandir(folder) if not one.name.startswith(".")]
        except OSError:  # whose it may be
            continue
        count += len(entries)
        if count > _MAX_ENTRIES:
            problem = f"holds more than {_MAX_ENTRIES} files, with those that links in it lead to."
            raise InputError(root, f"{problem} Choose a smaller one.")
        folders = sorted(one.name for one in entries if _is_folder(one))
        yield folder, folders, [one.name for one in entries if one.name not in folders]
        for path in (folder / name for name in folders):
            (links if path.is_symlink() else waiting).append(path)


def list_broken_links(folder: Path) -> tuple[str, ...]:
    """Return the links in a folder, as relative paths, that lead nowhere or back to a folder above."""
    root = folder.resolve()
    found = []
    for place, folders, files in walk_folder(root):
        lost = [name for name in folders if _is_cycle(place / name, root)]
        lost += [
            name for name in files if (place / name).is_symlink() and not is_file(place / name)
        ]
        found += [(place / name).relative_to(root).as_posix() for name in lost]
    return tuple(sorted(found))


def _is_cycle(path: Path, root: Path) -> bool:
    return path.is_symlink() and root.is_relative_to(os.path.realpath(path))


def is_file(path: Path) -> bool:
    """Return whether a file exists and may be read."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
