"""Traversal of user folders that follows links and avoids cycles."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sim2cam.errors import InputError

_MAX_ENTRIES = 200_000  # links may lead to a whole disk


def walk_folder(root: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield each folder with the names of its visible subfolders and files.

    Linked folders come last, and each folder comes once.

    Raises:
        InputError: There are too many files.
    """
    pending, count = [root], 0
    links: list[Path] = []
    visited: set[str] = set()
    while pending or links:
        folder = pending.pop() if pending else links.pop(0)
        real_path = os.path.realpath(folder)
        if real_path in visited or (folder != root and _is_cycle(folder, root)):
            continue
        visited.add(real_path)
        try:
            entries = [e for e in os.scandir(folder) if not e.name.startswith(".")]
        except OSError:  # no permission
            continue
        count += len(entries)
        if count > _MAX_ENTRIES:
            problem = f"contains more than {_MAX_ENTRIES} files, including linked folders."
            raise InputError(root, f"{problem} Choose a smaller folder.")
        folders = sorted(e.name for e in entries if _is_folder(e))
        yield folder, folders, [e.name for e in entries if e.name not in folders]
        for path in (folder / name for name in folders):
            (links if path.is_symlink() else pending).append(path)


def list_broken_links(folder: Path) -> tuple[str, ...]:
    """Return the broken and cyclic links in a folder, as sorted relative paths."""
    root = folder.resolve()
    paths = []
    for subfolder, folders, files in walk_folder(root):
        names = [name for name in folders if _is_cycle(subfolder / name, root)]
        names += [
            name
            for name in files
            if (subfolder / name).is_symlink() and not is_file(subfolder / name)
        ]
        paths += [(subfolder / name).relative_to(root).as_posix() for name in names]
    return tuple(sorted(paths))


def _is_cycle(path: Path, root: Path) -> bool:
    return path.is_symlink() and root.is_relative_to(os.path.realpath(path))


def is_file(path: Path) -> bool:
    """Return whether a path is a file; False without permission."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
