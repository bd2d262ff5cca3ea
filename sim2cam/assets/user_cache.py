"""Entries of the user cache for imported assets."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sim2cam.data.cache import get_cache_folder
from sim2cam.errors import OutputError
from sim2cam.files import write_atomic

_VERSION = "assets-5"  # incremented when the import changes


def get_folder() -> Path:
    """Return the folder of the cache; it need not exist."""
    return get_cache_folder() / _VERSION


def read_entry(name: str) -> bytes | None:
    """Return the bytes of a cache entry; None if it is missing or unreadable."""
    try:
        return (get_folder() / name).read_bytes()
    except OSError:
        return None


def write_entry(name: str, data: bytes) -> None:
    """Write a cache entry atomically; ignore write errors."""
    with suppress(OutputError):
        write_atomic(get_folder() / name, data)
