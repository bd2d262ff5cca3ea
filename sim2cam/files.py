"""Atomic writes, folder locks and preparation of output folders."""

from __future__ import annotations

import errno
import fnmatch
import json
import os
import shutil
import socket
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sim2cam.errors import OutputError

LOCK_NAME = "run.lock"
"""Lock file of an output folder."""
TEMPORARY_SUFFIX = ".part"
"""Suffix of files and folders until they are complete."""


def make_temporary_path(path: Path) -> Path:
    """Return a unique temporary path in the same folder."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{TEMPORARY_SUFFIX}")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file without atomicity, for folders that are renamed once complete.

    Raises:
        OutputError: If the folder cannot be written or the disk is full.
    """
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file atomically and flush it to the disk.

    Raises:
        OutputError: If the folder cannot be written or the disk is full.
    """
    part = make_temporary_path(path)
    try:
        with convert_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            _sync(part)
            part.replace(path)
            sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def sync_tree(folder: Path) -> None:
    """Flush all files of a folder, and the folder itself, to the disk.

    Raises:
        OSError: If the disk is full or failing.
    """
    for root, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(root, name))  # noqa: PTH118 - faster for hundreds of files
        sync_folder(Path(root))


def sync_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk, except on Windows.

    Raises:
        OSError: If the disk is failing.
    """
    if os.name != "nt":
        _sync(folder)


def _sync(path: str | Path) -> None:
    # Windows flushes only files that are open for writing.
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def convert_write_errors(path: Path) -> Iterator[None]:
    """Convert OSError while writing a path to OutputError with a remedy."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            path, f"cannot be written ({error.strerror}). {_suggest_remedy(error)}"
        ) from error


def _suggest_remedy(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "Free some disk space, then run again with --resume."
    return "Choose another --out or change its permissions."


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Lock an output folder, and create it if needed.

    The operating system releases the lock of a killed process, so a stale lock file does not block.

    Raises:
        OutputError: If another process holds the lock, or the folder cannot be written.
    """
    from filelock import FileLock, Timeout

    if folder.exists() and not folder.is_dir():
        raise OutputError(folder, "is a file, not a folder. Choose another --out.")
    path = folder / LOCK_NAME
    with convert_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path, blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise OutputError(folder, _describe_owner(path)) from None
    try:
        with convert_write_errors(folder):
            path.write_text(json.dumps({"host": socket.gethostname(), "process": os.getpid()}))
        yield
    finally:
        with suppress(OSError):
            path.unlink()  # before release: filelock rejects a lock on a deleted file
        lock.release()


def prepare_folder(
    root: Path, patterns: Collection[str], run_kind: str, *, resume: bool, overwrite: bool
) -> None:
    """Check an output folder, and remove temporary files or an earlier run from it.

    The caller must hold the lock of the folder.

    Raises:
        OutputError: If it is a file, contains other files, is not empty without ``resume`` and
            ``overwrite``, or cannot be written.
    """
    if root.exists() and not root.is_dir():
        raise OutputError(root, "is a file, not a folder. Choose another --out.")
    with convert_write_errors(root):
        if not root.is_dir() or is_empty(root):
            return
        temporary_patterns = [f"{pattern}*{TEMPORARY_SUFFIX}" for pattern in patterns]
        temporary_paths = [p for p in root.iterdir() if _matches(p, temporary_patterns)]
        for path in sorted(root.iterdir()):
            if path not in temporary_paths and not _matches(path, [LOCK_NAME, *patterns]):
                raise OutputError(
                    root,
                    f"contains '{path.name}', which is not part of {run_kind}. Choose another --out.",
                )
        if not (resume or overwrite):
            raise OutputError(
                root, "is not empty. Add --resume to continue or --overwrite to start again."
            )
        for path in temporary_paths:
            remove_path(path)
        if overwrite:
            clear_folder(root)


def _matches(path: Path, patterns: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(path.name, pattern) for pattern in patterns)


def is_empty(folder: Path) -> bool:
    """Return whether a folder is empty, except for the lock file."""
    return all(path.name == LOCK_NAME for path in folder.iterdir())


def remove_path(path: Path) -> None:
    """Remove a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def clear_folder(folder: Path) -> None:
    """Remove all content of a folder except the lock file.

    Folders are renamed to temporary names first, so that an interruption leaves no partial folder.
    """
    for path in list(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            path.rename(make_temporary_path(path))
    for path in list(folder.iterdir()):
        if path.name != LOCK_NAME:
            remove_path(path)


def _describe_owner(path: Path) -> str:
    try:
        owner = json.loads(path.read_text())
        name = f"process {int(owner['process'])} on {owner['host']!r}"
    except (OSError, ValueError, KeyError, TypeError):  # not written yet
        name = "another process"
    return f"is in use by {name}. Wait until it ends, or choose another --out."
