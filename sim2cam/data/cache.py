"""Cache folder of the user, which may be deleted at any time."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sim2cam.files import convert_write_errors

CACHE_VARIABLE = "SIM2CAM_CACHE"
"""Environment variable with the cache folder; by default ``sim2cam`` in the user's cache."""


def get_cache_folder() -> Path:
    """Return the cache folder, which may not exist yet."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(CACHE_VARIABLE) or user_cache / "sim2cam")


def unpack_cached(source: Path, version: str, fill: Callable[[Path], None]) -> Path:
    """Return the cache folder of a file's content; fill it at the first use.

    Args:
        source: File to unpack or convert; its SHA-256 is the cache key.
        version: Version of the conversion; change it when ``fill`` changes.
        fill: Write the converted content into an empty folder.

    Raises:
        OutputError: If the cache is not writable.
        InputError: If ``fill`` raises it; no partial folder remains.
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
            if not folder.is_dir():  # another process may have filled it
                part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder
