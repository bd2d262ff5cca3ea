"""Writing data sets: shards that appear whole or not at all.

A folder holds ``dataset.json`` (what decides the bytes), ``environment.json`` (what does not) and
``shards/000123/`` with ``samples.jsonl``, ``scenes.jsonl``, ``rgb/``, ``depth/``, ``ids/``. A shard
is written under a temporary name and renamed when whole; that rename is the only commit.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.dataset.sample import DEPTH_SCALE_M, ObjectLabel, Origin
from sim2cam.errors import OutputError
from sim2cam.geometry.lens import BrownConrady

FORMAT_VERSION = 1
SAMPLES_PER_SHARD = 16
TEMPORARY_SUFFIX = ".part"


@dataclass(frozen=True)
class NewSample:
    """A sample that is about to be written.

    Attributes:
        index: its number in the data set.
        jpeg: the picture's file.
        width, height: pixels.
        origin: how the picture was made.
        objects: the labels; None when they are those of the parent.
        depth_m: (h, w) float32, None without it.
        ids: (h, w) uint16, None without it.
        facts: everything else that is recorded (scene_index, lens, parent, ...).
    """

    index: int
    jpeg: bytes
    width: int
    height: int
    origin: Origin
    objects: tuple[ObjectLabel, ...] | None
    depth_m: NDArray[np.float32] | None
    ids: NDArray[np.uint16] | None
    facts: Mapping[str, Any]


def prepare_folder(
    root: Path, header: Mapping[str, Any], *, resume: bool, overwrite: bool
) -> None:
    """Makes the folder of a data set ready for its shards and writes ``dataset.json``.

    Args:
        root: the folder.
        header: what decides the bytes of the data set.
        resume: keep whole shards of an equal header.
        overwrite: remove what is there.

    Raises:
        OutputError: the folder is not empty, or holds another data set, or cannot be written.
    """
    target = root / "dataset.json"
    if root.is_dir() and any(root.iterdir()):
        if overwrite:
            _remove_dataset(root)
        elif not resume:
            raise OutputError(root, "is not empty. Add --resume to go on or --overwrite to start anew.")
        elif target.is_file():
            _refuse_other(root, json.loads(target.read_text()), _plain(header))
    for part in root.glob(f"shards/*{TEMPORARY_SUFFIX}"):
        shutil.rmtree(part)
    write_json(target, header)


def write_shard(
    root: Path,
    number: int,
    samples: Iterable[NewSample],
    scenes: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Writes one shard whole.

    Args:
        root: the data set.
        number: of the shard.
        samples: taken one at a time, so that they need not fit into memory.
        scenes: what is recorded of each scene; complete once ``samples`` is used up.

    Raises:
        OutputError: the folder cannot be written or the disk is full.
    """
    final = shard_folder(root, number)
    part = final.with_name(final.name + TEMPORARY_SUFFIX)
    lines = [json.dumps(_write_sample(part, sample), sort_keys=True) for sample in samples]
    images.write_bytes(part / "samples.jsonl", "".join(f"{line}\n" for line in lines).encode())
    if scenes:
        texts = "".join(f"{json.dumps(_plain(scene), sort_keys=True)}\n" for scene in scenes)
        images.write_bytes(part / "scenes.jsonl", texts.encode())
    if final.exists():
        shutil.rmtree(final)
    part.rename(final)


def shard_folder(root: Path, number: int) -> Path:
    """Returns the folder of a whole shard."""
    return root / "shards" / f"{number:06d}"


def shard_size(root: Path, number: int) -> int:
    """Returns how many samples a whole shard holds, 0 when it is not there."""
    lines = shard_folder(root, number) / "samples.jsonl"
    return len(lines.read_text().splitlines()) if lines.is_file() else 0


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Writes a JSON file with sorted keys."""
    images.write_bytes(path, (json.dumps(_plain(value), indent=1, sort_keys=True) + "\n").encode())


def _write_sample(part: Path, sample: NewSample) -> dict[str, Any]:
    name = f"{sample.index:06d}"
    files = {f"rgb/{name}.jpg": sample.jpeg}
    if sample.depth_m is not None:
        steps = np.clip(np.round(sample.depth_m / DEPTH_SCALE_M), 0, 65535).astype(np.uint16)
        files[f"depth/{name}.png"] = images.encode_png(steps)
    if sample.ids is not None:
        files[f"ids/{name}.png"] = images.encode_png(sample.ids)
    for place, data in files.items():
        images.write_bytes(part / place, data)
    line: dict[str, Any] = {
        "name": name,
        "width": sample.width,
        "height": sample.height,
        "origin": sample.origin,
        "files": {place: hashlib.sha256(data).hexdigest() for place, data in files.items()},
        **_plain(sample.facts),
    }
    if sample.objects is not None:
        line["objects"] = [dataclasses.asdict(o) for o in sample.objects]
    return line | {"digest": digest_of(line)}


def digest_of(line: Mapping[str, Any]) -> str:
    """Returns the SHA-256 over a sample's line, which holds those of its files."""
    whole = {key: value for key, value in line.items() if key != "digest"}
    return hashlib.sha256(json.dumps(_plain(whole), sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Returns the value as JSON would read it back."""
    return json.loads(json.dumps(value, default=_encode))


def _encode(value: Any) -> Any:
    if isinstance(value, BrownConrady) or dataclasses.is_dataclass(value):
        return dataclasses.asdict(value)  # type: ignore[arg-type]
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"{type(value).__name__} does not go into JSON")


def _refuse_other(root: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    for key in sorted(found.keys() | wanted.keys()):
        if found.get(key) != wanted.get(key):
            raise OutputError(
                root,
                f"holds another data set: {_difference(key, found.get(key), wanted.get(key))}. "
                "Choose another --out or add --overwrite.",
            )


def _difference(key: str, found: Any, wanted: Any) -> str:
    """Names the first differing value inside nested tables."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for inner in sorted(found.keys() | wanted.keys()):
            if found.get(inner) != wanted.get(inner):
                return _difference(f"{key}.{inner}", found.get(inner), wanted.get(inner))
    return f"{key} is {json.dumps(found)}, not {json.dumps(wanted)}"


def _remove_dataset(root: Path) -> None:
    """Removes a data set, and refuses a folder that holds anything else."""
    known = {"dataset.json", "environment.json", "shards"}
    strangers = [p.name for p in root.iterdir() if p.name not in known and p.suffix not in (".log", ".lock")]
    if strangers:
        raise OutputError(
            root, f"holds '{sorted(strangers)[0]}', which is no part of a data set. Choose another --out."
        )
    shutil.rmtree(root)
