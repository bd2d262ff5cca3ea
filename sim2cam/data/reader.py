"""Reading data sets that ``writer`` wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from sim2cam import images
from sim2cam.data.channels import CHANNELS
from sim2cam.data.parsing import first_problem, stays_inside
from sim2cam.data.sample import (
    CARRIED,
    Dataset,
    Gains,
    Moment,
    ObjectLabel,
    Occlusion,
    Origin,
    RawFormat,
    Sample,
)
from sim2cam.data.writer import FORMAT_VERSION, HEADER, REJECTED, SHARDS
from sim2cam.errors import InputError, did_you_mean
from sim2cam.geometry.boxes import is_box
from sim2cam.geometry.lens import Lens

_AGAIN = "Generate the data set again"
_RESUME = "Run its command again with --resume: it makes damaged shards anew"


@dataclass(frozen=True)
class RawSample:
    """What is recorded of one sample.

    Attributes:
        shard: the folder in which its files are.
        line: of ``samples.jsonl``.
        source: what it was read from, for errors; None for ``samples.jsonl``.
    """

    shard: Path
    line: dict[str, Any]
    source: Path | None = None


@dataclass(frozen=True)
class _RecordedBody:
    asset: dict[str, Any]
    material: dict[str, Any] = field(default_factory=dict)
    decals: tuple[dict[str, Any], ...] = ()


def _pictures_in(record: Any) -> Iterator[str]:
    """Yields the names of the picture files in what was recorded of a scene."""
    if isinstance(record, dict) and record.keys() == {"path", "digest"}:
        yield str(record["path"])
    elif isinstance(record, dict | list | tuple):
        for part in record.values() if isinstance(record, dict) else record:
            yield from _pictures_in(part)


@dataclass(frozen=True)
class _RecordedScene:
    bodies: tuple[_RecordedBody, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)

    def pictures(self) -> list[str]:
        """Returns the names of the pictures that it is made of."""
        parts = ([body.asset, body.material, body.decals] for body in self.bodies)
        return [*_pictures_in(self.environment), *_pictures_in(list(parts))]


@dataclass(frozen=True)
class Reached:
    """What a scene is of what was required.

    Attributes:
        value: that was measured.
        within: the range asked for, both ends included.
    """

    value: float
    within: tuple[float, float]


@dataclass(frozen=True)
class SceneRecord:
    """One line of ``scenes.jsonl``, as far as people ask for it.

    Attributes:
        scene_index: which scene.
        attempt: how many drafts were thrown away before it.
        rejections: why.
        certificate: how it came to rest.
        drawn: every drawn value by name.
        scene: what it is made of.
        reached: of each requirement, by its name.
    """

    scene_index: int
    attempt: int = 0
    rejections: tuple[str, ...] = ()
    certificate: dict[str, Any] = field(default_factory=dict)
    drawn: dict[str, Any] = field(default_factory=dict)
    scene: _RecordedScene = field(default_factory=_RecordedScene)
    reached: dict[str, Reached] = field(default_factory=dict)


@dataclass(frozen=True)
class _Header:
    categories: list[str]
    parent: str | None = None
    licences: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Line:
    name: str
    width: int
    height: int
    origin: Origin
    files: dict[str, str]
    digest: str
    objects: tuple[ObjectLabel, ...] | None = None
    lens: Lens | None = None
    moment: Moment | None = None
    scene_index: int = 0
    parent: str | None = None
    occlusions: tuple[Occlusion, ...] | None = None
    depth_unit_m: float | None = None
    baseline_m: float | None = None
    raw: RawFormat | None = None
    gains: Gains | None = None


_HEADER: TypeAdapter[_Header] = TypeAdapter(_Header)
_LINE: TypeAdapter[_Line] = TypeAdapter(_Line)
_SCENE: TypeAdapter[SceneRecord] = TypeAdapter(SceneRecord)


def read_dataset(root: Path, *, with_rejected: bool = False) -> Dataset:
    """Returns the data set of a folder; one that was translated takes its labels from its parent.

    Args:
        root: the folder.
        with_rejected: also translations that the certificate kept out, whose labels may not hold any more.

    Raises:
        InputError: no data set, one of another version, a broken line, or a parent that is missing
            or has changed.
    """
    return _read(root, frozenset(), with_rejected=with_rejected)


def read_header(root: Path) -> dict[str, Any]:
    """Returns ``dataset.json``.

    Raises:
        InputError: it is missing, broken, or of another format version.
    """
    path = root / HEADER
    if not path.is_file():
        raise InputError(root, f"no data set: there is no {HEADER} in it. Check the path.")
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not JSON ({error}). {_AGAIN}.") from error
    version = header.get("format") if isinstance(header, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            path,
            f"format version {json.dumps(version)}; this sim2cam reads {FORMAT_VERSION}. {_AGAIN}.",
        )
    try:
        _HEADER.validate_python(header)
    except ValidationError as error:
        raise InputError(path, f"{first_problem(error)}. {_AGAIN}.") from error
    return dict(header)


def read_lines(
    root: Path, kind: Literal["samples", "rejected", "certificates"] = "samples"
) -> list[RawSample]:
    """Returns the line of every sample, rejected sample or certificate, in order, from whole shards.

    Raises:
        InputError: a line is not a JSON table.
    """
    return [RawSample(path.parent, line) for path, line in _jsonl(root, kind)]


def first_parent(root: Path) -> Path:
    """Returns the folder that the first pictures of a data set's line were rendered into.

    Raises:
        InputError: a parent is missing, or they lead back to one another.
    """
    return line_of(root)[-1]


def line_of(root: Path) -> tuple[Path, ...]:
    """Returns the folder of a data set and those that it was translated from, one after another.

    Raises:
        InputError: a parent is missing, or they lead back to one another.
    """
    found = [root]
    seen: set[Path] = set()
    while (root / HEADER).is_file() and (header := read_header(root)).get("parent") is not None:
        seen.add(root.resolve())
        root = parent_folder(root, header)
        if root in seen:
            raise InputError(root, f"its parents lead back to itself. {_AGAIN}.")
        found.append(root)
    return tuple(found)


def licences_of(root: Path) -> dict[str, str]:
    """Returns those that a data set records of the files that its scenes are made of, by their names.

    Raises:
        InputError: its header is broken, or that of one that it was translated from.
    """
    folder = first_parent(root)
    if not (folder / HEADER).is_file():
        return {}
    found: dict[str, str] = read_header(folder).get("licences", {})
    return found


def read_scenes(root: Path) -> Iterator[SceneRecord]:
    """Yields what is recorded of each scene of a data set, in order; of captures nothing is.

    Raises:
        InputError: a line is not what is recorded of a scene.
    """
    for path, line in _jsonl(root, "scenes"):
        try:
            yield _SCENE.validate_python(line)
        except ValidationError as error:
            raise InputError(path, f"{first_problem(error)}. {_AGAIN}.") from error


def parse_sample(raw: RawSample, categories: tuple[str, ...]) -> Sample:
    """Returns the sample of a line.

    Raises:
        InputError: the line is broken, names a file outside its shard, or an unknown category.
    """
    path = raw.source or raw.shard / "samples.jsonl"
    name = raw.line.get("name")
    try:
        line = _LINE.validate_python(raw.line)
    except ValidationError as error:
        raise InputError(path, f"sample {name}: {first_problem(error)}. {_AGAIN}.") from error
    for place in (line.name, *line.files):
        if not stays_inside(place):
            raise InputError(path, f"sample {name}: '{place}' lies outside the shard. {_AGAIN}.")
    files = {PurePosixPath(place).parts[0]: raw.shard / place for place in line.files}
    if REJECTED in files:
        files["rgb"] = files.pop(REJECTED)
    if "rgb" not in files:
        raise InputError(path, f"sample {name}: it has no picture. {_AGAIN}.")
    if "raw" in files and line.raw is None:
        raise InputError(path, f"sample {name}: nothing tells the format of its raw. {_AGAIN}.")
    for label in line.objects or ():
        problem = _label_problem(label, line, categories)
        if problem:
            raise InputError(path, f"sample {name}: {problem}.")
    return Sample(
        name=line.name,
        rgb=files["rgb"],
        width=line.width,
        height=line.height,
        objects=line.objects,
        origin=line.origin,
        channels={name: files[name] for name in CHANNELS if name in files},
        lens=line.lens,
        moment=line.moment,
        tracks=files.get("tracks"),
        scene_index=line.scene_index,
        digest=line.digest,
        parent=line.parent,
        occlusions=line.occlusions,
        depth_unit_m=line.depth_unit_m,
        right=files.get("right"),
        baseline_m=line.baseline_m,
        raw=line.raw,
        gains=line.gains,
    )


def _label_problem(label: ObjectLabel, line: _Line, categories: tuple[str, ...]) -> str | None:
    if label.category not in categories:
        hint = did_you_mean(label.category, categories)
        return f"unknown category '{label.category}'. {hint}"
    boxes = {"box_xyxy": label.box_xyxy, "box_amodal_xyxy": label.box_amodal_xyxy}
    for name, box in boxes.items():
        if box is not None and not is_box(box):
            return f"{name} {list(box)} must be finite, with x0 < x1 and y0 < y1. {_AGAIN}"
    if not (math.isfinite(label.area_px) and label.area_px >= 0):
        return f"area_px {label.area_px} must be finite, 0 or more. {_AGAIN}"
    for what, mask in (("an amodal mask", label.amodal_mask), ("a mask", label.mask)):
        if mask and mask.size != (line.height, line.width):
            height, width = mask.size
            return f"{what} of {width}x{height} pixels, not {line.width}x{line.height}. {_AGAIN}"
    return None


def parent_folder(root: Path, header: dict[str, Any]) -> Path:
    """Returns the folder of the data set that this one was translated from."""
    return (root / str(header["parent"])).resolve()


def _jsonl(root: Path, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each line of the files of a name in whole shards, with its file."""
    refuse = _refuse_constant if name in ("samples", REJECTED) else None
    for path in sorted((root / SHARDS).glob(f"[0-9]*[0-9]/{name}.jsonl")):
        images.file_size(path)  # reading a pipe would wait for whoever writes into it
        for number, text in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                line = json.loads(text, parse_constant=refuse)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    path, f"line {number} is not JSON ({error}). {_RESUME}."
                ) from error
            if not isinstance(line, dict):
                what = name.removesuffix("s")
                raise InputError(path, f"line {number} is not a {what}. {_RESUME}.")
            yield path, line


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _read(root: Path, descendants: frozenset[Path], *, with_rejected: bool = False) -> Dataset:
    if root.resolve() in descendants:
        raise InputError(root, f"its parents lead back to itself. {_AGAIN}.")
    header = read_header(root)
    categories = tuple(header["categories"])
    lines = read_lines(root)
    if with_rejected:
        lines = sorted([*lines, *read_lines(root, REJECTED)], key=_place)
    samples = tuple(parse_sample(raw, categories) for raw in lines)
    for raw in lines:
        _check_sizes(raw)
    if not samples:
        raise InputError(
            root, "the data set holds no samples. Run its command again with --resume."
        )
    if header.get("parent") is not None:
        parent = _read(parent_folder(root, header), descendants | {root.resolve()})
        samples = _with_labels(root, samples, parent)
    return Dataset(root, categories, samples)


def _check_sizes(raw: RawSample) -> None:
    """Refuse a sample whose image is missing, or of which a file has another size than was written.

    Channels that nobody needs may have been removed; older data sets record no sizes.
    """
    sizes = raw.line.get("bytes")
    for place, size in sizes.items() if isinstance(sizes, dict) else ():
        path = raw.shard / place
        try:
            found = path.stat().st_size
        except OSError as error:
            if PurePosixPath(place).parts[0] not in ("rgb", REJECTED):
                continue
            raise InputError(path, f"is missing. {_RESUME}.") from error
        if found != size:
            raise InputError(path, f"has {found} bytes, not {size}. {_RESUME}.")


def _place(raw: RawSample) -> tuple[str, str]:
    return raw.shard.name, str(raw.line.get("name"))


def _with_labels(root: Path, samples: tuple[Sample, ...], parent: Dataset) -> tuple[Sample, ...]:
    by_digest = {sample.digest: sample for sample in parent.samples}
    joined = []
    for sample in samples:
        origin = by_digest.get(sample.parent or "")
        if origin is None:
            raise InputError(
                root,
                f"sample {sample.name} was made from a sample that is not in {parent.root} any "
                "more. Translate it again.",
            )
        joined.append(
            replace(
                sample,
                objects=origin.objects,
                channels=origin.channels,
                tracks=origin.tracks,
                scene_index=origin.scene_index,
                **{name: getattr(origin, name) for name in CARRIED},
            )
        )
    return tuple(joined)
