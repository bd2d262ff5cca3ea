"""Writer of datasets; shards are written atomically.

A folder holds ``dataset.json`` (everything that determines the bytes), ``environment.json`` (everything
else), ``card.md`` once complete, and ``shards/000123/`` with ``samples.jsonl``, ``scenes.jsonl``, ``rgb/``,
``right/`` for stereo pairs, and one folder per channel. For translated images, ``certificates.jsonl`` holds
the measures of each image, ``rejected.jsonl`` and ``rejected/`` the images that fail, and
``certificate.json`` and ``.html`` the summary. ``quarantined.jsonl`` lists scenes that could not be generated.
A shard is written under a temporary name, flushed to disk and renamed when complete; the rename is the only
commit.
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
REJECTED: Final = "rejected"  # folder and record list of images that are not samples
QUARANTINED: Final = "quarantined"  # record list of scenes that could not be generated
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
    """A sample to be written.

    Attributes:
        width, height: Size in pixels.
        objects: Labels; None if they are those of the parent.
        channels: Per-pixel channels, for ``channels.encode_channel``.
        metadata: Further recorded fields (scene_index, lens, parent, ...).
        tracks: Tracked points of its sequence; None without any.
        is_rejected: Whether the image goes to ``rejected/`` and is not a sample of the dataset.
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
    """Prepare the folder of a dataset and write ``dataset.json``.

    Raises:
        OutputError: If the folder is not empty, holds another dataset or is not writable.
    """
    target, requested = root / HEADER, to_json_value(header)
    entries = (
        _FOLDER_ENTRIES
        if target.is_file()
        else [f"{entry}*{TEMPORARY_SUFFIX}" for entry in _FOLDER_ENTRIES]
    )
    files.prepare_folder(root, entries, "a dataset", resume=resume, overwrite=overwrite)
    with files.convert_write_errors(root):
        if target.is_file():
            _check_same_header(
                root, _merge_new_categories(_read_header(target), requested), requested
            )
        for path in (root / SHARDS).glob(f"*{TEMPORARY_SUFFIX}"):
            files.remove_path(path)
    write_json(target, header)


def write_environment(root: Path, facts: Mapping[str, Any], *, expected_samples: int) -> None:
    """Write ``environment.json`` before the shards, so that checks detect missing samples.

    Raises:
        OutputError: If the folder is not writable or the disk is full.
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
    """Write one shard atomically; it survives a crash of the machine once this returns.

    Args:
        samples: Samples, consumed one at a time.
        scenes: Scene records; may be filled while ``samples`` is consumed.
        certificates: Certificate records of translated images; filled like ``scenes``.
        quarantined: Records of scenes that could not be generated; filled like ``scenes``.

    Raises:
        OutputError: If the folder is not writable or the disk is full.
    """
    final = shard_folder(root, number)
    temporary, old = make_temporary_path(final), make_temporary_path(final)
    records = {"scenes": scenes, "certificates": certificates, QUARANTINED: quarantined}
    try:
        _fill_shard(temporary, samples, records)
        with files.convert_write_errors(final):
            files.sync_tree(temporary)
            if final.exists():
                final.rename(old)
            temporary.rename(final)
            files.sync_folder(final.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def shard_folder(root: Path, number: int) -> Path:
    """Return the folder of a complete shard."""
    return root / SHARDS / f"{number:06d}"


def write_json(path: Path, value: Mapping[str, Any], *, indented: bool = True) -> None:
    """Write a JSON file with sorted keys, atomically.

    Raises:
        OutputError: If the folder is not writable or the disk is full.
    """
    format_options: dict[str, Any] = {"indent": 1} if indented else {"separators": (",", ":")}
    data = (json.dumps(to_json_value(value), sort_keys=True, **format_options) + "\n").encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # makes the bytes reproducible
    files.write_atomic(path, data)


def _fill_shard(
    shard: Path, samples: Iterable[NewSample], records: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    lines: dict[str, list[dict[str, Any]]] = {"samples": [], REJECTED: []}
    for sample in samples:
        lines[REJECTED if sample.is_rejected else "samples"].append(_write_sample(shard, sample))
    for name, records_of_list in {**lines, **records}.items():
        if records_of_list or name == "samples":
            text = "".join(
                f"{json.dumps(to_json_value(line), sort_keys=True)}\n" for line in records_of_list
            )
            write_bytes(shard / f"{name}.jsonl", text.encode())


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
    record: dict[str, Any] = {
        "name": name,
        "width": sample.width,
        "height": sample.height,
        "origin": sample.origin,
        "files": {place: hashlib.sha256(data).hexdigest() for place, data in contents.items()},
        "bytes": {place: len(data) for place, data in contents.items()},
        **sample.metadata,
    }
    if sample.objects is not None:
        record["objects"] = sample.objects
    record = to_json_value(record)
    return record | {"digest": compute_digest(record)}


def compute_digest(record: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a sample's record, which contains the hashes of its files."""
    content = {key: value for key, value in record.items() if key != "digest"}
    return hashlib.sha256(json.dumps(to_json_value(content), sort_keys=True).encode()).hexdigest()


def to_json_value(value: object) -> Any:
    """Return the value as it reads back from JSON."""
    return json.loads(json.dumps(value, default=_encode_json_default))


def _encode_json_default(value: object) -> dict[str, Any] | str:
    """Return a JSON form of a mask file, dataclass or path; fields that are None are omitted."""
    if isinstance(value, MaskFile):
        value = RleMask.from_mask(value.decode())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: entry for name, entry in fields.items() if entry is not None}
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"{type(value).__name__} cannot be encoded as JSON")


def _read_header(path: Path) -> dict[str, Any]:
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise OutputError(path, f"not JSON ({error}). Add --overwrite to replace it.") from error
    return header if isinstance(header, dict) else {}


def _merge_new_categories(existing: dict[str, Any], requested: dict[str, Any]) -> dict[str, Any]:
    """Return the existing header with added categories if nothing else differs.

    Categories do not affect the bytes of shards, because samples store category names.
    """
    recipe, requested_recipe = existing.get("recipe"), requested.get("recipe")
    if not isinstance(recipe, dict) or not isinstance(requested_recipe, dict):
        return existing
    added = set(requested["categories"]) - set(existing.get("categories", ()))
    previous_names = [name for name in requested["categories"] if name not in added]
    requested_names = {"categories": requested_recipe.get("categories")}
    if (
        previous_names != existing.get("categories")
        or recipe | requested_names != requested_recipe | requested_names
    ):
        return existing
    return existing | {key: requested.get(key) for key in ("categories", "recipe", "recipe_digest")}


def _check_same_header(root: Path, existing: dict[str, Any], requested: dict[str, Any]) -> None:
    for key in sorted(existing.keys() | requested.keys()):
        if existing.get(key) != requested.get(key):
            raise OutputError(
                root,
                f"holds another dataset: {_describe_difference(key, existing.get(key), requested.get(key))}. "
                "Choose another --out or add --overwrite.",
            )


def _describe_difference(key: str, existing: object, requested: object) -> str:
    if isinstance(existing, dict) and isinstance(requested, dict):
        for inner in sorted(existing.keys() | requested.keys()):
            if existing.get(inner) != requested.get(inner):
                return _describe_difference(
                    f"{key}.{inner}", existing.get(inner), requested.get(inner)
                )
    return f"{key} is {json.dumps(existing)}, not {json.dumps(requested)}"
