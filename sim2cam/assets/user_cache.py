"""What the user's cache holds of meshes that were brought in."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from sim2cam.data.cache import get_cache_folder

_VERSION = "assets-5"  # counts up when assets are brought in differently


def get_folder() -> Path:
    """Return the folder of this cache, whether it is there or not."""
    return get_cache_folder() / _VERSION


def read_entry(name: str) -> bytes | None:
    """Return a file of the cache; None when it is not there or cannot be read."""
    try:
        return (get_folder() / name).read_bytes()
    except OSError:
        return None


def write_entry(name: str, data: bytes) -> None:
    """Write a file into the cache, whole or not at all; where nothing can be written it stays out."""
    with suppress(OSError):
        get_folder().mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=get_folder())
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(part).replace(get_folder() / name)
