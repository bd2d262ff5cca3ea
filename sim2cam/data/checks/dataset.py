"""Checking a data set: files whole, labels that agree with one another and with the pictures."""

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
    """Something that is wrong.

    Attributes:
        sample: its name, or the file that it is about.
        message: in words, with the values.
    """

    sample: str
    message: str


@dataclass(frozen=True)
class CheckReport:
    """What a check found.

    Attributes:
        samples: how many there are.
        objects: how many labels they have, their parents' included.
        problems: everything wrong; empty for a sound data set.
        warnings: what is no fault of the samples, like folders left behind by a killed run.
    """

    samples: int
    objects: int
    problems: tuple[DatasetProblem, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


def check_dataset(root: Path) -> CheckReport:
    """Return what is wrong with a data set, or with its ties to its parent.

    The pictures and labels of a parent are not checked; that is the parent's own check.

    Raises:
        InputError: there is no data set, or its lists cannot be read at all.
    """
    header = read_header(root)
    raw_samples, rejected = read_sample_records(root), read_sample_records(root, REJECTED)
    quarantined = read_quarantined(root)
    lacking = len(rejected) + sum(scene.samples for scene in quarantined)
    problems = [
        *_check_sample_list(raw_samples, _read_expected_samples(root) - lacking),
        *_check_scenes(raw_samples, header),
    ]
    parents = None
    if header.get("parent") is not None:
        parents, more = _read_parent_records(resolve_parent(root, header))
        problems.extend(more)
    objects = 0
    categories = tuple(header["categories"])
    by_place = {_get_sequence_key(raw, 0): raw for raw in raw_samples}
    for raw in raw_samples:
        beside = {
            name: _try_parse(by_place.get(_get_sequence_key(raw, step)), categories)
            for name, step in _FLOW_FRAME_OFFSETS.items()
        }
        whats = [*_check_sample(raw, categories, beside)]
        labelled = raw.fields
        if parents is not None:
            labelled = parents.get(str(raw.fields.get("parent")), {})
            whats.extend(_check_against_parent(raw.fields, labelled))
        objects += len(labelled.get("objects", ()))
        problems.extend(DatasetProblem(_get_name(raw), what) for what in whats)
    for raw in rejected:
        problems.extend(DatasetProblem(_get_name(raw), what) for what in _check_files(raw))
    left = [*root.glob(f"*{TEMPORARY_SUFFIX}"), *root.glob(f"{SHARDS}/*{TEMPORARY_SUFFIX}")]
    warnings = (
        *(f"{path} was left behind by a run that was killed" for path in sorted(left)),
        *(f"quarantined: {scene.reason}" for scene in quarantined),
    )
    return CheckReport(len(raw_samples), objects, tuple(problems), warnings)


def _get_sequence_key(raw: SampleRecord, offset: int) -> tuple[Any, ...]:
    """Return the scene, film and number in it of a sample, or of one some steps after it.

    The film is told by the camera; where a picture was translated with its labels, by its own number.
    """
    moment = raw.fields.get("frame_info")
    frame = moment.get("frame_index") if isinstance(moment, dict) else None
    number = frame + offset if isinstance(frame, int) else (raw.fields.get("name"), offset)
    return raw.fields.get("scene_index"), raw.fields.get("view"), raw.fields.get("sequence"), number


def _try_parse(raw: SampleRecord | None, categories: tuple[str, ...]) -> Sample | None:
    """Return the sample of a line; None where there is none that can be read."""
    try:
        return parse_sample(raw, categories) if raw else None
    except InputError:
        return None


def _get_name(raw: SampleRecord) -> str:
    return str(raw.fields.get("name"))


def _count_samples_per_scene(header: dict[str, Any]) -> int | None:
    """Return how many samples each scene has; None when the header does not say."""
    try:
        render = header["recipe"]["render"]
        return int(render["views"]) * int(render.get("sequence", {}).get("frames", 1))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _read_expected_samples(root: Path) -> int:
    """Return how many samples the data set was meant to have; 0 when that is not recorded."""
    path = root / ENVIRONMENT
    if not path.is_file():
        return 0
    try:
        return int(json.loads(path.read_bytes()).get(EXPECTED_SAMPLES, 0))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(path, f"not the facts of a run ({error}). {_RESUME_HINT}") from error


def _check_sample_list(raw_samples: list[SampleRecord], expected: int) -> Iterator[DatasetProblem]:
    if len(raw_samples) < expected:
        yield DatasetProblem(
            SHARDS,
            f"incomplete: {len(raw_samples)} of {expected} samples are there. {_RESUME_HINT}",
        )
    elif not raw_samples:
        yield DatasetProblem(HEADER, f"the data set holds no samples. {_RESUME_HINT}")
    for name, times in Counter(_get_name(raw) for raw in raw_samples).items():
        if times > 1:
            yield DatasetProblem(name, f"{times} samples have this name")


def _check_scenes(
    raw_samples: list[SampleRecord], header: dict[str, Any]
) -> Iterator[DatasetProblem]:
    """Yield scenes that are split over shards, and samples that are not of the scene they say.

    Those of captures, which may be longer than a shard, are split where they are translated.
    """
    per_scene = _count_samples_per_scene(header)
    shards: dict[Any, set[str]] = defaultdict(set)
    scenes: dict[Path, set[Any]] = defaultdict(set)
    for raw in raw_samples:
        scene, name = raw.fields.get("scene_index"), _get_name(raw)
        if scene is not None:
            shards[scene].add(raw.shard.name)
            scenes[raw.shard].add(scene)
        if per_scene and name.isdecimal() and scene != int(name) // per_scene:
            yield DatasetProblem(name, f"scene_index is {scene}, not {int(name) // per_scene}")
    for scene, names in shards.items():
        if len(names) > 1 and header.get("origin") != "adapted":
            yield DatasetProblem(
                SHARDS, f"scene {scene} is split over shards {', '.join(sorted(names))}"
            )
    for shard, found in scenes.items():
        listed = _read_listed_scenes(shard)
        if listed is not None and listed != found:
            yield DatasetProblem(
                f"{shard.name}/scenes.jsonl",
                f"lists the scenes {sorted(listed)}, but the samples are of {sorted(found)}",
            )


def _read_listed_scenes(shard: Path) -> set[int] | None:
    """Return the scenes that a shard lists; None when it has no list."""
    path = shard / "scenes.jsonl"
    if not path.is_file():
        return None
    try:
        return {json.loads(text)["scene_index"] for text in path.read_bytes().splitlines()}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"not a list of scenes ({error}).") from error


def _read_parent_records(root: Path) -> tuple[dict[str, dict[str, Any]], list[DatasetProblem]]:
    """Return the lines of the parent by the digest that they have, and what is wrong with it."""
    try:
        read_header(root)
        return {compute_digest(raw.fields): raw.fields for raw in read_sample_records(root)}, []
    except InputError as error:
        return {}, [DatasetProblem(HEADER, f"its parent cannot be read: {error}")]


def _check_against_parent(line: dict[str, Any], parent: dict[str, Any]) -> Iterator[str]:
    if not parent:
        yield f"no sample of the parent has the digest {line.get('parent')}"
        return
    for key in ("width", "height", "scene_index"):
        if line.get(key) != parent.get(key):
            yield f"{key} is {line.get(key)}, but that of its parent is {parent.get(key)}"


def _check_sample(
    raw: SampleRecord,
    categories: tuple[str, ...],
    adjacent_samples: Mapping[ChannelName, Sample | None],
) -> Iterator[str]:
    """Yield what is wrong with a sample: its line, its files, its labels.

    Args:
        raw: the sample.
        categories: of the data set.
        adjacent_samples: the samples to which its flows lead.
    """
    if compute_digest(raw.fields) != raw.fields.get("digest"):
        yield "its line is not the one that was written: another digest"
    try:
        sample = parse_sample(raw, categories)
    except InputError as error:
        yield str(error)
        return
    yield from _check_files(raw)
    for index, label in enumerate(sample.objects or ()):
        for what in _check_label(label, sample):
            yield f"object {index} (category {label.category}): {what}"
    if all((raw.shard / place).is_file() for place in raw.fields["files"]):
        yield from _check_pixels(sample, adjacent_samples)


def _check_files(raw: SampleRecord) -> Iterator[str]:
    """Yield files of a line that are missing or not what was written."""
    files = raw.fields.get("files")
    if not isinstance(files, dict) or not all(is_inside_folder(place) for place in files):
        yield "its line does not name the files of its shard"
        return
    for place, digest in files.items():
        path = raw.shard / place
        if not path.is_file():
            yield f"{place} is missing"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield f"{place} is not the file that was written: another SHA-256"


def _check_pixels(
    sample: Sample, adjacent_samples: Mapping[ChannelName, Sample | None]
) -> Iterator[str]:
    """Yield images of another size, and labels that contradict their pixels."""
    try:
        sizes = {"rgb": images.read_size(sample.rgb)}
        if sample.right_rgb is not None:
            sizes["right"] = images.read_size(sample.right_rgb)
        found = {name: read_channel(name, path) for name, path in sample.channels.items()}
    except InputError as error:
        yield str(error)
        return
    sizes |= {name: (values.shape[1], values.shape[0]) for name, values in found.items()}
    wrong = {name: size for name, size in sizes.items() if size != (sample.width, sample.height)}
    for name, (width, height) in wrong.items():
        yield f"{name} is {width}x{height} pixels, not {sample.width}x{sample.height}"
    if wrong or "ids" not in found:
        return
    ids = found["ids"]
    yield from _check_masks(sample.objects or (), ids)
    if "depth" in found:
        without = int((found["depth"][ids > 0] == 0).sum())
        if without:
            yield f"{without} pixels of objects have no depth"
    yield from audit_geometry(sample, found)
    yield from audit_labels(sample, found)
    yield from audit_coverage(sample, found)
    yield from _check_sequence(sample, found, adjacent_samples)


def _check_sequence(
    sample: Sample,
    channels: Mapping[ChannelName, NDArray[Any]],
    adjacent_samples: Mapping[ChannelName, Sample | None],
) -> Iterator[str]:
    """Yield flows and tracks that contradict the labels; faults of other samples are told there."""
    if sample.tracks is not None:
        try:
            yield from audit_tracks(tracks.read_tracks(sample.tracks), sample, channels)
        except InputError as error:
            yield str(error)
    for name, other in adjacent_samples.items():
        if other is None or not {name, "depth"} <= channels.keys():
            continue
        with suppress(InputError, KeyError):
            ids = read_channel("ids", other.channels["ids"])
            yield from audit_flow(name, sample, channels, other, ids)


def _check_label(label: ObjectLabel, sample: Sample) -> Iterator[str]:
    if not _box_contains((0.0, 0.0, float(sample.width), float(sample.height)), label.box_xyxy):
        yield f"box {label.box_xyxy} does not lie inside the image"
    fraction = label.visible_fraction
    if fraction is not None and not 0 < fraction <= 1:
        yield f"visible_fraction {fraction} is not above 0 and at most 1"
    cut = label.truncation
    if cut is not None and not 0 <= cut <= 1:
        yield f"truncation {cut} is not 0 to 1"
    amodal = label.box_amodal_xyxy
    if cut and amodal is not None and is_inside_image(amodal, sample.width, sample.height):
        yield f"truncation {cut}, and its amodal box {amodal} lies within the image"
    if amodal is not None and not _box_contains(amodal, label.box_xyxy):
        yield f"box {label.box_xyxy} is not inside its amodal box {amodal}"


def _check_masks(objects: tuple[ObjectLabel, ...], ids: NDArray[np.uint16]) -> Iterator[str]:
    numbers = Counter(label.instance_id for label in objects)
    seen = {int(number) for number in np.unique(ids)} - {0}
    for number in sorted(seen - set(numbers)):
        yield f"instance {number} of the ids image has no object"
    for instance_id, times in numbers.items():
        if times > 1:
            yield f"{times} objects have the instance_id {instance_id}"
    for index, label in enumerate(objects):
        place = f"object {index} (category {label.category})"
        if label.instance_id not in seen:
            yield f"{place}: instance_id {label.instance_id} is not in the ids image"
            continue
        mask = ids == label.instance_id
        if mask_to_box(mask) != label.box_xyxy:
            yield f"{place}: box {label.box_xyxy} is not that of its mask, {mask_to_box(mask)}"
        if int(mask.sum()) != label.area_px:
            yield f"{place}: area_px {label.area_px} is not that of its mask, {int(mask.sum())}"


def _box_contains(outer: Box, inner: Box) -> bool:
    """Return whether a box with some area lies inside another."""
    x0, y0, x1, y1 = inner
    return outer[0] <= x0 < x1 <= outer[2] and outer[1] <= y0 < y1 <= outer[3]
