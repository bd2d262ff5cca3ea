"""Writing files: whole or not at all, durable, and by one process at a time."""

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
"""Name of the file that a process holds while it writes into a folder."""
TEMPORARY_SUFFIX = ".part"
"""Ending of names under which files and folders are written until they are whole."""


def make_temporary_path(path: Path) -> Path:
    """Return a new name beside a path: no other process or earlier run uses it."""
    return path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{TEMPORARY_SUFFIX}")


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file into a folder that is renamed once it is complete; elsewhere use ``write_atomic``.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    with convert_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, so that it survives a crash of the machine once this returns.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
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
        OSError: the disk is full or failing.
    """
    for place, _, names in os.walk(folder):
        for name in names:
            _sync(os.path.join(place, name))  # noqa: PTH118 - a shard has hundreds of files
        sync_folder(Path(place))


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, where the system can (Windows cannot).

    Raises:
        OSError: the disk is failing.
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
    """Raise the system's errors while a path is written as errors that name it and the cure.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
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
    """Hold the lock of an output folder, which is made if needed.

    The system releases the lock of a process that is killed, so a stale lock file never blocks.

    Raises:
        OutputError: another process holds the lock, or the folder cannot be written.
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
            path.unlink()  # while it is held: filelock takes no lock on a file without a name
        lock.release()


def prepare_folder(
    root: Path, patterns: Collection[str], run_kind: str, *, resume: bool, overwrite: bool
) -> None:
    """Prepare the output folder of a command: a new one, one to go on with, or one of an earlier run.

    What a killed run left half written is removed, so that the caller must hold the lock.

    Args:
        root: the folder.
        patterns: names, or patterns of names, of what such a run writes.
        run_kind: the kind of run, for errors: "a training".
        resume: keep what is there.
        overwrite: remove what is there.

    Raises:
        OutputError: it is a file, not empty, or holds something that is no part of such a run; or it
            cannot be written.
    """
    if root.exists() and not root.is_dir():
        raise OutputError(root, "is a file, not a folder. Choose another --out.")
    with convert_write_errors(root):
        if not root.is_dir() or is_empty(root):
            return
        halves = [f"{part}*{TEMPORARY_SUFFIX}" for part in patterns]
        left = [path for path in root.iterdir() if _matches(path, halves)]
        for path in sorted(root.iterdir()):
            if path not in left and not _matches(path, [LOCK_NAME, *patterns]):
                raise OutputError(
                    root,
                    f"holds '{path.name}', which is no part of {run_kind}. Choose another --out.",
                )
        if not (resume or overwrite):
            raise OutputError(
                root, "is not empty. Add --resume to go on or --overwrite to start anew."
            )
        for path in left:
            remove_path(path)
        if overwrite:
            clear_folder(root)


def _matches(path: Path, patterns: Collection[str]) -> bool:
    return any(fnmatch.fnmatchcase(path.name, pattern) for pattern in patterns)


def is_empty(folder: Path) -> bool:
    """Return whether a folder holds nothing, or only the lock of this run."""
    return all(path.name == LOCK_NAME for path in folder.iterdir())


def remove_path(path: Path) -> None:
    """Remove a file, a link or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def clear_folder(folder: Path) -> None:
    """Remove what is in a folder but its lock; when killed in between, no half of it passes for whole."""
    for path in list(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            path.rename(make_temporary_path(path))
    for path in list(folder.iterdir()):
        if path.name != LOCK_NAME:
            remove_path(path)


def _describe_owner(path: Path) -> str:
    """Return who writes into a folder, for an error."""
    try:
        owner = json.loads(path.read_text())
        who = f"process {int(owner['process'])} on {owner['host']!r}"
    except (OSError, ValueError, KeyError, TypeError):  # it has only begun
        who = "another process"
    return f"is in use: {who} writes into it. Wait for it, or choose another --out."
