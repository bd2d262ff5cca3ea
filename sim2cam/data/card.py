"""Dataset card: counts, value ranges, rejections and licences of a dataset."""

from __future__ import annotations

import html
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sim2cam import images
from sim2cam.data.camera_databases.installed import DATABASE_LICENCES
from sim2cam.data.photo_sources import find_photo_sources
from sim2cam.data.reader import (
    SceneSummary,
    find_rendered_ancestor,
    read_credits,
    read_licences,
    read_scenes,
)
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.writer import CARD
from sim2cam.files import write_bytes

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_MARKDOWN_CHARACTERS = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
"""Inline Markdown characters that HTML escaping leaves; underscores within words are literal."""
BUILT_IN = "made by sim2cam"
UNKNOWN_LICENCE = "licence not recorded"


@dataclass(frozen=True)
class ValueRange:
    """Minimum, median and maximum of a set of numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def from_values(cls, values: Iterable[float]) -> ValueRange | None:
        """Return the range of the values, or None if there are none."""
        numbers = np.array(list(values), np.float64)
        if not len(numbers):
            return None
        return cls(float(numbers.min()), float(np.median(numbers)), float(numbers.max()))


@dataclass(frozen=True)
class DatasetCard:
    """Summary of a dataset.

    Attributes:
        image_count, unlabelled_count, scene_count, object_count: Totals.
        origin_counts, size_counts, channel_counts: Number of images by origin, by ``WIDTHxHEIGHT`` and by channel.
        object_ranges: Ranges of ``side_px`` (square root of the box area), ``distance_m`` from the camera and
            ``visible_fraction``; None if unknown.
        gains: Ranges of the ``exposure``, ``red`` and ``blue`` gains of sequences.
        rejections: Number of rejected scenes by reason; numbers in reasons are replaced by N.
        requirement_ranges: Range of the measured value by requirement and required range.
        asset_licences: Licence, author and source of each mesh, texture and environment map of the scenes, and of each
            photograph whose source is recorded.
        bytes_on_disk: Size of images and channels.
    """

    image_count: int
    unlabelled_count: int
    scene_count: int
    object_count: int
    origin_counts: Mapping[str, int]
    size_counts: Mapping[str, int]
    channel_counts: Mapping[str, int]
    category_counts: Mapping[str, int]
    object_ranges: Mapping[str, ValueRange | None]
    gains: Mapping[str, ValueRange]
    rejections: Mapping[str, int]
    sampled_value_ranges: Mapping[str, ValueRange]
    requirement_ranges: Mapping[str, ValueRange]
    requirement_scenes: Mapping[str, int]
    asset_licences: Mapping[str, str]
    bytes_on_disk: int

    def to_json(self) -> dict[str, Any]:
        """Return the card as JSON values."""
        return asdict(self)

    def to_markdown(self) -> str:
        """Return the card as Markdown."""
        head = [
            "# Dataset",
            "",
            f"{self.image_count} images of {self.scene_count} scenes with {self.object_count} objects, "
            f"{self.bytes_on_disk / 1e6:.1f} MB. {self.unlabelled_count} images are unlabelled.",
        ]
        tables = {
            "Images by origin": self.origin_counts,
            "Images by size": self.size_counts,
            "Images by channel": self.channel_counts,
            "Objects by category": self.category_counts,
            "Objects: minimum, median, maximum": self.object_ranges,
            "Gains of sequences: minimum, median, maximum": self.gains,
            "Rejected scenes by reason": self.rejections,
            "Requirements, measured: minimum, median, maximum": self.requirement_ranges,
            "Requirements: number of scenes": self.requirement_scenes,
            "Photographs, meshes and their licences": self.asset_licences,
            "Sampled values: minimum, median, maximum": self.sampled_value_ranges,
        }
        sections = [_format_section(title, table) for title, table in tables.items() if table]
        return "\n".join([*head, *sections]) + "\n"


def build_card(*datasets: Dataset) -> DatasetCard:
    """Return the card of a dataset.

    Args:
        datasets: One dataset or several splits of it that share scene indices.

    Raises:
        InputError: If a scene record is broken or an image is missing.
    """
    samples = [sample for dataset in datasets for sample in dataset.samples]
    labels = [label for sample in samples for label in sample.objects or ()]
    statistics = _SceneStatistics()
    for folder, indices in _group_scenes_by_folder(datasets).items():
        scenes = (scene for scene in read_scenes(folder) if scene.scene_index in indices)
        statistics.add_scenes(scenes, read_licences(folder), read_credits(folder))
    for source in find_photo_sources(sample.rgb for sample in samples).values():
        statistics.asset_licences[source.source] = _format_rights(source.licence, source.author)
    counts = Counter(label.category for label in labels)
    return DatasetCard(
        image_count=len(samples),
        unlabelled_count=sum(sample.objects is None for sample in samples),
        scene_count=len({sample.scene_index for sample in samples}),
        object_count=len(labels),
        origin_counts=_sort_counts(Counter(sample.origin for sample in samples)),
        size_counts=_sort_counts(Counter(f"{sample.width}x{sample.height}" for sample in samples)),
        channel_counts=_sort_counts(
            Counter(name for sample in samples for name in sample.channels)
        ),
        category_counts={name: counts[name] for name in datasets[0].categories},
        object_ranges=_compute_object_ranges(labels),
        gains=_compute_ranges(
            {
                name: [getattr(sample.gains, name) for sample in samples if sample.gains]
                for name in ("exposure", "red", "blue")
            }
        ),
        rejections=_sort_counts(statistics.rejections),
        sampled_value_ranges=_compute_ranges(statistics.sampled_values),
        requirement_ranges=_compute_ranges(statistics.requirement_values),
        requirement_scenes={
            name: len(values) for name, values in sorted(statistics.requirement_values.items())
        },
        asset_licences=dict(sorted(statistics.asset_licences.items())),
        bytes_on_disk=sum(images.get_file_size(path) for path in _iterate_files(samples)),
    )


def _group_scenes_by_folder(datasets: Sequence[Dataset]) -> dict[Path, set[int]]:
    used_scenes = {sample.scene_index for dataset in datasets for sample in dataset.samples}
    indices_by_folder: dict[Path, set[int]] = {}
    for dataset in datasets:
        for source in dataset.list_sources():
            indices = {
                index
                for index, merged_index in source.merged_scenes.items()
                if merged_index in used_scenes
            }
            indices_by_folder.setdefault(find_rendered_ancestor(source.root), set()).update(indices)
    return indices_by_folder


def write_card(card: DatasetCard, folder: Path) -> None:
    """Write ``card.md`` into a folder.

    Raises:
        OutputError: If the folder is not writable.
    """
    # File names may hold surrogate escapes.
    text = card.to_markdown().encode(errors="backslashreplace")
    write_bytes(folder / CARD, text)


def _sort_counts(counter: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counter.items()))


def _compute_ranges(values: Mapping[str, Iterable[float]]) -> dict[str, ValueRange]:
    return {
        name: value_range
        for name in sorted(values)
        if (value_range := ValueRange.from_values(values[name]))
    }


def _compute_object_ranges(labels: Sequence[ObjectLabel]) -> dict[str, ValueRange | None]:
    sides = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (label.box_xyxy for label in labels)]
    return {
        "side_px": ValueRange.from_values(math.sqrt(area) for area in sides),
        "distance_m": ValueRange.from_values(
            math.hypot(*label.pose.position_m) for label in labels if label.pose
        ),
        "visible_fraction": ValueRange.from_values(
            label.visible_fraction for label in labels if label.visible_fraction is not None
        ),
    }


def get_factor_name(name: str) -> str:
    """Return the name of a sampled value without object indices: ``die/edge_m`` for ``die/3/edge_m``."""
    return "/".join(part for part in name.split("/") if not part.isdecimal())


def generalize_reason(reason: str) -> str:
    """Return the cause of a rejection: its reason with numbers replaced by N."""
    return _NUMBER.sub("N", reason)


class _SceneStatistics:
    """Statistics accumulated over scene records."""

    def __init__(self) -> None:
        self.rejections: Counter[str] = Counter()
        self.sampled_values: dict[str, array[float]] = {}
        self.requirement_values: dict[str, array[float]] = {}
        self.asset_licences: dict[str, str] = {}

    def add_scenes(
        self,
        scenes: Iterable[SceneSummary],
        licences: Mapping[str, str],
        credits_by_name: Mapping[str, str],
    ) -> None:
        self.asset_licences.update(
            {name: text for name, text in licences.items() if name in DATABASE_LICENCES}
        )
        for scene in scenes:
            self.rejections.update(map(generalize_reason, scene.rejections))
            for name, value in scene.sampled_values.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    self.sampled_values.setdefault(get_factor_name(name), array("d")).append(value)
            for name, result in scene.requirement_values.items():
                low, high = result.required_range
                requirement = f"{name}, {low:g} to {high:g}"
                self.requirement_values.setdefault(requirement, array("d")).append(result.value)
            for body in scene.scene.bodies:
                name = str(body.asset.get("path", body.asset.get("kind")))
                default_licence = UNKNOWN_LICENCE if "path" in body.asset else BUILT_IN
                self.asset_licences[name] = _format_rights(
                    licences.get(name) or default_licence, credits_by_name.get(name, "")
                )
            for name in scene.scene.list_image_files():
                self.asset_licences[name] = _format_rights(
                    licences.get(name) or UNKNOWN_LICENCE, credits_by_name.get(name, "")
                )


def _format_rights(licence: str, credit: str) -> str:
    return f"{licence}; {credit}" if credit else licence


def _iterate_files(samples: Iterable[Sample]) -> Iterator[Path]:
    for sample in samples:
        yield sample.rgb
        yield from sample.channels.values()
        yield from (path for path in (sample.right_rgb, sample.tracks) if path is not None)


def _format_section(title: str, table: Mapping[str, object]) -> str:
    rows = (f"| {_escape_cell(name)} | {_format_value(value)} |" for name, value in table.items())
    return "\n".join(["", f"## {title}", "", "| | |", "|---|---|", *rows])


def _format_value(value: object) -> str:
    match value:
        case ValueRange(low, median, high):
            return f"{low:.4g}, {median:.4g}, {high:.4g}"
        case None:
            return "unknown"
    return _escape_cell(str(value))


def _escape_cell(text: str) -> str:
    """Return a text with Markdown escaped and control characters and line breaks removed."""
    plain = " ".join(_CONTROL_CHARACTERS.sub(" ", text).split())
    return _MARKDOWN_CHARACTERS.sub(r"\\\g<0>", html.escape(plain, quote=False))
