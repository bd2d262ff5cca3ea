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
from sim2cam.data.channels import ChannelName, encode_channel
from sim2cam.data.mask_file import MaskFile
from sim2cam.data.sample import ObjectLabel, Origin
from sim2cam.data.tracks import PointTracks
from sim2cam.errors import OutputError
from sim2cam.files import TEMPORARY_SUFFIX, make_temporary_path, write_bytes
from sim2cam.geometry.run_length import RleMask

FORMAT_VERSION = 2
SAMPLES_PER_SHARD = 16
HEADER = "dataset.json"
ENVIRONMENT = "environment.json"
SHARDS = "shards"
REJECTED: Final = "rejected"  # folder, and lines, of pictures that are no samples
QUARANTINED: Final = "quarantined"  # lines of scenes that could not be made
CARD = "card.md"
CERTIFICATE = "certificate.json"
CERTIFICATE_PAGE = "certificate.html"
EXPECTED_SAMPLES = "expected_samples"

_FOLDER_ENTRIES = (
    HEADER,
    ENVIRONMENT,
    CARD,
    CERTIFICATE,
    CERTIFICATE_PAGE,
    SHARDS,
    "*.log",
    "*.lock",
)


@dataclass(frozen=True)
class NewSample:
    """A sample that is about to be written.

    Attributes:
        index: its number in the data set.
        image_bytes: its file.
        width, height: pixels.
        origin: how the picture was made.
        objects: the labels; None when they are those of the parent.
        channels: what is known of each pixel, as ``channels.encode`` takes it.
        right_image_bytes: the file of the right eye's picture; None without one.
        metadata: everything else that is recorded (scene_index, lens, parent, ...).
        tracks: points of the film that it belongs to; None without any.
        is_rejected: its picture is kept aside, and it is no sample of the set.
    """

    index: int
    image_bytes: bytes
    width: int
    height: int
    origin: Origin
    objects: tuple[ObjectLabel, ...] | None
    channels: Mapping[ChannelName, NDArray[Any]]
    metadata: Mapping[str, Any]
    tracks: PointTracks | None = None
    right_image_bytes: bytes | None = None
    is_rejected: bool = False


def prepare_folder(root: Path, header: Mapping[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Make the folder of a data set ready for its shards and writes ``dataset.json``.

    Args:
        root: the folder.
        header: what decides the bytes of the data set.
        resume: keep whole shards of an equal header.
        overwrite: remove what is there.

    Raises:
        OutputError: the folder is not empty, or holds another data set, or cannot be written.
    """
    target, wanted = root / HEADER, to_json_value(header)
    parts = (
        _FOLDER_ENTRIES
        if target.is_file()
        else [f"{part}*{TEMPORARY_SUFFIX}" for part in _FOLDER_ENTRIES]
    )
    files.prepare_folder(root, parts, "a data set", resume=resume, overwrite=overwrite)
    with files.convert_write_errors(root):
        if target.is_file():
            _check_same_header(root, _merge_new_categories(_read_header(target), wanted), wanted)
        for part in (root / SHARDS).glob(f"*{TEMPORARY_SUFFIX}"):
            files.remove_path(part)
    write_json(target, header)


def write_environment(root: Path, facts: Mapping[str, Any], *, expected_samples: int) -> None:
    """Write ``environment.json``, before the shards, so that a check can tell what is missing.

    Args:
        root: the data set.
        facts: where and how it is made; they do not decide its bytes.
        expected_samples: number of samples, those that are there included.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    write_json(root / ENVIRONMENT, {**facts, EXPECTED_SAMPLES: expected_samples})


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
    part, replaced = make_temporary_path(final), make_temporary_path(final)
    records = {"scenes": scenes, "certificates": certificates, QUARANTINED: quarantined}
    try:
        _fill_shard(part, samples, records)
        with files.convert_write_errors(final):
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
    """Return the folder of a whole shard."""
    return root / SHARDS / f"{number:06d}"


def write_json(path: Path, value: Mapping[str, Any], *, indented: bool = True) -> None:
    """Write a JSON file with sorted keys, whole or not at all.

    Args:
        path: of the file; one that ends in ``.gz`` is compressed.
        value: what it holds.
        indented: one value a line, for people to read; otherwise as few bytes as can be.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    form: dict[str, Any] = {"indent": 1} if indented else {"separators": (",", ":")}
    data = (json.dumps(to_json_value(value), sort_keys=True, **form) + "\n").encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # the same values are the same bytes
    files.write_atomic(path, data)


def _fill_shard(
    shard: Path, samples: Iterable[NewSample], records: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    lines: dict[str, list[dict[str, Any]]] = {"samples": [], REJECTED: []}
    for sample in samples:
        lines[REJECTED if sample.is_rejected else "samples"].append(_write_sample(shard, sample))
    for name, listed in {**lines, **records}.items():
        if listed or name == "samples":
            texts = "".join(
                f"{json.dumps(to_json_value(line), sort_keys=True)}\n" for line in listed
            )
            write_bytes(shard / f"{name}.jsonl", texts.encode())


def _write_sample(shard: Path, sample: NewSample) -> dict[str, Any]:
    name = f"{sample.index:06d}"
    folder = REJECTED if sample.is_rejected else "rgb"
    contents = {f"{folder}/{name}{images.detect_suffix(sample.image_bytes)}": sample.image_bytes}
    if sample.right_image_bytes is not None:
        contents[f"right/{name}{images.detect_suffix(sample.right_image_bytes)}"] = (
            sample.right_image_bytes
        )
    for channel, values in sample.channels.items():
        contents[f"{channel}/{name}.png"] = encode_channel(channel, values)
    if sample.tracks is not None:
        contents[f"tracks/{name}.json"] = tracks.encode_tracks(sample.tracks)
    for place, data in contents.items():
        write_bytes(shard / place, data)
    line: dict[str, Any] = {
        "name": name,
        "width": sample.width,
        "height": sample.height,
        "origin": sample.origin,
        "files": {place: hashlib.sha256(data).hexdigest() for place, data in contents.items()},
        "bytes": {place: len(data) for place, data in contents.items()},
        **sample.metadata,
    }
    if sample.objects is not None:
        line["objects"] = sample.objects
    line = to_json_value(line)
    return line | {"digest": compute_digest(line)}


def compute_digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 over a sample's line, which holds those of its files."""
    whole = {key: value for key, value in record.items() if key != "digest"}
    return hashlib.sha256(json.dumps(to_json_value(whole), sort_keys=True).encode()).hexdigest()


def to_json_value(value: object) -> Any:
    """Return the value as JSON would read it back."""
    return json.loads(json.dumps(value, default=_encode_json_default))


def _encode_json_default(value: object) -> dict[str, Any] | str:
    """Return a value as JSON knows it; what is not known, None, is left out."""
    if isinstance(value, MaskFile):
        value = RleMask.from_mask(value.decode())
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


def _merge_new_categories(existing: dict[str, Any], requested: dict[str, Any]) -> dict[str, Any]:
    """Return a header with the categories of another one, where that adds some and changes nothing else.

    Categories decide no bytes of a shard: samples name theirs.
    """
    recipe, other = existing.get("recipe"), requested.get("recipe")
    if not isinstance(recipe, dict) or not isinstance(other, dict):
        return existing
    added = set(requested["categories"]) - set(existing.get("categories", ()))
    kept = [name for name in requested["categories"] if name not in added]
    names = {"categories": other.get("categories")}
    if kept != existing.get("categories") or recipe | names != other | names:
        return existing
    return existing | {key: requested.get(key) for key in ("categories", "recipe", "recipe_digest")}


def _check_same_header(root: Path, existing: dict[str, Any], requested: dict[str, Any]) -> None:
    for key in sorted(existing.keys() | requested.keys()):
        if existing.get(key) != requested.get(key):
            raise OutputError(
                root,
                f"holds another data set: {_describe_difference(key, existing.get(key), requested.get(key))}. "
                "Choose another --out or add --overwrite.",
            )


def _describe_difference(key: str, existing: object, requested: object) -> str:
    """Name the first differing value inside nested tables."""
    if isinstance(existing, dict) and isinstance(requested, dict):
        for inner in sorted(existing.keys() | requested.keys()):
            if existing.get(inner) != requested.get(inner):
                return _describe_difference(
                    f"{key}.{inner}", existing.get(inner), requested.get(inner)
                )
    return f"{key} is {json.dumps(existing)}, not {json.dumps(requested)}"
