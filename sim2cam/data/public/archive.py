"""Safe unpacking of zip archives, with limits on paths, files and bytes."""

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
    """Unpack a zip archive into a folder.

    Raises:
        InputError: If the archive is broken, empty or encrypted, holds links, duplicate names or names outside
            the folder, or exceeds ``MAX_FILES`` or ``MAX_BYTES``.
        OutputError: If the folder is not writable.
    """
    try:
        with zipfile.ZipFile(archive) as zip_file:
            entries = zip_file.infolist()
            _check_entries(archive, entries)
            for entry in entries:
                if not entry.is_dir():
                    target = folder / entry.filename
                    with convert_write_errors(target), zip_file.open(entry) as content:
                        target.parent.mkdir(parents=True, exist_ok=True)
                        with target.open("xb") as file:
                            shutil.copyfileobj(content, file)
    except _ARCHIVE_ERRORS as error:
        raise InputError(
            archive, f"not a readable zip archive ({error}). Fetch it again."
        ) from error


def _check_entries(archive: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    if all(entry.is_dir() for entry in entries):
        raise InputError(archive, "has no files. Fetch it again.")
    if len(entries) > MAX_FILES:
        raise InputError(archive, f"holds {len(entries)} files, more than {MAX_FILES}.")
    size = sum(entry.file_size for entry in entries)
    if size > MAX_BYTES:
        raise InputError(archive, f"unpacks to {size} bytes, more than {MAX_BYTES}.")
    names: set[str] = set()
    for entry in entries:
        name = entry.filename
        if not is_inside_folder(name) or any(character in name for character in "\\:\0"):
            raise InputError(archive, f"holds '{name}', which is outside its folder.")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise InputError(archive, f"holds '{name}', which is a link or device.")
        if name.casefold() in names:
            raise InputError(archive, f"holds '{name}' twice.")
        names.add(name.casefold())
