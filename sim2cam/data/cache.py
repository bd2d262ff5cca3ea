"""The user's cache: what was made of users' files. It may be removed at any time; what is in it is ours."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sim2cam.files import convert_write_errors

CACHE_VARIABLE = "SIM2CAM_CACHE"
"""Names the folder of caches; by default ``sim2cam`` in the user's."""


def get_cache_folder() -> Path:
    """Return the folder of caches, which need not exist yet."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(CACHE_VARIABLE) or users / "sim2cam")


def unpack_cached(source: Path, version: str, fill: Callable[[Path], None]) -> Path:
    """Return the folder of what is made of a file, once for each content.

    Args:
        source: the file.
        version: of how that is done; counts up when it is done differently.
        fill: does it, into an empty folder.

    Raises:
        OutputError: the cache cannot be written.
        InputError: as ``fill`` raises it; nothing is left behind then.
    """
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    folder = get_cache_folder() / version / digest
    if folder.is_dir():
        return folder
    with convert_write_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        fill(part)
        with convert_write_errors(folder):
            if not folder.is_dir():  # another process may have been faster
                part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
