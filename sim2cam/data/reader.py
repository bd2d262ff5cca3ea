"""Reader of sim2cam datasets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import TypeAdapter

from sim2cam import images
from sim2cam.data.channels import CHANNELS
from sim2cam.data.parsing import convert_validation_errors, is_inside_folder
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

_REGENERATE_HINT = "Generate the dataset again"
_RESUME_HINT = "Run its command again with --resume to replace damaged shards"


@dataclass(frozen=True)
class SampleRecord:
    """Recorded fields of one sample.

    Attributes:
        shard: Folder of the sample's files.
        fields: Fields of its line in ``samples.jsonl``.
        source: File of the record, for errors; None for ``samples.jsonl``.
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
        """Return the names of image files used in the scene."""
        records = ([body.asset, body.material, body.decals] for body in self.bodies)
        return [*_find_image_files(self.environment), *_find_image_files(list(records))]


@dataclass(frozen=True)
class RequirementResult:
    """Measured value of a scene requirement."""

    value: float
    required_range: tuple[float, float]


@dataclass(frozen=True)
class SceneSummary:
    """Fields of one line of ``scenes.jsonl``."""

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
    credits: dict[str, str] = field(default_factory=dict)


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
    """Read a dataset; a translated one takes its labels from its parent.

    Args:
        with_rejected: Include translations rejected by the certificate, whose labels may be wrong.

    Raises:
        InputError: If there is no dataset, its version differs, a line is broken, or a parent is missing or has
            changed.
    """
    return _read_with_parents(root, frozenset(), with_rejected=with_rejected)


def read_header(root: Path) -> dict[str, Any]:
    """Read ``dataset.json``.

    Raises:
        InputError: If it is missing, broken or of another format version.
    """
    path = root / HEADER
    if not path.is_file():
        raise InputError(root, f"not a dataset: it has no {HEADER}. Check the path.")
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
    with convert_validation_errors(path, f"{_REGENERATE_HINT}."):
        _HEADER.validate_python(header)
    return dict(header)


def _describe_writer(root: Path) -> str:
    try:
        environment = json.loads((root / ENVIRONMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ""
    version = environment.get("sim2cam") if isinstance(environment, dict) else None
    return f", written by sim2cam {version}" if isinstance(version, str) else ""


def read_sample_records(
    root: Path, kind: Literal["samples", "rejected", "certificates"] = "samples"
) -> list[SampleRecord]:
    """Return the records of samples, rejected samples or certificates in complete shards, in order.

    Raises:
        InputError: If a line is not a JSON table.
    """
    return [SampleRecord(path.parent, line) for path, line in _iterate_jsonl(root, kind)]


def find_rendered_ancestor(root: Path) -> Path:
    """Return the folder of the renders from which a dataset descends.

    Raises:
        InputError: If a parent is missing or the parents form a cycle.
    """
    return list_lineage(root)[-1]


def list_lineage(root: Path) -> tuple[Path, ...]:
    """Return the folder of a dataset and those of its ancestors, nearest first.

    Raises:
        InputError: If a parent is missing or the parents form a cycle.
    """
    folders = [root]
    visited: set[Path] = set()
    while (root / HEADER).is_file() and (header := read_header(root)).get("parent") is not None:
        visited.add(root.resolve())
        root = resolve_parent(root, header)
        if root in visited:
            raise InputError(root, f"its parents lead back to itself. {_REGENERATE_HINT}.")
        folders.append(root)
    return tuple(folders)


def read_licences(root: Path) -> dict[str, str]:
    """Return the licences of a dataset's assets by file name.

    Raises:
        InputError: If the header of the dataset or of an ancestor is broken.
    """
    return _read_asset_texts(root, "licences")


def read_credits(root: Path) -> dict[str, str]:
    """Return the authors and sources of a dataset's assets by file name.

    Raises:
        InputError: If the header of the dataset or of an ancestor is broken.
    """
    return _read_asset_texts(root, "credits")


def _read_asset_texts(root: Path, key: str) -> dict[str, str]:
    folder = find_rendered_ancestor(root)
    if not (folder / HEADER).is_file():
        return {}
    texts: dict[str, str] = read_header(folder).get(key, {})
    return texts


def read_recipe_name(root: Path) -> str:
    """Return the name of the recipe of a dataset's renders; empty for other datasets.

    Raises:
        InputError: If the header of the dataset or of an ancestor is broken.
    """
    folder = find_rendered_ancestor(root)
    if not (folder / HEADER).is_file():
        return ""
    recipe = read_header(folder).get("recipe")
    return str(recipe.get("name", "")) if isinstance(recipe, dict) else ""


def read_scenes(root: Path) -> Iterator[SceneSummary]:
    """Yield the scene records of a dataset in order; real images have none.

    Raises:
        InputError: If a line is not a scene record.
    """
    for path, line in _iterate_jsonl(root, "scenes"):
        with convert_validation_errors(path, f"{_REGENERATE_HINT}."):
            yield _SCENE_SUMMARY.validate_python(line)


def parse_sample(record: SampleRecord, categories: tuple[str, ...]) -> Sample:
    """Convert a record to a sample.

    Raises:
        InputError: If the record is broken, names a file outside its shard or an unknown category.
    """
    path = record.source or record.shard / "samples.jsonl"
    name = record.fields.get("name")
    with convert_validation_errors(path, f"{_REGENERATE_HINT}.", prefix=f"sample {name}: "):
        fields = _SAMPLE_FIELDS.validate_python(record.fields)
    for file_name in (fields.name, *fields.files):
        if not is_inside_folder(file_name):
            raise InputError(
                path, f"sample {name}: '{file_name}' lies outside the shard. {_REGENERATE_HINT}."
            )
    files = {
        PurePosixPath(file_name).parts[0]: record.shard / file_name for file_name in fields.files
    }
    if REJECTED in files:
        files["rgb"] = files.pop(REJECTED)
    if "rgb" not in files:
        raise InputError(path, f"sample {name}: it has no image. {_REGENERATE_HINT}.")
    if "raw" in files and fields.raw_format is None:
        raise InputError(
            path, f"sample {name}: the format of its raw image is missing. {_REGENERATE_HINT}."
        )
    for label in fields.objects or ():
        problem = _find_label_problem(label, fields, categories)
        if problem:
            raise InputError(path, f"sample {name}: {problem}.")
    return Sample(
        rgb=files["rgb"],
        channels={name: files[name] for name in CHANNELS if name in files},
        tracks=files.get("tracks"),
        right_rgb=files.get("right"),
        **{key: value for key, value in vars(fields).items() if key != "files"},
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
    for mask_name, mask in (("an amodal mask", label.amodal_mask), ("a mask", label.mask)):
        if mask and mask.size != (fields.height, fields.width):
            height, width = mask.size
            return f"{mask_name} of {width}x{height} pixels, not {fields.width}x{fields.height}. {_REGENERATE_HINT}"
    return None


def resolve_parent(root: Path, header: dict[str, Any]) -> Path:
    """Return the folder of the dataset that this one was translated from."""
    return (root / str(header["parent"])).resolve()


def _iterate_jsonl(root: Path, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    refuse = _refuse_constant if name in ("samples", REJECTED) else None
    for path in sorted((root / SHARDS).glob(f"[0-9]*[0-9]/{name}.jsonl")):
        images.get_file_size(path)  # refuses pipes, on which reading would block
        for number, text in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                line = json.loads(text, parse_constant=refuse)
            except (ValueError, RecursionError) as error:
                raise InputError(
                    path, f"line {number} is not JSON ({error}). {_RESUME_HINT}."
                ) from error
            if not isinstance(line, dict):
                record_name = name.removesuffix("s")
                raise InputError(path, f"line {number} is not a {record_name}. {_RESUME_HINT}.")
            yield path, line


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _read_with_parents(
    root: Path, descendants: frozenset[Path], *, with_rejected: bool = False
) -> Dataset:
    if root.resolve() in descendants:
        raise InputError(root, f"its parents lead back to itself. {_REGENERATE_HINT}.")
    header = read_header(root)
    categories = tuple(header["categories"])
    records = read_sample_records(root)
    if with_rejected:
        records = sorted(
            [*records, *read_sample_records(root, REJECTED)],
            key=lambda record: (record.shard.name, str(record.fields.get("name"))),
        )
    samples = tuple(parse_sample(record, categories) for record in records)
    for record in records:
        _check_file_sizes(record)
    if not samples:
        raise InputError(root, "the dataset has no samples. Run its command again with --resume.")
    if header.get("parent") is not None:
        parent = _read_with_parents(resolve_parent(root, header), descendants | {root.resolve()})
        samples = _inherit_labels(root, samples, parent)
    return Dataset(root, categories, samples)


def _check_file_sizes(record: SampleRecord) -> None:
    """Raise InputError if a sample's image is missing or a file has another size than recorded.

    Unused channels may have been removed. Older datasets record no sizes.
    """
    sizes = record.fields.get("bytes")
    for name, size in sizes.items() if isinstance(sizes, dict) else ():
        path = record.shard / name
        try:
            actual_size = path.stat().st_size
        except OSError as error:
            if PurePosixPath(name).parts[0] not in ("rgb", REJECTED):
                continue
            raise InputError(path, f"is missing. {_RESUME_HINT}.") from error
        if actual_size != size:
            raise InputError(path, f"has {actual_size} bytes, not {size}. {_RESUME_HINT}.")


def _inherit_labels(root: Path, samples: tuple[Sample, ...], parent: Dataset) -> tuple[Sample, ...]:
    by_digest = {sample.digest: sample for sample in parent.samples}
    inherited = []
    for sample in samples:
        source = by_digest.get(sample.parent or "")
        if source is None:
            raise InputError(
                root,
                f"the source of sample {sample.name} is not in {parent.root}. Translate it again.",
            )
        inherited.append(
            replace(
                sample,
                objects=source.objects,
                channels=source.channels,
                tracks=source.tracks,
                scene_index=source.scene_index,
                **{name: getattr(source, name) for name in INHERITED_FIELDS},
            )
        )
    return tuple(inherited)
