"""Writing data sets: shards that appear whole or not at all.

A folder holds ``dataset.json`` (what decides the bytes), ``environment.json`` (what does not), a
``card.md`` once it is whole (for people; ``dataset.card``) and
``shards/000123/`` with ``samples.jsonl``, ``scenes.jsonl``, ``rgb/``, ``right/`` where there are two
eyes, and a folder for each channel. Where pictures were translated, ``certificates.jsonl`` says what
was measured of each, and ``rejected.jsonl`` and ``rejected/`` hold those that are no samples of the
set because of it; ``certificate.json`` and ``.html`` sum it up. ``quarantined.jsonl`` names scenes that
could not be made. A shard is written under a temporary name, flushed to the disk and renamed when whole;
that rename is the only commit.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from sim2cam import files, images
from sim2cam.data import tracks
from sim2cam.data.channels import ChannelName, encode
from sim2cam.data.mask_file import MaskFile
from sim2cam.data.sample import ObjectLabel, Origin
from sim2cam.data.tracks import Tracks
from sim2cam.errors import OutputError
from sim2cam.files import TEMPORARY_SUFFIX, temporary_path, write_bytes
from sim2cam.geometry.run_length import RunLengths

FORMAT_VERSION = 1
SAMPLES_PER_SHARD = 16
HEADER = "dataset.json"
ENVIRONMENT = "environment.json"
SHARDS = "shards"
REJECTED: Final = "rejected"  # folder, and lines, of pictures that are no samples
QUARANTINED: Final = "quarantined"  # lines of scenes that could not be made
CARD = "card.md"
CERTIFICATE = "certificate.json"
CERTIFICATE_PAGE = "certificate.html"
WANTED = "samples_wanted"

_PARTS = (HEADER, ENVIRONMENT, CARD, CERTIFICATE, CERTIFICATE_PAGE, SHARDS, "*.log", "*.lock")


@dataclass(frozen=True)
class NewSample:
    """A sample that is about to be written.

    Attributes:
        index: its number in the data set.
        picture: its file.
        width, height: pixels.
        origin: how the picture was made.
        objects: the labels; None when they are those of the parent.
        channels: what is known of each pixel, as ``channels.encode`` takes it.
        right: the file of the right eye's picture; None without one.
        facts: everything else that is recorded (scene_index, lens, parent, ...).
        tracks: points of the film that it belongs to; None without any.
        is_rejected: its picture is kept aside, and it is no sample of the set.
    """

    index: int
    picture: bytes
    width: int
    height: int
    origin: Origin
    objects: tuple[ObjectLabel, ...] | None
    channels: Mapping[ChannelName, NDArray[Any]]
    facts: Mapping[str, Any]
    tracks: Tracks | None = None
    right: bytes | None = None
    is_rejected: bool = False


def prepare_folder(root: Path, header: Mapping[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Makes the folder of a data set ready for its shards and writes ``dataset.json``.

    Args:
        root: the folder.
        header: what decides the bytes of the data set.
        resume: keep whole shards of an equal header.
        overwrite: remove what is there.

    Raises:
        OutputError: the folder is not empty, or holds another data set, or cannot be written.
    """
    target, wanted = root / HEADER, plain(header)
    parts = _PARTS if target.is_file() else [f"{part}*{TEMPORARY_SUFFIX}" for part in _PARTS]
    files.prepare_folder(root, parts, "a data set", resume=resume, overwrite=overwrite)
    with files.writing(root):
        if target.is_file():
            _refuse_other(root, _with_categories(_read_header(target), wanted), wanted)
        for part in (root / SHARDS).glob(f"*{TEMPORARY_SUFFIX}"):
            files.remove(part)
    write_json(target, header)


def write_environment(root: Path, facts: Mapping[str, Any], *, wanted: int) -> None:
    """Writes ``environment.json``, before the shards, so that a check can tell what is missing.

    Args:
        root: the data set.
        facts: where and how it is made; they do not decide its bytes.
        wanted: number of samples, those that are there included.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    write_json(root / ENVIRONMENT, {**facts, WANTED: wanted})


def write_shard(
    root: Path,
    number: int,
    samples: Iterable[NewSample],
    scenes: Sequence[Mapping[str, Any]] = (),
    certificates: Sequence[Mapping[str, Any]] = (),
    quarantined: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Write one shard whole; it survives a crash of the machine once this returns.

    Args:
        root: the data set.
        number: of the shard.
        samples: taken one at a time, so that they need not fit into memory.
        scenes: what is recorded of each scene; complete once ``samples`` is used up.
        certificates: what was measured of each translated picture; likewise.
        quarantined: scenes that could not be made, and why; likewise.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    final = shard_folder(root, number)
    part, replaced = temporary_path(final), temporary_path(final)
    records = {"scenes": scenes, "certificates": certificates, QUARANTINED: quarantined}
    try:
        _fill_shard(part, samples, records)
        with files.writing(final):
            files.sync_tree(part)
            if final.exists():
                final.rename(replaced)
            part.rename(final)
            files.sync_folder(final.parent)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def shard_folder(root: Path, number: int) -> Path:
    """Returns the folder of a whole shard."""
    return root / SHARDS / f"{number:06d}"


def write_json(path: Path, value: Mapping[str, Any], *, in_lines: bool = True) -> None:
    """Writes a JSON file with sorted keys, whole or not at all.

    Args:
        path: of the file; one that ends in ``.gz`` is compressed.
        value: what it holds.
        in_lines: one value a line, for people to read; otherwise as few bytes as can be.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    form: dict[str, Any] = {"indent": 1} if in_lines else {"separators": (",", ":")}
    data = (json.dumps(plain(value), sort_keys=True, **form) + "\n").encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # the same values are the same bytes
    files.write_whole(path, data)


def _fill_shard(
    part: Path, samples: Iterable[NewSample], records: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    lines: dict[str, list[dict[str, Any]]] = {"samples": [], REJECTED: []}
    for sample in samples:
        lines[REJECTED if sample.is_rejected else "samples"].append(_write_sample(part, sample))
    for name, listed in {**lines, **records}.items():
        if listed or name == "samples":
            texts = "".join(f"{json.dumps(plain(line), sort_keys=True)}\n" for line in listed)
            write_bytes(part / f"{name}.jsonl", texts.encode())


def _write_sample(part: Path, sample: NewSample) -> dict[str, Any]:
    name = f"{sample.index:06d}"
    folder = REJECTED if sample.is_rejected else "rgb"
    contents = {f"{folder}/{name}{images.suffix_of(sample.picture)}": sample.picture}
    if sample.right is not None:
        contents[f"right/{name}{images.suffix_of(sample.right)}"] = sample.right
    for channel, values in sample.channels.items():
        contents[f"{channel}/{name}.png"] = encode(channel, values)
    if sample.tracks is not None:
        contents[f"tracks/{name}.json"] = tracks.encode(sample.tracks)
    for place, data in contents.items():
        write_bytes(part / place, data)
    line: dict[str, Any] = {
        "name": name,
        "width": sample.width,
        "height": sample.height,
        "origin": sample.origin,
        "files": {place: hashlib.sha256(data).hexdigest() for place, data in contents.items()},
        "bytes": {place: len(data) for place, data in contents.items()},
        **sample.facts,
    }
    if sample.objects is not None:
        line["objects"] = sample.objects
    line = plain(line)
    return line | {"digest": digest_of(line)}


def digest_of(line: Mapping[str, Any]) -> str:
    """Returns the SHA-256 over a sample's line, which holds those of its files."""
    whole = {key: value for key, value in line.items() if key != "digest"}
    return hashlib.sha256(json.dumps(plain(whole), sort_keys=True).encode()).hexdigest()


def plain(value: object) -> Any:
    """Returns the value as JSON would read it back."""
    return json.loads(json.dumps(value, default=_encode))


def _encode(value: object) -> dict[str, Any] | str:
    """Returns a value as JSON knows it; what is not known, None, is left out."""
    if isinstance(value, MaskFile):
        value = RunLengths.of(value.mask())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: entry for name, entry in found.items() if entry is not None}
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"{type(value).__name__} does not go into JSON")


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OutputError(path, f"not JSON ({error}). Add --overwrite to start anew.") from error
    return header if isinstance(header, dict) else {}


def _with_categories(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a header with the categories of another one, where that adds some and changes nothing else.

    Categories decide no bytes of a shard: samples name theirs.
    """
    recipe, other = found.get("recipe"), wanted.get("recipe")
    if not isinstance(recipe, dict) or not isinstance(other, dict):
        return found
    added = set(wanted["categories"]) - set(found.get("categories", ()))
    kept = [name for name in wanted["categories"] if name not in added]
    names = {"categories": other.get("categories")}
    if kept != found.get("categories") or recipe | names != other | names:
        return found
    return found | {key: wanted.get(key) for key in ("categories", "recipe", "recipe_digest")}


def _refuse_other(root: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key in sorted(found.keys() | wanted.keys()):
        if found.get(key) != wanted.get(key):
            raise OutputError(
                root,
                f"holds another data set: {_difference(key, found.get(key), wanted.get(key))}. "
                "Choose another --out or add --overwrite.",
            )


def _difference(key: str, found: object, wanted: object) -> str:
    """Names the first differing value inside nested tables."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for inner in sorted(found.keys() | wanted.keys()):
            if found.get(inner) != wanted.get(inner):
                return _difference(f"{key}.{inner}", found.get(inner), wanted.get(inner))
    return f"{key} is {json.dumps(found)}, not {json.dumps(wanted)}"
