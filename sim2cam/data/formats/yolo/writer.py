"""YOLO writer: ``data.yaml``, images, and a label file for each image."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from sim2cam.data.formats.writing import (
    check_unique_stems,
    encode_upright,
    get_flat_stem,
    require_labels,
)
from sim2cam.data.formats.yolo.layout import DATA_FILE
from sim2cam.data.polygons import trace_outline
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.data.silhouettes import read_visible_masks
from sim2cam.errors import InputError, UsageError
from sim2cam.files import write_bytes

_SPLIT_NAMES = ("train", "val", "test")


def write_yolo(splits: Mapping[str, Dataset], folder: Path) -> None:
    """Write ``data.yaml``, ``images/SPLIT/`` and ``labels/SPLIT/``.

    Boxes have six digits, far below a pixel, and are clipped to the image. Crowds, masks, keypoints, poses and
    depth are left out.

    Raises:
        UsageError: a split is unknown to Ultralytics, or ``train``, which it requires, is missing.
        InputError: an image is unlabelled or unreadable.
        OutputError: the folder cannot be written.
    """
    _write(splits, folder, _convert_boxes)


def write_yolo_polygons(splits: Mapping[str, Dataset], folder: Path) -> None:
    """Write a folder as ``write_yolo``, with outlines of the visible pixels instead of boxes.

    Parts and holes of an object are joined, see ``polygons.trace_outline``.

    Raises:
        UsageError: as ``write_yolo``.
        InputError: an image is unlabelled or unreadable, or an object has no mask.
        OutputError: the folder cannot be written.
    """
    _write(splits, folder, _convert_polygons)


LabelShapes = Iterator[tuple[ObjectLabel, Sequence[float]]]
"""Labels with the normalised coordinates of their line."""


def _write(
    splits: Mapping[str, Dataset], folder: Path, convert: Callable[[Dataset, Sample], LabelShapes]
) -> None:
    if not {"train"} <= set(splits) <= set(_SPLIT_NAMES):
        raise UsageError(
            f"splits {', '.join(splits)} do not fit YOLO. Allowed: {', '.join(_SPLIT_NAMES)}, with train. Set e.g. "
            "--split train=0.8,val=0.2, or choose another format."
        )
    categories = next(iter(splits.values())).categories
    entries: dict[str, Any] = {name: f"images/{name}" for name in splits}
    entries.setdefault("val", entries["train"])  # required by Ultralytics
    entries["names"] = dict(enumerate(categories))
    write_bytes(folder / DATA_FILE, yaml.safe_dump(entries, sort_keys=False).encode())
    for name, dataset in splits.items():
        check_unique_stems(dataset)
        for sample in dataset.samples:
            data, suffix = encode_upright(sample)
            lines = [
                f"{categories.index(label.category)} {' '.join(f'{n:.6f}' for n in numbers)}\n"
                for label, numbers in convert(dataset, sample)
            ]
            stem = f"{name}/{get_flat_stem(sample)}"
            write_bytes(folder / f"images/{stem}{suffix}", data)
            write_bytes(folder / f"labels/{stem}.txt", "".join(lines).encode())


def _convert_boxes(dataset: Dataset, sample: Sample) -> LabelShapes:
    for label in require_labels(dataset, sample):
        if not label.is_crowd:
            x0, y0 = (max(value, 0.0) for value in label.box_xyxy[:2])
            x1, y1 = map(min, label.box_xyxy[2:], (sample.width, sample.height))
            x, y = (x0 + x1) / 2 / sample.width, (y0 + y1) / 2 / sample.height
            yield label, (x, y, (x1 - x0) / sample.width, (y1 - y0) / sample.height)


def _convert_polygons(dataset: Dataset, sample: Sample) -> LabelShapes:
    objects = require_labels(dataset, sample)
    for label, mask in zip(objects, read_visible_masks(sample), strict=True):
        if mask is None:
            raise InputError(
                dataset.root,
                f"image {sample.name} has no masks to trace outlines of. Render with ids in --channels, or "
                "export boxes (yolo).",
            )
        outline = trace_outline(mask) / (sample.width, sample.height)
        if len(outline) and not label.is_crowd:
            yield label, outline.ravel().tolist()
