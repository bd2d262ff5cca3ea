"""Content and integrity of finished shards."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim2cam import files
from sim2cam.data.writer import QUARANTINED, REJECTED, SHARDS, compute_digest, shard_folder
from sim2cam.errors import InputError

_RECORD_LISTS = ("samples", REJECTED, "scenes", "certificates", QUARANTINED)


@dataclass(frozen=True)
class QuarantinedScene:
    """A scene that could not be generated."""

    scene_index: int
    samples: int
    reason: str


@dataclass(frozen=True)
class ShardContent:
    """Content of a finished shard."""

    samples: int
    scenes: int
    quarantined: tuple[QuarantinedScene, ...] = ()

    def is_complete(self, expected: int) -> bool:
        """Return whether the shard holds the expected samples, counting quarantined scenes."""
        return self.samples + sum(scene.samples for scene in self.quarantined) >= expected


def read_shard_content(root: Path, number: int) -> ShardContent | None:
    """Return the content of a finished shard, or None if it is missing or damaged.

    Hashes are compared only for files with a suspicious size or time.
    """
    shard = shard_folder(root, number)
    if not shard.is_dir():
        return None
    try:
        return _read_shard(shard, verify=False)
    except ValueError:
        return None


def remove_damaged(root: Path) -> int:
    """Remove shards with a file or record that does not match its hash, and return their number.

    Raises:
        OutputError: If they cannot be removed.
    """
    damaged = []
    for shard in _list_finished_shards(root):
        try:
            _read_shard(shard, verify=True)
        except ValueError:
            damaged.append(shard)
    with files.convert_write_errors(root):
        for shard in damaged:
            files.remove_path(shard.rename(files.make_temporary_path(shard)))
    return len(damaged)


def read_quarantined(root: Path, number: int | None = None) -> tuple[QuarantinedScene, ...]:
    """Return the scenes of a dataset or shard that could not be generated.

    Raises:
        InputError: If their list is damaged.
    """
    pattern = "[0-9]*[0-9]" if number is None else f"{number:06d}"
    scenes: list[QuarantinedScene] = []
    for path in sorted((root / SHARDS).glob(f"{pattern}/{QUARANTINED}.jsonl")):
        try:
            scenes += _parse_quarantined(_read_jsonl(path))
        except ValueError as error:
            hint = "Run the command of the dataset again with --resume."
            raise InputError(path, f"{error}. {hint}") from error
    return tuple(scenes)


def _list_finished_shards(root: Path) -> list[Path]:
    return sorted((root / SHARDS).glob("[0-9]*[0-9]"))


def _read_shard(shard: Path, *, verify: bool) -> ShardContent:
    """Return the content of a shard."""
    records = {name: _read_jsonl(shard / f"{name}.jsonl") for name in _RECORD_LISTS}
    listing = shard / "samples.jsonl"  # written after all listed files
    if not listing.is_file():
        raise ValueError("samples.jsonl is missing")
    committed_ns = listing.stat().st_mtime_ns
    samples = [*records["samples"], *records[REJECTED]]
    for record in samples:
        if verify and compute_digest(record) != record.get("digest"):
            raise ValueError(f"the record of sample {record.get('name')} has changed")
        for place, digest, size in _iterate_files(record):
            path = shard / place
            if _is_suspicious(path, size, committed_ns) or verify:
                _check_hash(path, digest)
    return ShardContent(
        len(samples), len(records["scenes"]), _parse_quarantined(records[QUARANTINED])
    )


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a record file; none if it does not exist."""
    if not path.is_file():
        return []
    lines = []
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise ValueError(f"line {number} of {path.name} is damaged")
        lines.append(line)
    return lines


def _iterate_files(record: dict[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """Yield name, hash and size in bytes of each file of a sample; older datasets record no sizes."""
    digests, sizes = record.get("files"), record.get("bytes", {})
    if not isinstance(digests, dict) or not isinstance(sizes, dict):
        raise ValueError(f"the record of sample {record.get('name')} lists no files")
    for name, digest in digests.items():
        yield name, digest, sizes.get(name)


def _is_suspicious(path: Path, size: int | None, committed_ns: int) -> bool:
    """Return whether a file has another size than recorded or is newer than its shard."""
    try:
        status = path.stat()
    except OSError as error:
        raise ValueError(f"{path.parent.name}/{path.name} is missing") from error
    return status.st_size != size or status.st_mtime_ns > committed_ns


def _check_hash(path: Path, digest: str) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise ValueError(f"{path.parent.name}/{path.name} has changed")


def _parse_quarantined(lines: list[dict[str, Any]]) -> tuple[QuarantinedScene, ...]:
    try:
        return tuple(QuarantinedScene(**line) for line in lines)
    except TypeError as error:
        raise ValueError(f"{QUARANTINED}.jsonl is damaged") from error
