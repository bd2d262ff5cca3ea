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
from sim2cam.data.channels import ChannelName, read
from sim2cam.data.checks.exposure_coverage import audit_coverage
from sim2cam.data.checks.geometry import audit
from sim2cam.data.checks.labels import audit_labels
from sim2cam.data.checks.motion import audit_flow, audit_tracks
from sim2cam.data.parsing import stays_inside
from sim2cam.data.reader import (
    RawSample,
    parent_folder,
    parse_sample,
    read_header,
    read_lines,
)
from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.data.shards import read_quarantined
from sim2cam.data.writer import (
    ENVIRONMENT,
    HEADER,
    REJECTED,
    SHARDS,
    WANTED,
    digest_of,
)
from sim2cam.errors import InputError
from sim2cam.files import TEMPORARY_SUFFIX
from sim2cam.geometry.boxes import Box, box_of_mask, keeps_off_edge

_AGAIN = "Run its command again with --resume."
_STEPS: dict[ChannelName, int] = {"flow_backward": -1, "flow_forward": 1}


@dataclass(frozen=True)
class Problem:
    """Something that is wrong.

    Attributes:
        sample: its name, or the file that it is about.
        what: in words, with the values.
    """

    sample: str
    what: str


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
    problems: tuple[Problem, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON values."""
        return asdict(self)


def check_dataset(root: Path) -> CheckReport:
    """Returns what is wrong with a data set, or with its ties to its parent.

    The pictures and labels of a parent are not checked; that is the parent's own check.

    Raises:
        InputError: there is no data set, or its lists cannot be read at all.
    """
    header = read_header(root)
    raw_samples, rejected = read_lines(root), read_lines(root, REJECTED)
    quarantined = read_quarantined(root)
    lacking = len(rejected) + sum(scene.samples for scene in quarantined)
    problems = [
        *_list_problems(raw_samples, _wanted(root) - lacking),
        *_scene_problems(raw_samples, header),
    ]
    parents = None
    if header.get("parent") is not None:
        parents, more = _parents(parent_folder(root, header))
        problems.extend(more)
    objects = 0
    categories = tuple(header["categories"])
    by_place = {_place_in_film(raw, 0): raw for raw in raw_samples}
    for raw in raw_samples:
        beside = {
            name: _parsed(by_place.get(_place_in_film(raw, step)), categories)
            for name, step in _STEPS.items()
        }
        whats = [*_sample_problems(raw, categories, beside)]
        labelled = raw.line
        if parents is not None:
            labelled = parents.get(str(raw.line.get("parent")), {})
            whats.extend(_parent_problems(raw.line, labelled))
        objects += len(labelled.get("objects", ()))
        problems.extend(Problem(_name(raw), what) for what in whats)
    for raw in rejected:
        problems.extend(Problem(_name(raw), what) for what in _file_problems(raw))
    left = [*root.glob(f"*{TEMPORARY_SUFFIX}"), *root.glob(f"{SHARDS}/*{TEMPORARY_SUFFIX}")]
    warnings = (
        *(f"{path} was left behind by a run that was killed" for path in sorted(left)),
        *(f"quarantined: {scene.reason}" for scene in quarantined),
    )
    return CheckReport(len(raw_samples), objects, tuple(problems), warnings)


def _place_in_film(raw: RawSample, step: int) -> tuple[Any, ...]:
    """Returns the scene, film and number in it of a sample, or of one some steps after it.

    The film is told by the camera; where a picture was translated with its labels, by its own number.
    """
    moment = raw.line.get("moment")
    frame = moment.get("frame") if isinstance(moment, dict) else None
    number = frame + step if isinstance(frame, int) else (raw.line.get("name"), step)
    return raw.line.get("scene_index"), raw.line.get("view"), raw.line.get("film"), number


def _parsed(raw: RawSample | None, categories: tuple[str, ...]) -> Sample | None:
    """Returns the sample of a line; None where there is none that can be read."""
    try:
        return parse_sample(raw, categories) if raw else None
    except InputError:
        return None


def _name(raw: RawSample) -> str:
    return str(raw.line.get("name"))


def _per_scene(header: dict[str, Any]) -> int | None:
    """Returns how many samples each scene has; None when the header does not say."""
    try:
        render = header["recipe"]["render"]
        return int(render["views"]) * int(render.get("film", {}).get("frames", 1))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _wanted(root: Path) -> int:
    """Returns how many samples the data set was meant to have; 0 when that is not recorded."""
    path = root / ENVIRONMENT
    if not path.is_file():
        return 0
    try:
        return int(json.loads(path.read_bytes()).get(WANTED, 0))
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(path, f"not the facts of a run ({error}). {_AGAIN}") from error


def _list_problems(raw_samples: list[RawSample], wanted: int) -> Iterator[Problem]:
    if len(raw_samples) < wanted:
        yield Problem(
            SHARDS, f"incomplete: {len(raw_samples)} of {wanted} samples are there. {_AGAIN}"
        )
    elif not raw_samples:
        yield Problem(HEADER, f"the data set holds no samples. {_AGAIN}")
    for name, times in Counter(_name(raw) for raw in raw_samples).items():
        if times > 1:
            yield Problem(name, f"{times} samples have this name")


def _scene_problems(raw_samples: list[RawSample], header: dict[str, Any]) -> Iterator[Problem]:
    """Yields scenes that are split over shards, and samples that are not of the scene they say.

    Those of captures, which may be longer than a shard, are split where they are translated.
    """
    per_scene = _per_scene(header)
    shards: dict[Any, set[str]] = defaultdict(set)
    scenes: dict[Path, set[Any]] = defaultdict(set)
    for raw in raw_samples:
        scene, name = raw.line.get("scene_index"), _name(raw)
        if scene is not None:
            shards[scene].add(raw.shard.name)
            scenes[raw.shard].add(scene)
        if per_scene and name.isdecimal() and scene != int(name) // per_scene:
            yield Problem(name, f"scene_index is {scene}, not {int(name) // per_scene}")
    for scene, names in shards.items():
        if len(names) > 1 and header.get("origin") != "adapted":
            yield Problem(SHARDS, f"scene {scene} is split over shards {', '.join(sorted(names))}")
    for shard, found in scenes.items():
        listed = _listed_scenes(shard)
        if listed is not None and listed != found:
            yield Problem(
                f"{shard.name}/scenes.jsonl",
                f"lists the scenes {sorted(listed)}, but the samples are of {sorted(found)}",
            )


def _listed_scenes(shard: Path) -> set[int] | None:
    """Returns the scenes that a shard lists; None when it has no list."""
    path = shard / "scenes.jsonl"
    if not path.is_file():
        return None
    try:
        return {json.loads(text)["scene_index"] for text in path.read_bytes().splitlines()}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(path, f"not a list of scenes ({error}).") from error


def _parents(root: Path) -> tuple[dict[str, dict[str, Any]], list[Problem]]:
    """Returns the lines of the parent by the digest that they have, and what is wrong with it."""
    try:
        read_header(root)
        return {digest_of(raw.line): raw.line for raw in read_lines(root)}, []
    except InputError as error:
        return {}, [Problem(HEADER, f"its parent cannot be read: {error}")]


def _parent_problems(line: dict[str, Any], parent: dict[str, Any]) -> Iterator[str]:
    if not parent:
        yield f"no sample of the parent has the digest {line.get('parent')}"
        return
    for key in ("width", "height", "scene_index"):
        if line.get(key) != parent.get(key):
            yield f"{key} is {line.get(key)}, but that of its parent is {parent.get(key)}"


def _sample_problems(
    raw: RawSample, categories: tuple[str, ...], beside: Mapping[ChannelName, Sample | None]
) -> Iterator[str]:
    """Yields what is wrong with a sample: its line, its files, its labels.

    Args:
        raw: the sample.
        categories: of the data set.
        beside: the samples to which its flows lead.
    """
    if digest_of(raw.line) != raw.line.get("digest"):
        yield "its line is not the one that was written: another digest"
    try:
        sample = parse_sample(raw, categories)
    except InputError as error:
        yield str(error)
        return
    yield from _file_problems(raw)
    for index, label in enumerate(sample.objects or ()):
        for what in _label_problems(label, sample):
            yield f"object {index} (category {label.category}): {what}"
    if all((raw.shard / place).is_file() for place in raw.line["files"]):
        yield from _pixel_problems(sample, beside)


def _file_problems(raw: RawSample) -> Iterator[str]:
    """Yields files of a line that are missing or not what was written."""
    files = raw.line.get("files")
    if not isinstance(files, dict) or not all(stays_inside(place) for place in files):
        yield "its line does not name the files of its shard"
        return
    for place, digest in files.items():
        path = raw.shard / place
        if not path.is_file():
            yield f"{place} is missing"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            yield f"{place} is not the file that was written: another SHA-256"


def _pixel_problems(sample: Sample, beside: Mapping[ChannelName, Sample | None]) -> Iterator[str]:
    """Yields images of another size, and labels that contradict their pixels."""
    try:
        sizes = {"rgb": images.read_size(sample.rgb)}
        if sample.right is not None:
            sizes["right"] = images.read_size(sample.right)
        found = {name: read(name, path) for name, path in sample.channels.items()}
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
    yield from _mask_problems(sample.objects or (), ids)
    if "depth" in found:
        without = int((found["depth"][ids > 0] == 0).sum())
        if without:
            yield f"{without} pixels of objects have no depth"
    yield from audit(sample, found)
    yield from audit_labels(sample, found)
    yield from audit_coverage(sample, found)
    yield from _film_problems(sample, found, beside)


def _film_problems(
    sample: Sample,
    found: Mapping[ChannelName, NDArray[Any]],
    beside: Mapping[ChannelName, Sample | None],
) -> Iterator[str]:
    """Yields flows and tracks that contradict the labels; faults of other samples are told there."""
    if sample.tracks is not None:
        try:
            yield from audit_tracks(tracks.read(sample.tracks), sample, found)
        except InputError as error:
            yield str(error)
    for name, other in beside.items():
        if other is None or not {name, "depth"} <= found.keys():
            continue
        with suppress(InputError, KeyError):
            ids = read("ids", other.channels["ids"])
            yield from audit_flow(name, sample, found, other, ids)


def _label_problems(label: ObjectLabel, sample: Sample) -> Iterator[str]:
    if not _holds((0.0, 0.0, float(sample.width), float(sample.height)), label.box_xyxy):
        yield f"box {label.box_xyxy} does not lie inside the image"
    fraction = label.visible_fraction
    if fraction is not None and not 0 < fraction <= 1:
        yield f"visible_fraction {fraction} is not above 0 and at most 1"
    cut = label.truncation
    if cut is not None and not 0 <= cut <= 1:
        yield f"truncation {cut} is not 0 to 1"
    amodal = label.box_amodal_xyxy
    if cut and amodal is not None and keeps_off_edge(amodal, sample.width, sample.height):
        yield f"truncation {cut}, and its amodal box {amodal} lies within the image"
    if amodal is not None and not _holds(amodal, label.box_xyxy):
        yield f"box {label.box_xyxy} is not inside its amodal box {amodal}"


def _mask_problems(objects: tuple[ObjectLabel, ...], ids: NDArray[np.uint16]) -> Iterator[str]:
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
        if box_of_mask(mask) != label.box_xyxy:
            yield f"{place}: box {label.box_xyxy} is not that of its mask, {box_of_mask(mask)}"
        if int(mask.sum()) != label.area_px:
            yield f"{place}: area_px {label.area_px} is not that of its mask, {int(mask.sum())}"


def _holds(outer: Box, inner: Box) -> bool:
    """Returns whether a box with some area lies inside another."""
    x0, y0, x1, y1 = inner
    return outer[0] <= x0 < x1 <= outer[2] and outer[1] <= y0 < y1 <= outer[3]
