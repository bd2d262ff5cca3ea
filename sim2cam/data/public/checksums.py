"""Verification of public datasets by checksums of their files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sim2cam.errors import InputError

CHECKSUM_FOLDER = Path(__file__).with_name("known_files")
"""Folder with one list per dataset; each line has SHA-256, size in bytes and path of a file."""


def verify_checksums(folder: Path, checksum_list: Path) -> int:
    """Verify the listed files of a dataset and return their number; other files are allowed.

    Raises:
        InputError: If a file is missing or differs.
    """
    lines = checksum_list.read_text().splitlines()
    for line in lines:
        sha256, size, name = line.split(" ", 2)
        path = folder / name
        if not path.is_file():
            raise InputError(name, "is missing in the download, which has changed or is damaged.")
        data = path.read_bytes()
        actual_sha256 = hashlib.sha256(data).hexdigest()
        if (actual_sha256, len(data)) != (sha256, int(size)):
            raise InputError(
                name,
                f"has {len(data)} bytes with the SHA-256 {actual_sha256}, not {size} with {sha256}. The "
                "download has changed or is damaged.",
            )
    return len(lines)
