"""Writing data sets: shards that appear whole or not at all.

A folder holds ``dataset.json`` (what decides the bytes), ``environment.json`` (what does not), a
``card.md`` once it is whole (for people; ``dataset.card``) and
``shards/000123/`` with ``samples.jsonl``, ``scenes.jsonl``, ``rgb/``, ``right/`` where there are two
eyes, and a folder for each channel. Where pictures were translated, ``certificates.jsonl`` says what
was measured of each, and ``rejected.jsonl`` and ``rejected/`` hold those that are no samples of the
set because of it; ``certificate.json`` and ``.html`` sum it up. A shard is written under a temporary name and renamed when
whole; that rename is the only commit.
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from numpy.typing import NDArray

from sim2cam import images
from sim2cam.dataset import tracks
from sim2cam.dataset.channels import ChannelName, encode
from sim2cam.dataset.mask_file import MaskFile
from sim2cam.dataset.sample import ObjectLabel, Origin
from sim2cam.dataset.tracks import Tracks
from sim2cam.errors import OutputError
from sim2cam.geometry.masks import RunLengths

FORMAT_VERSION = 1
SAMPLES_PER_SHARD = 16
TEMPORARY_SUFFIX = ".part"
HEADER = "dataset.json"
ENVIRONMENT = "environment.json"
SHARDS = "shards"
REJECTED: Final = "rejected"  # folder, and lines, of pictures that are no samples
CARD = "card.md"
CERTIFICATE = "certificate.json"
CERTIFICATE_PAGE = "certificate.html"
WANTED = "samples_wanted"

_PARTS = (HEADER, ENVIRONMENT, CARD, CERTIFICATE, CERTIFICATE_PAGE, SHARDS)


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
    target = root / HEADER
    if root.exists() and not root.is_dir():
        raise OutputError(root, "is a file, not a folder. Choose another --out.")
    with images.writing(root):
        if root.is_dir() and any(root.iterdir()):
            if not (resume or overwrite):
                raise OutputError(
                    root, "is not empty. Add --resume to go on or --overwrite to start anew."
                )
            _refuse_strangers(root)
            if overwrite:
                _remove_dataset(root)
            elif target.is_file():
                _refuse_other(root, _read_header(target), plain(header))
        for part in [*_temporaries(root), *root.glob(f"{SHARDS}/*{TEMPORARY_SUFFIX}")]:
            _remove(part)
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
) -> None:
    """Writes one shard whole.

    Args:
        root: the data set.
        number: of the shard.
        samples: taken one at a time, so that they need not fit into memory.
        scenes: what is recorded of each scene; complete once ``samples`` is used up.
        certificates: what was measured of each translated picture; likewise.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    final = shard_folder(root, number)
    part = final.with_name(final.name + TEMPORARY_SUFFIX)
    replaced = final.with_name(f"{final.name}.replaced{TEMPORARY_SUFFIX}")
    try:
        _fill_shard(part, samples, {"scenes": scenes, "certificates": certificates})
        with images.writing(final):
            if final.exists():
                final.rename(replaced)
            part.rename(final)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def shard_folder(root: Path, number: int) -> Path:
    """Returns the folder of a whole shard."""
    return root / SHARDS / f"{number:06d}"


def shard_size(root: Path, number: int) -> int:
    """Returns how many samples, with rejected ones, a whole shard holds, 0 when it is not there."""
    files = (shard_folder(root, number) / f"{name}.jsonl" for name in ("samples", REJECTED))
    return sum(len(path.read_text().splitlines()) for path in files if path.is_file())


def write_json(path: Path, value: Mapping[str, Any], *, in_lines: bool = True) -> None:
    """Writes a JSON file with sorted keys, whole or not at all.

    Args:
        path: of the file; one that ends in ``.gz`` is compressed.
        value: what it holds.
        in_lines: one value a line, for people to read; otherwise as few bytes as can be.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    part = path.with_name(path.name + TEMPORARY_SUFFIX)
    form: dict[str, Any] = {"indent": 1} if in_lines else {"separators": (",", ":")}
    data = (json.dumps(plain(value), sort_keys=True, **form) + "\n").encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # the same values are the same bytes
    try:
        with images.writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _fill_shard(
    part: Path, samples: Iterable[NewSample], records: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    lines: dict[str, list[dict[str, Any]]] = {"samples": [], REJECTED: []}
    for sample in samples:
        lines[REJECTED if sample.is_rejected else "samples"].append(_write_sample(part, sample))
    for name, listed in {**lines, **records}.items():
        if listed or name == "samples":
            texts = "".join(f"{json.dumps(plain(line), sort_keys=True)}\n" for line in listed)
            images.write_bytes(part / f"{name}.jsonl", texts.encode())


def _write_sample(part: Path, sample: NewSample) -> dict[str, Any]:
    name = f"{sample.index:06d}"
    folder = REJECTED if sample.is_rejected else "rgb"
    files = {f"{folder}/{name}{images.suffix_of(sample.picture)}": sample.picture}
    if sample.right is not None:
        files[f"right/{name}{images.suffix_of(sample.right)}"] = sample.right
    for channel, values in sample.channels.items():
        files[f"{channel}/{name}.png"] = encode(channel, values)
    if sample.tracks is not None:
        files[f"tracks/{name}.json"] = tracks.encode(sample.tracks)
    for place, data in files.items():
        images.write_bytes(part / place, data)
    line: dict[str, Any] = {
        "name": name,
        "width": sample.width,
        "height": sample.height,
        "origin": sample.origin,
        "files": {place: hashlib.sha256(data).hexdigest() for place, data in files.items()},
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


def _refuse_strangers(root: Path) -> None:
    """Refuses a folder that holds anything but a data set, so that none of it is overwritten."""
    known = {path.name for path in _temporaries(root)}
    is_dataset = (root / HEADER).is_file()
    strangers = [
        path.name
        for path in root.iterdir()
        if path.name not in known
        and not (is_dataset and (path.name in _PARTS or path.suffix in (".log", ".lock")))
    ]
    if strangers:
        raise OutputError(
            root,
            f"holds '{min(strangers)}', which is no part of a data set. Choose another --out.",
        )


def _remove_dataset(root: Path) -> None:
    """Removes a data set; when killed in between, no half of it passes for whole."""
    shards = root / SHARDS
    if shards.exists():
        shards.rename(root / f"{SHARDS}{TEMPORARY_SUFFIX}")
    for path in root.iterdir():
        _remove(path)


def _temporaries(root: Path) -> list[Path]:
    paths = [root / (name + TEMPORARY_SUFFIX) for name in _PARTS]
    return [path for path in paths if path.exists()]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
