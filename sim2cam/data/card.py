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
from sim2cam.data.reader import SceneRecord, first_parent, licences_of, read_scenes
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.writer import CARD
from sim2cam.files import write_bytes

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_MARKUP = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
"""What Markdown acts on within a line, besides what HTML does: an underscore within a word stays one."""
BUILT_IN = "made by sim2cam"
UNKNOWN_LICENCE = "licence not recorded"


@dataclass(frozen=True)
class Range:
    """Least, median and greatest of some numbers."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, numbers: Iterable[float]) -> Range | None:
        """Returns the range of numbers, None without any."""
        found = np.array(list(numbers), np.float64)
        if not len(found):
            return None
        return cls(float(found.min()), float(np.median(found)), float(found.max()))


@dataclass(frozen=True)
class Card:
    """What a data set holds.

    Attributes:
        pictures, unlabelled, scenes, objects: how many there are.
        origins, sizes, channels: pictures by how they were made, by ``WIDTHxHEIGHT``, and with each
            channel.
        categories: objects by category.
        ranges: of the objects: ``side_px`` (root of the box's area), ``distance_m`` from the camera,
            ``visible_fraction``; None where unknown.
        gains: range of what the automatics of films chose: ``exposure``, ``red``, ``blue``.
        rejections: drafts of its scenes that were thrown away, by reason, numbers left out.
        drawn: range of each factor that is a number.
        reached: of each requirement and range that was asked for, what the scenes are.
        reached_scenes: how many scenes these are.
        assets: what the scenes are made of, and its licence.
        bytes_on_disk: of pictures and channels.
    """

    pictures: int
    unlabelled: int
    scenes: int
    objects: int
    origins: Mapping[str, int]
    sizes: Mapping[str, int]
    channels: Mapping[str, int]
    categories: Mapping[str, int]
    ranges: Mapping[str, Range | None]
    gains: Mapping[str, Range]
    rejections: Mapping[str, int]
    drawn: Mapping[str, Range]
    reached: Mapping[str, Range]
    reached_scenes: Mapping[str, int]
    assets: Mapping[str, str]
    bytes_on_disk: int

    def to_json(self) -> dict[str, Any]:
        """Returns the card as JSON values."""
        return asdict(self)

    def to_markdown(self) -> str:
        """Returns the card as a page of text."""
        head = [
            "# Data set",
            "",
            f"{self.pictures} pictures of {self.scenes} scenes with {self.objects} objects, "
            f"{self.bytes_on_disk / 1e6:.1f} MB. {self.unlabelled} pictures are unlabelled.",
        ]
        tables = {
            "Pictures by origin": self.origins,
            "Pictures by size": self.sizes,
            "Pictures with a channel": self.channels,
            "Objects by category": self.categories,
            "Objects: least, median, greatest": self.ranges,
            "Gains of films: least, median, greatest": self.gains,
            "Drafts of scenes that were thrown away": self.rejections,
            "Required, and reached: least, median, greatest": self.reached,
            "Required, and reached: scenes": self.reached_scenes,
            "Assets and their licences": self.assets,
            "Drawn values: least, median, greatest": self.drawn,
        }
        sections = [_section(title, table) for title, table in tables.items() if table]
        return "\n".join([*head, *sections]) + "\n"


def card_of(*datasets: Dataset) -> Card:
    """Returns the card of a data set, or of parts of one, whose scenes are numbered alike.

    Raises:
        InputError: what is recorded of its scenes is broken, or a picture is missing.
    """
    samples = [sample for dataset in datasets for sample in dataset.samples]
    labels = [label for sample in samples for label in sample.objects or ()]
    record = _Record()
    for folder, kept in _kept_scenes(datasets).items():
        scenes = (scene for scene in read_scenes(folder) if scene.scene_index in kept)
        record.add(scenes, licences_of(folder))
    counts = Counter(label.category for label in labels)
    return Card(
        pictures=len(samples),
        unlabelled=sum(sample.objects is None for sample in samples),
        scenes=len({sample.scene_index for sample in samples}),
        objects=len(labels),
        origins=_sorted(Counter(sample.origin for sample in samples)),
        sizes=_sorted(Counter(f"{sample.width}x{sample.height}" for sample in samples)),
        channels=_sorted(Counter(name for sample in samples for name in sample.channels)),
        categories={name: counts[name] for name in datasets[0].categories},
        ranges=_ranges(labels),
        gains=_by_name(
            {
                name: [getattr(sample.gains, name) for sample in samples if sample.gains]
                for name in ("exposure", "red", "blue")
            }
        ),
        rejections=_sorted(record.rejections),
        drawn=_by_name(record.drawn),
        reached=_by_name(record.reached),
        reached_scenes={name: len(values) for name, values in sorted(record.reached.items())},
        assets=dict(sorted(record.assets.items())),
        bytes_on_disk=sum(images.file_size(path) for path in _files(samples)),
    )


def _kept_scenes(parts: Sequence[Dataset]) -> dict[Path, set[int]]:
    """Returns the numbers of the scenes that parts show, by the folder that records them."""
    shown = {sample.scene_index for part in parts for sample in part.samples}
    found: dict[Path, set[int]] = {}
    for part in parts:
        for source in part.origins():
            kept = {own for own, number in source.scenes.items() if number in shown}
            found.setdefault(first_parent(source.root), set()).update(kept)
    return found


def write_card(card: Card, folder: Path) -> None:
    """Writes ``card.md`` into a folder.

    Raises:
        OutputError: it cannot be written.
    """
    text = card.to_markdown().encode(
        errors="backslashreplace"
    )  # names of files may be of any bytes
    write_bytes(folder / CARD, text)


def _sorted(counter: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counter.items()))


def _by_name(numbers: Mapping[str, Iterable[float]]) -> dict[str, Range]:
    return {name: known for name in sorted(numbers) if (known := Range.of(numbers[name]))}


def _ranges(labels: Sequence[ObjectLabel]) -> dict[str, Range | None]:
    sides = [(x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in (label.box_xyxy for label in labels)]
    return {
        "side_px": Range.of(math.sqrt(area) for area in sides),
        "distance_m": Range.of(math.hypot(*o.pose.position_m) for o in labels if o.pose),
        "visible_fraction": Range.of(
            o.visible_fraction for o in labels if o.visible_fraction is not None
        ),
    }


def factor_of(name: str) -> str:
    """Returns the name of a drawn value without the numbers of things: ``die/3/edge_m``, ``die/edge_m``."""
    return "/".join(step for step in name.split("/") if not step.isdecimal())


class _Record:
    """What is recorded of scenes, gathered from one after another."""

    def __init__(self) -> None:
        self.rejections: Counter[str] = Counter()
        self.drawn: dict[str, array[float]] = {}
        self.reached: dict[str, array[float]] = {}
        self.assets: dict[str, str] = {}

    def add(self, scenes: Iterable[SceneRecord], licences: Mapping[str, str]) -> None:
        for scene in scenes:
            self.rejections.update(_NUMBER.sub("N", reason) for reason in scene.rejections)
            for name, value in scene.drawn.items():
                if isinstance(value, (int, float)) and not isinstance(value, bool):
                    self.drawn.setdefault(factor_of(name), array("d")).append(value)
            for name, reached in scene.reached.items():
                low, high = reached.within
                asked = f"{name}, {low:g} to {high:g}"
                self.reached.setdefault(asked, array("d")).append(reached.value)
            for body in scene.scene.bodies:
                name = str(body.asset.get("path", body.asset.get("kind")))
                made = UNKNOWN_LICENCE if "path" in body.asset else BUILT_IN
                self.assets[name] = licences.get(name) or made
            for name in scene.scene.pictures():
                self.assets[name] = licences.get(name) or UNKNOWN_LICENCE


def _files(samples: Iterable[Sample]) -> Iterator[Path]:
    for sample in samples:
        yield sample.rgb
        yield from sample.channels.values()
        yield from (path for path in (sample.right, sample.tracks) if path is not None)


def _section(title: str, table: Mapping[str, object]) -> str:
    rows = (f"| {_cell(name)} | {_shown(value)} |" for name, value in table.items())
    return "\n".join(["", f"## {title}", "", "| | |", "|---|---|", *rows])


def _shown(value: object) -> str:
    match value:
        case Range(low, median, high):
            return f"{low:.4g}, {median:.4g}, {high:.4g}"
        case None:
            return "unknown"
    return _cell(str(value))


def _cell(text: str) -> str:
    """Return a text as the cell of a table that shows it as it is: no markup, no line breaks."""
    plain = " ".join(_CONTROL.sub(" ", text).split())
    return _MARKUP.sub(r"\\\g<0>", html.escape(plain, quote=False))
