"""Zip archives of others, unpacked: nothing lands outside, and nothing grows without bound."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from sim2cam.data.parsing import is_inside_folder
from sim2cam.errors import InputError
from sim2cam.files import convert_write_errors

MAX_FILES = 20_000
MAX_BYTES = 4_000_000_000

_ARCHIVE_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    EOFError,
    RuntimeError,
    ValueError,
)


def unpack(archive: Path, folder: Path) -> None:
    """Fill a folder with what a zip archive holds.

    Raises:
        InputError: it is broken, empty or encrypted, or holds links, names that lead elsewhere, two files of
            one name, or more than ``MAX_FILES`` files or ``MAX_BYTES`` bytes.
        OutputError: the folder cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            _check_entries(archive, entries)
            for entry in entries:
                if not entry.is_dir():
                    place = folder / entry.filename
                    with convert_write_errors(place), opened.open(entry) as packed:
                        place.parent.mkdir(parents=True, exist_ok=True)
                        with place.open("xb") as file:
                            shutil.copyfileobj(packed, file)
    except _ARCHIVE_ERRORS as error:
        raise InputError(
            archive, f"no zip archive that can be read ({error}). Fetch it again."
        ) from error


def _check_entries(archive: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    if all(entry.is_dir() for entry in entries):
        raise InputError(archive, "holds no file. Fetch it again.")
    if len(entries) > MAX_FILES:
        raise InputError(archive, f"holds {len(entries)} files, more than {MAX_FILES}.")
    size = sum(entry.file_size for entry in entries)
    if size > MAX_BYTES:
        raise InputError(archive, f"grows to {size} bytes, more than {MAX_BYTES}.")
    seen: set[str] = set()
    for entry in entries:
        name = entry.filename
        if not is_inside_folder(name) or any(letter in name for letter in "\\:\0"):
            raise InputError(archive, f"holds '{name}', which would lie outside its folder.")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise InputError(archive, f"holds '{name}', which is no file but a link or device.")
        if name.casefold() in seen:
            raise InputError(archive, f"holds '{name}' twice.")
        seen.add(name.casefold())
