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
from sim2cam.data.parsing import format_validation_error, is_inside_folder
from sim2cam.data.sample import (
    INHERITED_FIELDS,
    CameraGains,
    Dataset,
    FrameInfo,
    ObjectLabel,
    Occlusion,
    Origin,
    RawFormat,
    Sample,
)
from sim2cam.data.writer import ENVIRONMENT, FORMAT_VERSION, HEADER, REJECTED, SHARDS
from sim2cam.errors import InputError, suggest_name
from sim2cam.geometry.boxes import is_valid_box
from sim2cam.geometry.lens import Lens

_REGENERATE_HINT = "Generate the data set again"
_RESUME_HINT = "Run its command again with --resume: it makes damaged shards anew"


@dataclass(frozen=True)
class SampleRecord:
    """What is recorded of one sample.

    Attributes:
        shard: the folder in which its files are.
        fields: of ``samples.jsonl``.
        source: what it was read from, for errors; None for ``samples.jsonl``.
    """

    shard: Path
    fields: dict[str, Any]
    source: Path | None = None


@dataclass(frozen=True)
class _BodyRecord:
    asset: dict[str, Any]
    material: dict[str, Any] = field(default_factory=dict)
    decals: tuple[dict[str, Any], ...] = ()


def _find_image_files(record: Any) -> Iterator[str]:
    """Yield the names of the picture files in what was recorded of a scene."""
    if isinstance(record, dict) and record.keys() == {"path", "digest"}:
        yield str(record["path"])
    elif isinstance(record, dict | list | tuple):
        for part in record.values() if isinstance(record, dict) else record:
            yield from _find_image_files(part)


@dataclass(frozen=True)
class _SceneContent:
    bodies: tuple[_BodyRecord, ...] = ()
    environment: dict[str, Any] = field(default_factory=dict)

    def list_image_files(self) -> list[str]:
        """Return the names of the pictures that it is made of."""
        parts = ([body.asset, body.material, body.decals] for body in self.bodies)
        return [*_find_image_files(self.environment), *_find_image_files(list(parts))]


@dataclass(frozen=True)
class RequirementResult:
    """What a scene is of what was required.

    Attributes:
        value: that was measured.
        required_range: the range asked for, both ends included.
    """

    value: float
    required_range: tuple[float, float]


@dataclass(frozen=True)
class SceneSummary:
    """One line of ``scenes.jsonl``, as far as people ask for it.

    Attributes:
        scene_index: which scene.
        attempt: how many drafts were thrown away before it.
        rejections: why.
        certificate: how it came to rest.
        sampled_values: every drawn value by name.
        scene: what it is made of.
        requirement_values: of each requirement, by its name.
    """

    scene_index: int
    attempt: int = 0
    rejections: tuple[str, ...] = ()
    certificate: dict[str, Any] = field(default_factory=dict)
    sampled_values: dict[str, Any] = field(default_factory=dict)
    scene: _SceneContent = field(default_factory=_SceneContent)
    requirement_values: dict[str, RequirementResult] = field(default_factory=dict)


@dataclass(frozen=True)
class _Header:
    categories: list[str]
    parent: str | None = None
    licences: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _SampleFields:
    name: str
    width: int
    height: int
    origin: Origin
    files: dict[str, str]
    digest: str
    objects: tuple[ObjectLabel, ...] | None = None
    lens: Lens | None = None
    frame_info: FrameInfo | None = None
    scene_index: int = 0
    parent: str | None = None
    occlusions: tuple[Occlusion, ...] | None = None
    depth_unit_m: float | None = None
    baseline_m: float | None = None
    raw_format: RawFormat | None = None
    gains: CameraGains | None = None


_HEADER: TypeAdapter[_Header] = TypeAdapter(_Header)
_SAMPLE_FIELDS: TypeAdapter[_SampleFields] = TypeAdapter(_SampleFields)
_SCENE_SUMMARY: TypeAdapter[SceneSummary] = TypeAdapter(SceneSummary)


def read_dataset(root: Path, *, with_rejected: bool = False) -> Dataset:
    """Return the data set of a folder; one that was translated takes its labels from its parent.

    Args:
        root: the folder.
        with_rejected: also translations that the certificate kept out, whose labels may not hold any more.

    Raises:
        InputError: no data set, one of another version, a broken line, or a parent that is missing
            or has changed.
    """
    return _read_with_parents(root, frozenset(), with_rejected=with_rejected)


def read_header(root: Path) -> dict[str, Any]:
    """Return ``dataset.json``.

    Raises:
        InputError: it is missing, broken, or of another format version.
    """
    path = root / HEADER
    if not path.is_file():
        raise InputError(root, f"no data set: there is no {HEADER} in it. Check the path.")
    try:
        header = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(path, f"not JSON ({error}). {_REGENERATE_HINT}.") from error
    version = header.get("format") if isinstance(header, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            path,
            f"format version {json.dumps(version)}{_describe_writer(root)}; this sim2cam reads "
            f"{FORMAT_VERSION}. {_REGENERATE_HINT}.",
        )
    try:
        _HEADER.validate_python(header)
    except ValidationError as error:
        raise InputError(path, f"{format_validation_error(error)}. {_REGENERATE_HINT}.") from error
    return dict(header)


def _describe_writer(root: Path) -> str:
    """Return the version of sim2cam that wrote a dataset, as ``environment.json`` has it."""
    try:
        facts = json.loads((root / ENVIRONMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    version = facts.get("sim2cam") if isinstance(facts, dict) else None
    return f", written by sim2cam {version}" if isinstance(version, str) else ""


def read_sample_records(
    root: Path, kind: Literal["samples", "rejected", "certificates"] = "samples"
) -> list[SampleRecord]:
    """Return the line of every sample, rejected sample or certificate, in order, from whole shards.

    Raises:
        InputError: a line is not a JSON table.
    """
    return [SampleRecord(path.parent, line) for path, line in _iterate_jsonl(root, kind)]


def find_rendered_ancestor(root: Path) -> Path:
    """Return the folder that the first pictures of a data set's line were rendered into.

    Raises:
        InputError: a parent is missing, or they lead back to one another.
    """
    return list_lineage(root)[-1]


def list_lineage(root: Path) -> tuple[Path, ...]:
    """Return the folder of a data set and those that it was translated from, one after another.

    Raises:
        InputError: a parent is missing, or they lead back to one another.
    """
    found = [root]
    seen: set[Path] = set()
    while (root / HEADER).is_file() and (header := read_header(root)).get("parent") is not None:
        seen.add(root.resolve())
        root = resolve_parent(root, header)
        if root in seen:
            raise InputError(root, f"its parents lead back to itself. {_REGENERATE_HINT}.")
        found.append(root)
    return tuple(found)


def read_licences(root: Path) -> dict[str, str]:
    """Return those that a data set records of the files that its scenes are made of, by their names.

    Raises:
        InputError: its header is broken, or that of one that it was translated from.
    """
    folder = find_rendered_ancestor(root)
    if not (folder / HEADER).is_file():
        return {}
    found: dict[str, str] = read_header(folder).get("licences", {})
    return found


def read_scenes(root: Path) -> Iterator[SceneSummary]:
    """Yield what is recorded of each scene of a data set, in order; of captures nothing is.

    Raises:
        InputError: a line is not what is recorded of a scene.
    """
    for path, line in _iterate_jsonl(root, "scenes"):
        try:
            yield _SCENE_SUMMARY.validate_python(line)
        except ValidationError as error:
            raise InputError(
                path, f"{format_validation_error(error)}. {_REGENERATE_HINT}."
            ) from error


def parse_sample(record: SampleRecord, categories: tuple[str, ...]) -> Sample:
    """Return the sample of a line.

    Raises:
        InputError: the line is broken, names a file outside its shard, or an unknown category.
    """
    path = record.source or record.shard / "samples.jsonl"
    name = record.fields.get("name")
    try:
        line = _SAMPLE_FIELDS.validate_python(record.fields)
    except ValidationError as error:
        raise InputError(
            path, f"sample {name}: {format_validation_error(error)}. {_REGENERATE_HINT}."
        ) from error
    for place in (line.name, *line.files):
        if not is_inside_folder(place):
            raise InputError(
                path, f"sample {name}: '{place}' lies outside the shard. {_REGENERATE_HINT}."
            )
    files = {PurePosixPath(place).parts[0]: record.shard / place for place in line.files}
    if REJECTED in files:
        files["rgb"] = files.pop(REJECTED)
    if "rgb" not in files:
        raise InputError(path, f"sample {name}: it has no picture. {_REGENERATE_HINT}.")
    if "raw" in files and line.raw_format is None:
        raise InputError(
            path, f"sample {name}: nothing tells the format of its raw. {_REGENERATE_HINT}."
        )
    for label in line.objects or ():
        problem = _find_label_problem(label, line, categories)
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
        frame_info=line.frame_info,
        tracks=files.get("tracks"),
        scene_index=line.scene_index,
        digest=line.digest,
        parent=line.parent,
        occlusions=line.occlusions,
        depth_unit_m=line.depth_unit_m,
        right_rgb=files.get("right"),
        baseline_m=line.baseline_m,
        raw_format=line.raw_format,
        gains=line.gains,
    )


def _find_label_problem(
    label: ObjectLabel, fields: _SampleFields, categories: tuple[str, ...]
) -> str | None:
    if label.category not in categories:
        hint = suggest_name(label.category, categories)
        return f"unknown category '{label.category}'. {hint}"
    boxes = {"box_xyxy": label.box_xyxy, "box_amodal_xyxy": label.box_amodal_xyxy}
    for name, box in boxes.items():
        if box is not None and not is_valid_box(box):
            return (
                f"{name} {list(box)} must be finite, with x0 < x1 and y0 < y1. {_REGENERATE_HINT}"
            )
    if not (math.isfinite(label.area_px) and label.area_px >= 0):
        return f"area_px {label.area_px} must be finite, 0 or more. {_REGENERATE_HINT}"
    for what, mask in (("an amodal mask", label.amodal_mask), ("a mask", label.mask)):
        if mask and mask.size != (fields.height, fields.width):
            height, width = mask.size
            return f"{what} of {width}x{height} pixels, not {fields.width}x{fields.height}. {_REGENERATE_HINT}"
    return None


def resolve_parent(root: Path, header: dict[str, Any]) -> Path:
    """Return the folder of the data set that this one was translated from."""
    return (root / str(header["parent"])).resolve()


def _iterate_jsonl(root: Path, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield each line of the files of a name in whole shards, with its file."""
    refuse = _refuse_constant if name in ("samples", REJECTED) else None
    for path in sorted((root / SHARDS).glob(f"[0-9]*[0-9]/{name}.jsonl")):
        images.get_file_size(path)  # reading a pipe would wait for whoever writes into it
        for number, text in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                line = json.loads(text, parse_constant=refuse)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    path, f"line {number} is not JSON ({error}). {_RESUME_HINT}."
                ) from error
            if not isinstance(line, dict):
                what = name.removesuffix("s")
                raise InputError(path, f"line {number} is not a {what}. {_RESUME_HINT}.")
            yield path, line


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _read_with_parents(
    root: Path, descendants: frozenset[Path], *, with_rejected: bool = False
) -> Dataset:
    if root.resolve() in descendants:
        raise InputError(root, f"its parents lead back to itself. {_REGENERATE_HINT}.")
    header = read_header(root)
    categories = tuple(header["categories"])
    lines = read_sample_records(root)
    if with_rejected:
        lines = sorted([*lines, *read_sample_records(root, REJECTED)], key=_get_sort_key)
    samples = tuple(parse_sample(raw, categories) for raw in lines)
    for raw in lines:
        _check_file_sizes(raw)
    if not samples:
        raise InputError(
            root, "the data set holds no samples. Run its command again with --resume."
        )
    if header.get("parent") is not None:
        parent = _read_with_parents(resolve_parent(root, header), descendants | {root.resolve()})
        samples = _inherit_labels(root, samples, parent)
    return Dataset(root, categories, samples)


def _check_file_sizes(record: SampleRecord) -> None:
    """Refuse a sample whose image is missing, or of which a file has another size than was written.

    Channels that nobody needs may have been removed; older data sets record no sizes.
    """
    sizes = record.fields.get("bytes")
    for place, size in sizes.items() if isinstance(sizes, dict) else ():
        path = record.shard / place
        try:
            found = path.stat().st_size
        except OSError as error:
            if PurePosixPath(place).parts[0] not in ("rgb", REJECTED):
                continue
            raise InputError(path, f"is missing. {_RESUME_HINT}.") from error
        if found != size:
            raise InputError(path, f"has {found} bytes, not {size}. {_RESUME_HINT}.")


def _get_sort_key(record: SampleRecord) -> tuple[str, str]:
    return record.shard.name, str(record.fields.get("name"))


def _inherit_labels(root: Path, samples: tuple[Sample, ...], parent: Dataset) -> tuple[Sample, ...]:
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
                **{name: getattr(origin, name) for name in INHERITED_FIELDS},
            )
        )
    return tuple(joined)
