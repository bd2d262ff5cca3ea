"""What files of public data sets are, where that is known beforehand."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sim2cam.errors import InputError

CHECKSUM_FOLDER = Path(__file__).with_name("known_files")
"""Folder of a list for each data set of which files are known: a line for each, with its SHA-256, how many
bytes it has, and its path."""


def verify_checksums(folder: Path, checksum_list: Path) -> int:
    """Return how many files of a data set are those that are known; it may hold others.

    Args:
        folder: of the data set.
        checksum_list: a list as in ``CHECKSUM_FOLDER``.

    Raises:
        InputError: one is missing or another.
    """
    lines = checksum_list.read_text().splitlines()
    for line in lines:
        sha256, size, name = line.split(" ", 2)
        path = folder / name
        if not path.is_file():
            raise InputError(name, "is not in what was fetched. That was exchanged or damaged.")
        data = path.read_bytes()
        found = hashlib.sha256(data).hexdigest()
        if (found, len(data)) != (sha256, int(size)):
            raise InputError(
                name,
                f"has {len(data)} bytes with the SHA-256 {found}, not {size} with {sha256}. What was "
                "fetched was exchanged or damaged.",
            )
    return len(lines)
