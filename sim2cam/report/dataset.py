"""The page that shows a data set or captures: pictures with their labels, filters and counts."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.silhouettes import seen_masks
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.report.charts import BarChart, bar_chart, histogram
from sim2cam.report.image_layers import (
    LAYERS,
    Layer,
    LayerName,
    instance_colour,
    layers_of,
    paint_layers,
)
from sim2cam.report.overlay import IGNORED_COLOUR, category_colour
from sim2cam.report.page import data_uri, shrunk_jpeg, write_page

PICTURE_PX = 480
INSIDE = 400  # more pictures than these lie beside the page
_OUTLINE_PX = 0.5  # how far a simplified outline may be from the mask's


@dataclass(frozen=True)
class ShownObject:
    """One object on the page.

    Attributes:
        label: its label.
        colour: of its box, as CSS.
        mask: SVG path around its visible pixels; empty where they are unknown.
        amodal: SVG path around the whole object; empty without its mask.
        mask_colour: as CSS, different for each instance.
    """

    label: ObjectLabel
    colour: str
    mask: str
    amodal: str
    mask_colour: str

    @property
    def is_ignored(self) -> bool:
        """Whether its box is a region that is neither trained on nor scored."""
        return self.label.is_crowd

    @property
    def distance_m(self) -> float | None:
        """From the camera; None when unknown."""
        return math.dist(self.label.pose.position_m, (0, 0, 0)) if self.label.pose else None


@dataclass(frozen=True)
class ShownLayer:
    """One layer of a sample on the page.

    Attributes:
        name: in ``LAYERS``.
        layer: how it is shown.
        src: address of its picture.
        low, high: the values at both ends of its scale, as text.
    """

    name: LayerName
    layer: Layer
    src: str
    low: str
    high: str


@dataclass(frozen=True)
class ShownSample:
    """One sample on the page: addresses of its pictures, and its objects."""

    sample: Sample
    rgb: str
    layers: tuple[ShownLayer, ...]
    objects: tuple[ShownObject, ...]

    @property
    def n_objects(self) -> int:
        """How many objects are labelled; ignored regions are not."""
        return sum(not shown.is_ignored for shown in self.objects)

    @property
    def n_ignored(self) -> int:
        """How many regions are ignored."""
        return len(self.objects) - self.n_objects


@dataclass(frozen=True)
class Settling:
    """How many drafts of scenes were thrown away, and why."""

    scenes: int
    rejected: int
    reasons: dict[str, int]

    @property
    def rate(self) -> float:
        """Rejected drafts over all drafts."""
        return self.rejected / (self.scenes + self.rejected)


def write_inspect_page(dataset: Dataset, out: Path, *, limit: int | None) -> Path:
    """Writes a page that shows a data set and returns its path.

    Up to ``INSIDE`` pictures the page holds them; more lie in a folder beside it.

    Args:
        dataset: rendered, translated or photographed; labelled or not.
        out: the HTML file.
        limit: most samples shown; all when None. Counts are always over all samples.

    Raises:
        InputError: an image cannot be read.
        OutputError: the page cannot be written.
    """
    chosen = dataset.take(limit)
    beside = sum(1 + len(layers_of(sample)) for sample in chosen.samples) > INSIDE
    address = _beside(out) if beside else _inside
    regions = [o for sample in dataset.samples for o in sample.objects or ()]
    labels = [o for o in regions if not o.is_crowd]
    counts = Counter(o.category for o in labels)
    bars = bar_chart("Objects of each category", {c: counts[c] for c in dataset.categories})
    held = {name for sample in chosen.samples for name in layers_of(sample)}
    shown = [_shown(sample, dataset.categories, address) for sample in chosen.samples]
    return write_page(
        out,
        "inspect.html",
        name=dataset.root.resolve().name,
        dataset=dataset,
        n_objects=len(labels),
        n_ignored=len(regions) - len(labels),
        origins=Counter(sample.origin for sample in dataset.samples),
        sizes=Counter(f"{s.width} × {s.height}" for s in dataset.samples),
        unlabelled=sum(sample.objects is None for sample in dataset.samples),
        settling=read_settling(dataset.root),
        samples=shown,
        layers={name: layer for name, layer in LAYERS.items() if name in held},
        has_masks=any(o.mask for sample in shown for o in sample.objects),
        has_amodal_masks=any(o.amodal_mask for o in labels),
        has_keypoints=any(o.keypoints for o in labels),
        has_amodal=any(o.box_amodal_xyxy for o in labels),
        has_fractions=any(o.visible_fraction is not None for o in labels),
        beside=beside,
        category_chart=bars if dataset.categories else None,
        histograms=[chart for chart in _histograms(dataset, labels) if chart],
    )


def read_settling(root: Path) -> Settling | None:
    """Returns what a data set's scenes record of their settling; None where none is recorded.

    Raises:
        InputError: a record is broken.
    """
    scenes: dict[int, list[str]] = {}
    for path in sorted((root / "shards").glob("[0-9]*[0-9]/scenes.jsonl")):
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                record = json.loads(text)
                scenes[int(record["scene_index"])] = [str(r) for r in record["rejections"]]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(path, f"line {line}: broken scene ({error!r}).") from error
    if not scenes:
        return None
    reasons = Counter(
        re.sub(r"\d+(\.\d+)?", "…", reason) for rejected in scenes.values() for reason in rejected
    )
    return Settling(len(scenes), sum(reasons.values()), dict(reasons.most_common()))


def _histograms(dataset: Dataset, labels: list[ObjectLabel]) -> tuple[BarChart | None, ...]:
    sides = [math.sqrt((b[2] - b[0]) * (b[3] - b[1])) for b in (o.box_xyxy for o in labels)]
    fractions = [o.visible_fraction for o in labels if o.visible_fraction is not None]
    numbers = [
        float(sum(not o.is_crowd for o in s.objects))
        for s in dataset.samples
        if s.objects is not None
    ]
    return (
        histogram(
            "Box size",
            sides,
            up_to=max(sides, default=0.0),
            x_label="square root of the box's area, pixels",
        ),
        histogram("Visible fraction", fractions, up_to=1.0, x_label="visible part of the whole"),
        histogram(
            "Objects in an image",
            numbers,
            up_to=max(numbers, default=0.0) + 1,
            x_label="objects",
            y_label="images",
        ),
    )


def _shown(
    sample: Sample, categories: tuple[str, ...], address: Callable[[str, bytes], str]
) -> ShownSample:
    masks = seen_masks(sample)
    return ShownSample(
        sample=sample,
        rgb=address(sample.name, shrunk_jpeg(images.read_rgb(sample.rgb), PICTURE_PX)),
        layers=tuple(
            ShownLayer(
                name,
                LAYERS[name],
                address(f"{sample.name}-{name}", shrunk_jpeg(painted.rgb, PICTURE_PX)),
                painted.low,
                painted.high,
            )
            for name, painted in paint_layers(sample).items()
        ),
        objects=tuple(
            _object(label, number, categories, mask)
            for number, (label, mask) in enumerate(
                zip(sample.objects or (), masks, strict=True), start=1
            )
        ),
    )


def _object(
    label: ObjectLabel, number: int, categories: tuple[str, ...], mask: NDArray[np.bool_] | None
) -> ShownObject:
    red, green, blue = (
        IGNORED_COLOUR if label.is_crowd else category_colour(categories.index(label.category))
    )
    return ShownObject(
        label=label,
        colour=f"rgb({red} {green} {blue})",
        mask="" if mask is None else outline(mask),
        amodal="" if label.amodal_mask is None else outline(label.amodal_mask.mask()),
        mask_colour="rgb({} {} {})".format(*instance_colour(label.instance_id or number)),
    )


def outline(mask: NDArray[np.bool_]) -> str:
    """Returns the SVG path around a mask (height, width), holes too, in pixels as boxes have them."""
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    paths = []
    for contour in contours:
        points = cv2.approxPolyDP(contour, _OUTLINE_PX, True).reshape(-1, 2) + 0.5  # pixel centres
        paths.append("M" + "L".join(f"{x:g} {y:g}" for x, y in points) + "Z")
    return "".join(paths)


def _inside(_name: str, jpeg: bytes) -> str:
    return data_uri(jpeg)


def _beside(page: Path) -> Callable[[str, bytes], str]:
    """Returns a function that writes a picture into a folder beside the page, and its address."""
    folder = page.with_name(f"{page.stem}-images")
    names: dict[str, str] = {}

    def write(name: str, jpeg: bytes) -> str:
        file = names.setdefault(name, f"{len(names):06d}.jpg")
        write_bytes(folder / file, jpeg)
        return f"{folder.name}/{file}"

    return write
