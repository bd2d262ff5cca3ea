"""Writing YOLO labels as Ultralytics has them: ``data.yaml``, images, a text file of labels for each."""

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
    """Fill a folder with ``data.yaml``, ``images/PART/`` and ``labels/PART/``.

    Boxes keep six digits, far below a pixel, and end at the picture's edge. Groups (``is_crowd``) have
    no place in YOLO and are left out, as are masks, poses and depth.

    Raises:
        UsageError: parts that Ultralytics does not know, or no part ``train``, which it asks for.
        InputError: an image without labels, or one that cannot be read.
        OutputError: the folder cannot be written.
    """
    _write(splits, folder, _convert_boxes)


def write_yolo_polygons(splits: Mapping[str, Dataset], folder: Path) -> None:
    """Fill a folder as ``write_yolo`` does, with the outline of what is seen of each object.

    Pieces and holes of an object are joined, as ``outlines.outline_of`` has it.

    Raises:
        UsageError: as ``write_yolo``.
        InputError: an image without labels, an object without a mask, or what cannot be read.
        OutputError: the folder cannot be written.
    """
    _write(splits, folder, _convert_polygons)


LabelShapes = Iterator[tuple[ObjectLabel, Sequence[float]]]
"""Labels, and the numbers of each over the picture's sides."""


def _write(
    splits: Mapping[str, Dataset], folder: Path, convert: Callable[[Dataset, Sample], LabelShapes]
) -> None:
    if not {"train"} <= set(splits) <= set(_SPLIT_NAMES):
        raise UsageError(
            f"parts named {', '.join(splits)}: YOLO knows {', '.join(_SPLIT_NAMES)} and needs train. Name them so, "
            "as --split train=0.8,val=0.2, or choose another format."
        )
    categories = next(iter(splits.values())).categories
    facts: dict[str, Any] = {name: f"images/{name}" for name in splits}
    facts.setdefault("val", facts["train"])  # Ultralytics refuses a file without
    facts["names"] = dict(enumerate(categories))
    write_bytes(folder / DATA_FILE, yaml.safe_dump(facts, sort_keys=False).encode())
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
                f"image {sample.name} has no masks, from which outlines come. Render with ids among "
                "the --channels, or export boxes (yolo).",
            )
        outline = trace_outline(mask) / (sample.width, sample.height)
        if len(outline) and not label.is_crowd:
            yield label, outline.ravel().tolist()
