"""Page of a dataset: images with labels, filters and statistics."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.card import generalize_reason
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.report.canvas import Chart
from sim2cam.report.charts import build_bar_chart, build_histogram
from sim2cam.report.image_layers import (
    LAYERS,
    Layer,
    LayerName,
    get_instance_colour,
    list_layers,
    paint_layers,
)
from sim2cam.report.overlay import IGNORED_COLOUR, get_category_colour
from sim2cam.report.page import encode_data_uri, encode_thumbnail, write_page

IMAGE_PX = 480
MAX_EMBEDDED = 400  # with more images, they are written to a folder
_CONTOUR_TOLERANCE_PX = 0.5  # of simplified mask contours


@dataclass(frozen=True)
class ObjectView:
    """Object on the page."""

    label: ObjectLabel
    colour: str
    mask_path: str
    amodal_path: str
    mask_colour: str

    @property
    def is_ignored(self) -> bool:
        """Whether the label is a crowd region, ignored in training and scoring."""
        return self.label.is_crowd

    @property
    def distance_m(self) -> float | None:
        """Distance from the camera; None if unknown."""
        return math.dist(self.label.pose.position_m, (0, 0, 0)) if self.label.pose else None


@dataclass(frozen=True)
class LayerView:
    """Layer of a sample on the page."""

    name: LayerName
    layer: Layer
    uri: str
    low: str
    high: str


@dataclass(frozen=True)
class SampleView:
    """Sample on the page: URIs of its images, and its objects."""

    sample: Sample
    rgb_uri: str
    layers: tuple[LayerView, ...]
    objects: tuple[ObjectView, ...]

    @property
    def object_count(self) -> int:
        """Number of labelled objects without ignored regions."""
        return sum(not view.is_ignored for view in self.objects)

    @property
    def ignored_count(self) -> int:
        """Number of ignored regions."""
        return len(self.objects) - self.object_count


@dataclass(frozen=True)
class RejectionStats:
    """Number of rejected scenes by reason."""

    scene_count: int
    rejected_count: int
    reasons: dict[str, int]

    @property
    def rejection_rate(self) -> float:
        """Share of sampled scenes that were rejected."""
        return self.rejected_count / (self.scene_count + self.rejected_count)


def write_inspect_page(dataset: Dataset, out: Path, *, limit: int | None) -> Path:
    """Write a page of a dataset and return its path.

    Images are embedded, or written to a folder next to the page if there are more than ``MAX_EMBEDDED``.

    Args:
        limit: Maximum number of samples shown; None for all. Statistics are over all samples.

    Raises:
        InputError: If an image cannot be read.
    """
    selected = dataset.take(limit)
    is_external = sum(1 + len(list_layers(s)) for s in selected.samples) > MAX_EMBEDDED
    add_image = _make_image_writer(out) if is_external else _embed_image
    regions = [o for sample in dataset.samples for o in sample.objects or ()]
    labels = [o for o in regions if not o.is_crowd]
    counts = Counter(o.category for o in labels)
    bars = build_bar_chart("Objects per category", {c: counts[c] for c in dataset.categories})
    layers = {name for sample in selected.samples for name in list_layers(sample)}
    views = [_build_sample(sample, dataset.categories, add_image) for sample in selected.samples]
    return write_page(
        out,
        "dataset.html",
        name=dataset.root.resolve().name,
        dataset=dataset,
        object_count=len(labels),
        ignored_count=len(regions) - len(labels),
        origins=Counter(sample.origin for sample in dataset.samples),
        sizes=Counter(f"{s.width} × {s.height}" for s in dataset.samples),
        unlabelled=sum(sample.objects is None for sample in dataset.samples),
        rejections=read_rejection_stats(dataset.root),
        samples=views,
        layers={name: layer for name, layer in LAYERS.items() if name in layers},
        has_masks=any(o.mask_path for view in views for o in view.objects),
        has_amodal_masks=any(o.amodal_mask for o in labels),
        has_keypoints=any(o.keypoints for o in labels),
        has_amodal_boxes=any(o.box_amodal_xyxy for o in labels),
        has_fractions=any(o.visible_fraction is not None for o in labels),
        is_external=is_external,
        category_chart=bars,
        histograms=[chart for chart in _build_histograms(dataset, labels) if chart],
    )


def read_rejection_stats(root: Path) -> RejectionStats | None:
    """Read the rejected scenes of a dataset; None if none are recorded.

    Raises:
        InputError: If a record is damaged.
    """
    scenes: dict[int, list[str]] = {}
    for path in sorted((root / "shards").glob("[0-9]*[0-9]/scenes.jsonl")):
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            try:
                record = json.loads(text)
                scenes[int(record["scene_index"])] = [str(r) for r in record["rejections"]]
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(path, f"line {line}: damaged scene ({error!r}).") from error
    if not scenes:
        return None
    reasons = Counter(
        generalize_reason(reason) for rejected in scenes.values() for reason in rejected
    )
    return RejectionStats(len(scenes), sum(reasons.values()), dict(reasons.most_common()))


def _build_histograms(dataset: Dataset, labels: list[ObjectLabel]) -> tuple[Chart | None, ...]:
    sides = [math.sqrt((b[2] - b[0]) * (b[3] - b[1])) for b in (o.box_xyxy for o in labels)]
    fractions = [o.visible_fraction for o in labels if o.visible_fraction is not None]
    labelled = [s.objects for s in dataset.samples if s.objects is not None]
    object_counts = [float(sum(not o.is_crowd for o in objects)) for objects in labelled]
    largest, most = max(sides, default=0.0), max(object_counts, default=0.0) + 1
    return (
        build_histogram(
            "Box size", sides, up_to=largest, x_label="square root of the box area, pixels"
        ),
        build_histogram(
            "Visible fraction", fractions, up_to=1.0, x_label="visible fraction of the object"
        ),
        build_histogram(
            "Objects per image", object_counts, up_to=most, x_label="objects", y_label="images"
        ),
    )


def _build_sample(
    sample: Sample, categories: tuple[str, ...], add_image: Callable[[str, bytes], str]
) -> SampleView:
    masks = read_visible_masks(sample)
    return SampleView(
        sample=sample,
        rgb_uri=add_image(sample.name, encode_thumbnail(images.read_rgb(sample.rgb), IMAGE_PX)),
        layers=tuple(
            LayerView(
                name,
                LAYERS[name],
                add_image(f"{sample.name}-{name}", encode_thumbnail(painted.rgb, IMAGE_PX)),
                painted.low,
                painted.high,
            )
            for name, painted in paint_layers(sample).items()
        ),
        objects=tuple(
            _build_object(*pair, number, categories)
            for number, pair in enumerate(zip(sample.objects or (), masks, strict=True), 1)
        ),
    )


def _build_object(
    label: ObjectLabel, mask: NDArray[np.bool_] | None, number: int, categories: tuple[str, ...]
) -> ObjectView:
    red, green, blue = (
        IGNORED_COLOUR if label.is_crowd else get_category_colour(categories.index(label.category))
    )
    return ObjectView(
        label=label,
        colour=f"rgb({red} {green} {blue})",
        mask_path="" if mask is None else trace_mask(mask),
        amodal_path="" if label.amodal_mask is None else trace_mask(label.amodal_mask.decode()),
        mask_colour="rgb({} {} {})".format(*get_instance_colour(label.instance_id or number)),
    )


def trace_mask(mask: NDArray[np.bool_]) -> str:
    """Return the SVG path of the contours of a mask (H, W), with holes, in box coordinates."""
    contours, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    paths = []
    for contour in contours:
        points = cv2.approxPolyDP(contour, _CONTOUR_TOLERANCE_PX, True).reshape(-1, 2)
        paths.append("M" + "L".join(f"{x:g} {y:g}" for x, y in points + 0.5) + "Z")  # centres
    return "".join(paths)


def _embed_image(_name: str, jpeg: bytes) -> str:
    return encode_data_uri(jpeg)


def _make_image_writer(page: Path) -> Callable[[str, bytes], str]:
    """Return a function that writes an image next to the page and returns its URI."""
    folder = page.with_name(f"{page.stem}-images")
    names: dict[str, str] = {}

    def write(name: str, jpeg: bytes) -> str:
        file = names.setdefault(name, f"{len(names):06d}.jpg")
        write_bytes(folder / file, jpeg)
        return f"{folder.name}/{file}"

    return write
