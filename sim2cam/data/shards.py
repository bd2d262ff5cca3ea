"""Finished shards on disk: what they hold, and whether their files are as they were written."""

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
    """A scene that could not be made.

    Attributes:
        scene_index: its index.
        samples: number of samples that the shard lacks because of it.
        reason: why it could not be made.
    """

    scene_index: int
    samples: int
    reason: str


@dataclass(frozen=True)
class ShardContent:
    """What a finished shard holds.

    Attributes:
        samples: number of samples, with rejected ones.
        scenes: number of recorded scenes.
        quarantined: scenes that could not be made.
    """

    samples: int
    scenes: int
    quarantined: tuple[QuarantinedScene, ...] = ()

    def is_complete(self, expected: int) -> bool:
        """Return whether it holds so many samples, those of quarantined scenes included."""
        return self.samples + sum(one.samples for one in self.quarantined) >= expected


def read_shard_content(root: Path, number: int) -> ShardContent | None:
    """Return what a finished shard holds; None where it is missing or damaged.

    Only the hashes of files whose size or time is suspicious are compared.
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
        OutputError: they cannot be removed.
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
    """Return the scenes of a dataset, or of one of its shards, that could not be made.

    Raises:
        InputError: their list is damaged.
    """
    shard = "[0-9]*[0-9]" if number is None else f"{number:06d}"
    found: list[QuarantinedScene] = []
    for path in sorted((root / SHARDS).glob(f"{shard}/{QUARANTINED}.jsonl")):
        try:
            found += _parse_quarantined(_read_jsonl(path))
        except ValueError as error:
            cure = "Run the command of the dataset again with --resume."
            raise InputError(path, f"{error}. {cure}") from error
    return tuple(found)


def _list_finished_shards(root: Path) -> list[Path]:
    """Return the folders of finished shards, in order."""
    return sorted((root / SHARDS).glob("[0-9]*[0-9]"))


def _read_shard(shard: Path, *, verify: bool) -> ShardContent:
    """Return what a shard holds.

    Raises:
        ValueError: with the damage.
    """
    lists = {name: _read_jsonl(shard / f"{name}.jsonl") for name in _RECORD_LISTS}
    listing = shard / "samples.jsonl"  # written after all files that it lists
    if not listing.is_file():
        raise ValueError("samples.jsonl is missing")
    committed_ns = listing.stat().st_mtime_ns
    samples = [*lists["samples"], *lists[REJECTED]]
    for line in samples:
        if verify and compute_digest(line) != line.get("digest"):
            raise ValueError(f"the record of sample {line.get('name')} has changed")
        for place, digest, size in _iterate_files(line):
            path = shard / place
            if _is_suspicious(path, size, committed_ns) or verify:
                _check_hash(path, digest)
    return ShardContent(len(samples), len(lists["scenes"]), _parse_quarantined(lists[QUARANTINED]))


def _read_jsonl(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a list; none where there is no such list.

    Raises:
        ValueError: a line is no JSON table.
    """
    if not path.is_file():
        return []
    found = []
    for number, text in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise ValueError(f"line {number} of {path.name} is damaged")
        found.append(line)
    return found


def _iterate_files(record: dict[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """Yield place, hash and size in bytes of each file of a sample; older datasets record no sizes.

    Raises:
        ValueError: the record lists no files.
    """
    digests, sizes = record.get("files"), record.get("bytes", {})
    if not isinstance(digests, dict) or not isinstance(sizes, dict):
        raise ValueError(f"the record of sample {record.get('name')} lists no files")
    for place, digest in digests.items():
        yield place, digest, sizes.get(place)


def _is_suspicious(path: Path, size: int | None, committed_ns: int) -> bool:
    """Return whether a file has another size than recorded, or was written after its shard was.

    Raises:
        ValueError: the file is missing.
    """
    try:
        facts = path.stat()
    except OSError as error:
        raise ValueError(f"{path.parent.name}/{path.name} is missing") from error
    return facts.st_size != size or facts.st_mtime_ns > committed_ns


def _check_hash(path: Path, digest: str) -> None:
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise ValueError(f"{path.parent.name}/{path.name} has changed")


def _parse_quarantined(lines: list[dict[str, Any]]) -> tuple[QuarantinedScene, ...]:
    try:
        return tuple(QuarantinedScene(**line) for line in lines)
    except TypeError as error:
        raise ValueError(f"{QUARANTINED}.jsonl is damaged") from error
