"""The cache of what was made of users' files. It may be removed at any time; what is in it is ours."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

VARIABLE = "SIM2CAM_CACHE"
"""Names the folder of caches; by default ``sim2cam`` in the user's."""

_VERSION = "assets-2"  # counts up when assets are brought in differently


def root() -> Path:
    """Returns the folder of all caches, whether it is there or not."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(VARIABLE) or users / "sim2cam")


def folder() -> Path:
    """Returns the folder of this cache, whether it is there or not."""
    return root() / _VERSION


def read(name: str) -> bytes | None:
    """Returns a file of the cache; None when it is not there or cannot be read."""
    try:
        return (folder() / name).read_bytes()
    except OSError:
        return None


def write(name: str, data: bytes) -> None:
    """Writes a file into the cache, whole or not at all; where nothing can be written it stays out."""
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=folder())
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(part).replace(folder() / name)
