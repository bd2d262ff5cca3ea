"""The card of a data set: what is in it, over which ranges, what was thrown away, and whose it is."""

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
from sim2cam.data.reader import SceneSummary, find_rendered_ancestor, read_licences, read_scenes
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.writer import CARD
from sim2cam.files import write_bytes

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
_CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_MARKDOWN_CHARACTERS = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown acts on within a line, besides what HTML does: an underscore within a word stays one."""
BUILT_IN = "made by sim2cam"
UNKNOWN_LICENCE = "licence not recorded"


@dataclass(frozen=True)
class ValueRange:
    """Least, median and greatest of some numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def from_values(cls, values: Iterable[float]) -> ValueRange | None:
        """Return the range of numbers, None without any."""
        found = np.array(list(values), np.float64)
        if not len(found):
            return None
        return cls(float(found.min()), float(np.median(found)), float(found.max()))


@dataclass(frozen=True)
class DatasetCard:
    """What a data set holds.

    Attributes:
        image_count, unlabelled_count, scene_count, object_count: how many there are.
        origin_counts, size_counts, channel_counts: pictures by how they were made, by ``WIDTHxHEIGHT``, and with each
            channel.
        category_counts: objects by category.
        object_ranges: of the objects: ``get_roi_side_px`` (root of the box's area), ``distance_m`` from the camera,
            ``visible_fraction``; None where unknown.
        gains: range of what the automatics of films chose: ``exposure``, ``red``, ``blue``.
        rejections: drafts of its scenes that were thrown away, by reason, numbers left out.
        sampled_value_ranges: range of each factor that is a number.
        requirement_ranges: of each requirement and range that was asked for, what the scenes are.
        requirement_scenes: how many scenes these are.
        asset_licences: what the scenes are made of, and its licence.
        bytes_on_disk: of pictures and channels.
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
        """Return the card as a page of text."""
        head = [
            "# Data set",
            "",
            f"{self.image_count} pictures of {self.scene_count} scenes with {self.object_count} objects, "
            f"{self.bytes_on_disk / 1e6:.1f} MB. {self.unlabelled_count} pictures are unlabelled.",
        ]
        tables = {
            "Pictures by origin": self.origin_counts,
            "Pictures by size": self.size_counts,
            "Pictures with a channel": self.channel_counts,
            "Objects by category": self.category_counts,
            "Objects: least, median, greatest": self.object_ranges,
            "Gains of films: least, median, greatest": self.gains,
            "Drafts of scenes that were thrown away": self.rejections,
            "Required, and reached: least, median, greatest": self.requirement_ranges,
            "Required, and reached: scenes": self.requirement_scenes,
            "Assets and their licences": self.asset_licences,
            "Drawn values: least, median, greatest": self.sampled_value_ranges,
        }
        sections = [_format_section(title, table) for title, table in tables.items() if table]
        return "\n".join([*head, *sections]) + "\n"


def build_card(*datasets: Dataset) -> DatasetCard:
    """Return the card of a data set, or of parts of one, whose scenes are numbered alike.

    Raises:
        InputError: what is recorded of its scenes is broken, or a picture is missing.
    """
    samples = [sample for dataset in datasets for sample in dataset.samples]
    labels = [label for sample in samples for label in sample.objects or ()]
    record = _SceneStatistics()
    for folder, kept in _group_scenes_by_folder(datasets).items():
        scenes = (scene for scene in read_scenes(folder) if scene.scene_index in kept)
        record.add_scenes(scenes, read_licences(folder))
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
        rejections=_sort_counts(record.rejections),
        sampled_value_ranges=_compute_ranges(record.sampled_values),
        requirement_ranges=_compute_ranges(record.requirement_values),
        requirement_scenes={
            name: len(values) for name, values in sorted(record.requirement_values.items())
        },
        asset_licences=dict(sorted(record.asset_licences.items())),
        bytes_on_disk=sum(images.get_file_size(path) for path in _iterate_files(samples)),
    )


def _group_scenes_by_folder(datasets: Sequence[Dataset]) -> dict[Path, set[int]]:
    """Return the numbers of the scenes that parts show, by the folder that records them."""
    shown = {sample.scene_index for part in datasets for sample in part.samples}
    found: dict[Path, set[int]] = {}
    for part in datasets:
        for source in part.list_sources():
            kept = {own for own, number in source.merged_scenes.items() if number in shown}
            found.setdefault(find_rendered_ancestor(source.root), set()).update(kept)
    return found


def write_card(card: DatasetCard, folder: Path) -> None:
    """Write ``card.md`` into a folder.

    Raises:
        OutputError: it cannot be written.
    """
    text = card.to_markdown().encode(
        errors="backslashreplace"
    )  # names of files may be of any bytes
    write_bytes(folder / CARD, text)


def _sort_counts(counter: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counter.items()))


def _compute_ranges(values: Mapping[str, Iterable[float]]) -> dict[str, ValueRange]:
    return {
        name: known for name in sorted(values) if (known := ValueRange.from_values(values[name]))
    }


def _compute_object_ranges(labels: Sequence[ObjectLabel]) -> dict[str, ValueRange | None]:
    sides = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (label.box_xyxy for label in labels)]
    return {
        "side_px": ValueRange.from_values(math.sqrt(area) for area in sides),
        "distance_m": ValueRange.from_values(
            math.hypot(*o.pose.position_m) for o in labels if o.pose
        ),
        "visible_fraction": ValueRange.from_values(
            o.visible_fraction for o in labels if o.visible_fraction is not None
        ),
    }


def get_factor_name(name: str) -> str:
    """Return the name of a drawn value without the numbers of things: ``die/3/edge_m``, ``die/edge_m``."""
    return "/".join(step for step in name.split("/") if not step.isdecimal())


class _SceneStatistics:
    """What is recorded of scenes, gathered from one after another."""

    def __init__(self) -> None:
        self.rejections: Counter[str] = Counter()
        self.sampled_values: dict[str, array[float]] = {}
        self.requirement_values: dict[str, array[float]] = {}
        self.asset_licences: dict[str, str] = {}

    def add_scenes(self, scenes: Iterable[SceneSummary], licences: Mapping[str, str]) -> None:
        for scene in scenes:
            self.rejections.update(_NUMBER.sub("N", reason) for reason in scene.rejections)
            for name, value in scene.sampled_values.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    self.sampled_values.setdefault(get_factor_name(name), array("d")).append(value)
            for name, reached in scene.requirement_values.items():
                low, high = reached.required_range
                asked = f"{name}, {low:g} to {high:g}"
                self.requirement_values.setdefault(asked, array("d")).append(reached.value)
            for body in scene.scene.bodies:
                name = str(body.asset.get("path", body.asset.get("kind")))
                made = UNKNOWN_LICENCE if "path" in body.asset else BUILT_IN
                self.asset_licences[name] = licences.get(name) or made
            for name in scene.scene.list_image_files():
                self.asset_licences[name] = licences.get(name) or UNKNOWN_LICENCE


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
    """Return a text as the cell of a table that shows it as it is: no markup, no line breaks."""
    plain = " ".join(_CONTROL_CHARACTERS.sub(" ", text).split())
    return _MARKDOWN_CHARACTERS.sub(r"\\\g<0>", html.escape(plain, quote=False))
