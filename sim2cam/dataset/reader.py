"""Reading data sets that ``writer`` wrote."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sim2cam.dataset.sample import Dataset, ObjectLabel, Sample
from sim2cam.dataset.writer import FORMAT_VERSION
from sim2cam.errors import InputError
from sim2cam.geometry.lens import BrownConrady

_LABELS: TypeAdapter[tuple[ObjectLabel, ...]] = TypeAdapter(tuple[ObjectLabel, ...])
_LENS: TypeAdapter[BrownConrady] = TypeAdapter(BrownConrady)


@dataclass(frozen=True)
class RawSample:
    """One line of ``samples.jsonl`` and the shard it stands in."""

    shard: Path
    line: dict[str, Any]


def read_dataset(root: Path) -> Dataset:
    """Returns the data set of a folder; one that was translated takes its labels from its parent.

    Raises:
        InputError: no data set, one of another version, a broken line, or a parent that is missing
            or has changed.
    """
    header = read_header(root)
    samples = tuple(_sample(raw) for raw in read_lines(root))
    if not samples:
        raise InputError(root, "the data set holds no samples. Run its command again with --resume.")
    if "parent" in header:
        samples = _with_parents(root, header, samples)
    return Dataset(root, tuple(header["categories"]), samples)


def read_header(root: Path) -> dict[str, Any]:
    """Returns ``dataset.json``.

    Raises:
        InputError: it is missing, broken, or of another format version.
    """
    path = root / "dataset.json"
    if not path.is_file():
        raise InputError(root, "no data set: there is no dataset.json in it.")
    try:
        header = json.loads(path.read_text())
    except ValueError as error:
        raise InputError(path, f"not JSON ({error}).") from error
    if header.get("format") != FORMAT_VERSION:
        raise InputError(
            path, f"format version {header.get('format')}; this sim2cam reads {FORMAT_VERSION}."
        )
    return dict(header)


def read_lines(root: Path) -> list[RawSample]:
    """Returns every sample's line, in order, from whole shards.

    Raises:
        InputError: a line is not JSON.
    """
    raw = []
    for path in sorted((root / "shards").glob("[0-9]*[0-9]/samples.jsonl")):
        for number, text in enumerate(path.read_text().splitlines(), start=1):
            try:
                raw.append(RawSample(path.parent, json.loads(text)))
            except ValueError as error:
                raise InputError(path, f"line {number} is not JSON ({error}).") from error
    return raw


def _sample(raw: RawSample) -> Sample:
    line = raw.line
    try:
        files = {Path(place).parts[0]: raw.shard / place for place in line["files"]}
        return Sample(
            name=line["name"],
            rgb=files["rgb"],
            width=line["width"],
            height=line["height"],
            objects=_LABELS.validate_python(line["objects"]) if "objects" in line else None,
            origin=line["origin"],
            depth=files.get("depth"),
            ids=files.get("ids"),
            lens=_LENS.validate_python(line["lens"]) if line.get("lens") else None,
            scene_index=line.get("scene_index", 0),
            digest=line["digest"],
            parent=line.get("parent"),
        )
    except (KeyError, ValidationError) as error:
        raise InputError(raw.shard / "samples.jsonl", f"broken sample: {error}.") from error


def _with_parents(
    root: Path, header: dict[str, Any], samples: tuple[Sample, ...]
) -> tuple[Sample, ...]:
    parent = read_dataset((root / header["parent"]).resolve())
    by_digest = {sample.digest: sample for sample in parent.samples}
    joined = []
    for sample in samples:
        origin = by_digest.get(sample.parent or "")
        if origin is None:
            raise InputError(
                root, f"sample {sample.name} was made from a sample that is not in {parent.root} any more."
            )
        joined.append(
            replace(
                sample,
                objects=origin.objects,
                depth=origin.depth,
                ids=origin.ids,
                lens=origin.lens,
                scene_index=origin.scene_index,
            )
        )
    return tuple(joined)
