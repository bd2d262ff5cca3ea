"""Checks of a dataset: complete files and labels consistent with each other and the images."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data import tracks
from sim2cam.data.channels import ChannelName, read_channel
from sim2cam.data.checks.exposure_coverage import audit_coverage
from sim2cam.data.checks.geometry import audit_geometry
from sim2cam.data.checks.labels import audit_labels
from sim2cam.data.checks.motion import audit_flow, audit_tracks
from sim2cam.data.checks.small_objects import describe_small_objects
from sim2cam.data.parsing import is_inside_folder
from sim2cam.data.reader import (
    SampleRecord,
    parse_sample,
    read_header,
    read_sample_records,
    resolve_parent,
)
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.data.shards import read_quarantined
from sim2cam.data.writer import (
    ENVIRONMENT,
    EXPECTED_SAMPLES,
    HEADER,
    REJECTED,
    SHARDS,
    compute_digest,
)
from sim2cam.errors import InputError
from sim2cam.files import TEMPORARY_SUFFIX
from sim2cam.geometry.boxes import Box, is_inside_image, mask_to_box

_RESUME_HINT = "Run its command again with --resume."
_FLOW_FRAME_OFFSETS: dict[ChannelName, int] = {"flow_backward": -1, "flow_forward": 1}


@dataclass(frozen=True)
class DatasetProblem:
    """A problem in a dataset."""

    sample: str
    message: str


@dataclass(frozen=True)
class CheckReport:
    """Result of a dataset check."""

    samples: int
    objects: int
    problems: tuple[DatasetProblem, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


def check_dataset(root: Path) -> CheckReport:
    """Check a dataset and its relation to its parent; the parent itself is not checked.

    Raises:
        InputError: If there is no dataset or its record files are unreadable.
    """
    header = read_header(root)
    raw_samples, rejected = read_sample_records(root), read_sample_records(root, REJECTED)
    quarantined = read_quarantined(root)
    missing_count = len(rejected) + sum(scene.samples for scene in quarantined)
    problems = [
        *_check_sample_list(raw_samples, _read_expected_samples(root) - missing_count),
        *_check_scenes(raw_samples, header),
    ]
    parent_records = None
    if header.get("parent") is not None:
        parent_records, parent_problems = _read_parent_records(resolve_parent(root, header))
        problems.extend(parent_problems)
    objects = 0
    areas_px: dict[str, list[float]] = {}
    categories = tuple(header["categories"])
    records_by_key = {_get_sequence_key(record, 0): record for record in raw_samples}
    for record in raw_samples:
        adjacent_samples = {
            name: _try_parse(records_by_key.get(_get_sequence_key(record, offset)), categories)
            for name, offset in _FLOW_FRAME_OFFSETS.items()
        }
        messages = [*_check_sample(record, categories, adjacent_samples)]
        labelled_fields = record.fields
        if parent_records is not None:
            labelled_fields = parent_records.get(str(record.fields.get("parent")), {})
            messages.extend(_check_against_parent(record.fields, labelled_fields))
        areas_px[_get_name(record)] = _collect_areas_px(labelled_fields)
        objects += len(labelled_fields.get("objects", ()))
        problems.extend(DatasetProblem(_get_name(record), message) for message in messages)
    for record in rejected:
        problems.extend(
            DatasetProblem(_get_name(record), message) for message in _check_files(record)
        )
    leftovers = [*root.glob(f"*{TEMPORARY_SUFFIX}"), *root.glob(f"{SHARDS}/*{TEMPORARY_SUFFIX}")]
    small_objects = describe_small_objects(areas_px)
    warnings = (
        *(f"{path} is left over from a killed run" for path in sorted(leftovers)),
        *(f"quarantined: {scene.reason}" for scene in quarantined),
        *([small_objects] if small_objects else ()),
    )
    return CheckReport(len(raw_samples), objects, tuple(problems), warnings)


def _collect_areas_px(fields: dict[str, Any]) -> list[float]:
    """Return the visible pixels of the objects of a record; invalid labels are reported elsewhere."""
    labels = [label for label in fields.get("objects", ()) if isinstance(label, dict)]
    areas = [label.get("area_px") for label in labels if not label.get("is_crowd")]
    return [float(area) for area in areas if isinstance(area, int | float)]


def _get_sequence_key(record: SampleRecord, offset: int) -> tuple[Any, ...]:
    """Return scene, camera, sequence and frame index of a sample, shifted by an offset.

    Samples without a frame index have their name as the key.
    """
    frame_info = record.fields.get("frame_info")
    frame_index = frame_info.get("frame_index") if isinstance(frame_info, dict) else None
    shifted_index = (
        frame_index + offset
        if isinstance(frame_index, int)
        else (record.fields.get("name"), offset)
    )
    return (
        record.fields.get("scene_index"),
        record.fields.get("view"),
        record.fields.get("sequence"),
        shifted_index,
    )


def _try_parse(record: SampleRecord | None, categories: tuple[str, ...]) -> Sample | None:
    try:
        return parse_sample(record, categories) if record else None
    except InputError:
        return None


def _get_name(record: SampleRecord) -> str:
    return str(record.fields.get("name"))


def _count_samples_per_scene(header: dict[str, Any]) -> int | None:
    """Return the number of samples per scene, or None if the header lacks it."""
    try:
        render = header["recipe"]["render"]
        return int(render["views"]) * int(render.get("sequence", {}).get("frames", 1))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read_expected_samples(root: Path) -> int:
    path = root / ENVIRONMENT
    if not path.is_file():
        return 0
    try:
        return int(json.loads(path.read_bytes()).get(EXPECTED_SAMPLES, 0))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(path, f"not a valid environment file ({error}). {_RESUME_HINT}") from error


def _check_sample_list(records: list[SampleRecord], expected: int) -> Iterator[DatasetProblem]:
    if len(records) < expected:
        yield DatasetProblem(
            SHARDS, f"incomplete: {len(records)} of {expected} samples exist. {_RESUME_HINT}"
        )
    elif not records:
        yield DatasetProblem(HEADER, f"the dataset has no samples. {_RESUME_HINT}")
    for name, count in Counter(_get_name(record) for record in records).items():
        if count > 1:
            yield DatasetProblem(name, f"{count} samples have this name")


def _check_scenes(records: list[SampleRecord], header: dict[str, Any]) -> Iterator[DatasetProblem]:
    """Yield scenes that are split over shards, and samples with a wrong scene index.

    Sequences of real images may be longer than a shard; splitting them is allowed in adapted datasets.
    """
    per_scene = _count_samples_per_scene(header)
    shards_by_scene: dict[Any, set[str]] = defaultdict(set)
    scenes_by_shard: dict[Path, set[Any]] = defaultdict(set)
    for record in records:
        scene, name = record.fields.get("scene_index"), _get_name(record)
        if scene is not None:
            shards_by_scene[scene].add(record.shard.name)
            scenes_by_shard[record.shard].add(scene)
        if per_scene and name.isdecimal() and scene != int(name) // per_scene:
            yield DatasetProblem(name, f"scene_index is {scene}, not {int(name) // per_scene}")
    for scene, names in shards_by_scene.items():
        if len(names) > 1 and header.get("origin") != "adapted":
            yield DatasetProblem(
                SHARDS, f"scene {scene} is split over shards {', '.join(sorted(names))}"
            )
    for shard, scene_indices in scenes_by_shard.items():
        listed_indices = _read_listed_scenes(shard)
        if listed_indices is not None and listed_indices != scene_indices:
            yield DatasetProblem(
                f"{shard.name}/scenes.jsonl",
                f"lists the scenes {sorted(listed_indices)}, but the samples are of {sorted(scene_indices)}",
            )


def _read_listed_scenes(shard: Path) -> set[int] | None:
    """Return the scene indices that a shard lists, or None without a list."""
    path = shard / "scenes.jsonl"
    if not path.is_file():
        return None
    try:
        return {json.loads(text)["scene_index"] for text in path.read_bytes().splitlines()}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"not a list of scenes ({error}).") from error


def _read_parent_records(root: Path) -> tuple[dict[str, dict[str, Any]], list[DatasetProblem]]:
    try:
        read_header(root)
        return {
            compute_digest(record.fields): record.fields for record in read_sample_records(root)
        }, []
    except InputError as error:
        return {}, [DatasetProblem(HEADER, f"the parent cannot be read: {error}")]


def _check_against_parent(fields: dict[str, Any], parent: dict[str, Any]) -> Iterator[str]:
    if not parent:
        yield f"no sample of the parent has the digest {fields.get('parent')}"
        return
    for key in ("width", "height", "scene_index"):
        if fields.get(key) != parent.get(key):
            yield f"{key} is {fields.get(key)}, but its parent has {parent.get(key)}"


def _check_sample(
    record: SampleRecord,
    categories: tuple[str, ...],
    adjacent_samples: Mapping[ChannelName, Sample | None],
) -> Iterator[str]:
    if compute_digest(record.fields) != record.fields.get("digest"):
        yield "its record has changed: the digest differs"
    try:
        sample = parse_sample(record, categories)
    except InputError as error:
        yield str(error)
        return
    yield from _check_files(record)
    for index, label in enumerate(sample.objects or ()):
        for message in _check_label(label, sample):
            yield f"object {index} (category {label.category}): {message}"
    if all((record.shard / name).is_file() for name in record.fields["files"]):
        yield from _check_pixels(sample, adjacent_samples)


def _check_files(record: SampleRecord) -> Iterator[str]:
    files = record.fields.get("files")
    if not isinstance(files, dict) or not all(is_inside_folder(name) for name in files):
        yield "its record lists no valid files"
        return
    for name, digest in files.items():
        path = record.shard / name
        if not path.is_file():
            yield f"{name} is missing"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield f"{name} has changed: the SHA-256 differs"


def _check_pixels(
    sample: Sample, adjacent_samples: Mapping[ChannelName, Sample | None]
) -> Iterator[str]:
    try:
        sizes = {"rgb": images.read_size(sample.rgb)}
        if sample.right_rgb is not None:
            sizes["right"] = images.read_size(sample.right_rgb)
        channels = {name: read_channel(name, path) for name, path in sample.channels.items()}
    except InputError as error:
        yield str(error)
        return
    sizes |= {name: (values.shape[1], values.shape[0]) for name, values in channels.items()}
    wrong_sizes = {
        name: size for name, size in sizes.items() if size != (sample.width, sample.height)
    }
    for name, (width, height) in wrong_sizes.items():
        yield f"{name} is {width}x{height} pixels, not {sample.width}x{sample.height}"
    if wrong_sizes or "ids" not in channels:
        return
    ids = channels["ids"]
    yield from _check_masks(sample.objects or (), ids)
    if "depth" in channels:
        missing_count = int((channels["depth"][ids > 0] == 0).sum())
        if missing_count:
            yield f"{missing_count} pixels of objects have no depth"
    yield from audit_geometry(sample, channels)
    yield from audit_labels(sample, channels)
    yield from audit_coverage(sample, channels)
    yield from _check_sequence(sample, channels, adjacent_samples)


def _check_sequence(
    sample: Sample,
    channels: Mapping[ChannelName, NDArray[Any]],
    adjacent_samples: Mapping[ChannelName, Sample | None],
) -> Iterator[str]:
    """Yield flows and tracks that contradict the labels; problems of adjacent samples are reported there."""
    if sample.tracks is not None:
        try:
            yield from audit_tracks(tracks.read_tracks(sample.tracks), sample, channels)
        except InputError as error:
            yield str(error)
    for name, adjacent in adjacent_samples.items():
        if adjacent is None or not {name, "depth"} <= channels.keys():
            continue
        with suppress(InputError, KeyError):
            ids = read_channel("ids", adjacent.channels["ids"])
            yield from audit_flow(name, sample, channels, adjacent, ids)


def _check_label(label: ObjectLabel, sample: Sample) -> Iterator[str]:
    if not _box_contains((0.0, 0.0, float(sample.width), float(sample.height)), label.box_xyxy):
        yield f"box {label.box_xyxy} is not inside the image"
    fraction = label.visible_fraction
    if fraction is not None and not 0 < fraction <= 1:
        yield f"visible_fraction {fraction} is not in (0, 1]"
    truncation = label.truncation
    if truncation is not None and not 0 <= truncation <= 1:
        yield f"truncation {truncation} is not in [0, 1]"
    amodal = label.box_amodal_xyxy
    if truncation and amodal is not None and is_inside_image(amodal, sample.width, sample.height):
        yield f"truncation is {truncation}, but the amodal box {amodal} is inside the image"
    if amodal is not None and not _box_contains(amodal, label.box_xyxy):
        yield f"box {label.box_xyxy} is not inside the amodal box {amodal}"


def _check_masks(objects: tuple[ObjectLabel, ...], ids: NDArray[np.uint16]) -> Iterator[str]:
    id_counts = Counter(label.instance_id for label in objects)
    visible_ids = {int(number) for number in np.unique(ids)} - {0}
    for number in sorted(visible_ids - set(id_counts)):
        yield f"instance {number} of the ids channel has no object"
    for instance_id, count in id_counts.items():
        if count > 1:
            yield f"{count} objects have the instance_id {instance_id}"
    for index, label in enumerate(objects):
        location = f"object {index} (category {label.category})"
        if label.instance_id not in visible_ids:
            yield f"{location}: instance_id {label.instance_id} is not in the ids channel"
            continue
        mask = ids == label.instance_id
        if mask_to_box(mask) != label.box_xyxy:
            yield f"{location}: box {label.box_xyxy} is not the box of its mask, {mask_to_box(mask)}"
        if int(mask.sum()) != label.area_px:
            yield f"{location}: area_px {label.area_px} is not the area of its mask, {int(mask.sum())}"


def _box_contains(outer: Box, inner: Box) -> bool:
    x0, y0, x1, y1 = inner
    return outer[0] <= x0 < x1 <= outer[2] and outer[1] <= y0 < y1 <= outer[3]
