"""YOLO, as Ultralytics has it: ``data.yaml``, pictures, and a text file of labels beside each.

A line is ``class x y width height``, the box's centre and size, or ``class x y x y x y ...``, the
corners of an outline; all over the size of the picture.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import yaml

from sim2cam import images
from sim2cam.dataset.formats.pictures import (
    check_stems,
    each_a_scene,
    flat_stem,
    labels_of,
    upright_file,
)
from sim2cam.dataset.outlines import outline_of
from sim2cam.dataset.parsing import read_text, stays_inside
from sim2cam.dataset.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.dataset.silhouettes import seen_masks
from sim2cam.errors import InputError, UsageError
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.masks import RunLengths

FILE = "data.yaml"
_PARTS = ("train", "val", "test")
_MOST_BYTES = 4_000_000
_SLACK = 1e-3  # of a picture's side: what rounding may push a box beyond its edge
_CURE = "Correct the file."


def write_yolo(parts: Mapping[str, Dataset], folder: Path) -> None:
    """Fills a folder with ``data.yaml``, ``images/PART/`` and ``labels/PART/``.

    Boxes keep six digits, far below a pixel, and end at the picture's edge. Groups (``is_crowd``) have
    no place in YOLO and are left out, as are masks, poses and depth.

    Raises:
        UsageError: parts that Ultralytics does not know, or no part ``train``, which it asks for.
        InputError: an image without labels, or one that cannot be read.
        OutputError: the folder cannot be written.
    """
    _write(parts, folder, _boxes)


def write_yolo_outlines(parts: Mapping[str, Dataset], folder: Path) -> None:
    """Fills a folder as ``write_yolo`` does, with the outline of what is seen of each object.

    Pieces and holes of an object are joined, as ``outlines.outline_of`` has it.

    Raises:
        UsageError: as ``write_yolo``.
        InputError: an image without labels, an object without a mask, or what cannot be read.
        OutputError: the folder cannot be written.
    """
    _write(parts, folder, _outlines)


Places = Iterator[tuple[ObjectLabel, Sequence[float]]]
"""Labels, and the numbers of each over the picture's sides."""


def _write(
    parts: Mapping[str, Dataset], folder: Path, places: Callable[[Dataset, Sample], Places]
) -> None:
    if not {"train"} <= set(parts) <= set(_PARTS):
        raise UsageError(
            f"parts named {', '.join(parts)}: YOLO knows {', '.join(_PARTS)} and needs train. Name them so, "
            "as --split train=0.8,val=0.2, or choose another format."
        )
    categories = next(iter(parts.values())).categories
    facts: dict[str, Any] = {name: f"images/{name}" for name in parts}
    facts.setdefault("val", facts["train"])  # Ultralytics refuses a file without
    facts["names"] = dict(enumerate(categories))
    images.write_bytes(folder / FILE, yaml.safe_dump(facts, sort_keys=False).encode())
    for name, dataset in parts.items():
        check_stems(dataset)
        for sample in dataset.samples:
            data, suffix = upright_file(sample)
            lines = [
                f"{categories.index(label.category)} {' '.join(f'{n:.6f}' for n in numbers)}\n"
                for label, numbers in places(dataset, sample)
            ]
            stem = f"{name}/{flat_stem(sample)}"
            images.write_bytes(folder / f"images/{stem}{suffix}", data)
            images.write_bytes(folder / f"labels/{stem}.txt", "".join(lines).encode())


def _boxes(dataset: Dataset, sample: Sample) -> Places:
    for label in labels_of(dataset, sample):
        if not label.is_crowd:
            x0, y0 = (max(value, 0.0) for value in label.box_xyxy[:2])
            x1, y1 = map(min, label.box_xyxy[2:], (sample.width, sample.height))
            x, y = (x0 + x1) / 2 / sample.width, (y0 + y1) / 2 / sample.height
            yield label, (x, y, (x1 - x0) / sample.width, (y1 - y0) / sample.height)


def _outlines(dataset: Dataset, sample: Sample) -> Places:
    objects = labels_of(dataset, sample)
    for label, mask in zip(objects, seen_masks(sample), strict=True):
        if mask is None:
            raise InputError(
                dataset.root,
                f"image {sample.name} has no masks, from which outlines come. Render with ids among "
                "the --channels, or export boxes (yolo).",
            )
        outline = outline_of(mask) / (sample.width, sample.height)
        if len(outline) and not label.is_crowd:
            yield label, outline.ravel().tolist()


def is_yolo(path: Path) -> bool:
    """Returns whether a path is a folder with ``data.yaml``, or such a file."""
    return (path / FILE).is_file() or path.suffix.lower() in (".yaml", ".yml")


def read_yolo(path: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Returns the parts that ``data.yaml`` of a folder names: ``train``, ``val``, ``test``.

    Outlines (lines of more than four coordinates) become masks, also where they have four corners, as
    turned boxes have. Labels lie where Ultralytics
    looks for them: in the picture's folder, with the last ``images`` on the way as ``labels``. A
    picture without a file of labels shows no object; where no picture of a part has one, it was
    never labelled.

    Raises:
        InputError: a file is missing, broken or contradicts itself, or lies outside the folder.
    """
    path = path / FILE if path.is_dir() else path
    root = path.parent
    facts = _facts(path)
    categories = _categories(path, facts)
    base = _inside(path, "path", facts.get("path", "."))
    found: dict[str, Dataset] = {}
    read: list[Any] = []
    for name in _PARTS:
        given = facts.get(name)
        if not given or given in read:
            continue
        read.append(given)
        places = given if isinstance(given, list) else [given]
        folders = [root / base / _inside(path, name, place) for place in places]
        samples = [s for folder in folders for s in _samples(path, folder, categories, origin)]
        if any(sample.objects is not None for sample in samples):
            samples = [replace(sample, objects=sample.objects or ()) for sample in samples]
        found[name] = Dataset(root, categories, tuple(samples))
    if not found:
        raise InputError(path, f"it names none of {', '.join(_PARTS)}. {_CURE}")
    return each_a_scene(found)


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = yaml.safe_load(read_text(path, _MOST_BYTES, "list of a data set"))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(path, f"not YAML. {_CURE}") from error
    if not isinstance(facts, dict):
        raise InputError(path, f"not a table. {_CURE}")
    return facts


def _categories(path: Path, facts: Mapping[str, Any]) -> tuple[str, ...]:
    names = facts.get("names")
    if isinstance(names, dict):
        if any(number not in names for number in range(len(names))):
            raise InputError(path, f"names are not numbered from 0 without a gap. {_CURE}")
        names = [names[number] for number in range(len(names))]
    if not isinstance(names, list) or not names:
        raise InputError(path, f"names is not a list of categories. {_CURE}")
    # what aliases make of a small file may be too long to be written out
    if not all(isinstance(name, (str, int, float)) for name in names):
        raise InputError(path, f"names holds something that is no name. {_CURE}")
    found = tuple(str(name) for name in names)
    if len(set(found)) < len(found):
        raise InputError(path, f"two categories have the same name. {_CURE}")
    return found


def _inside(path: Path, key: str, place: object) -> PurePosixPath:
    """Returns where a folder is that the file names, which has to lie beside it."""
    name = place if isinstance(place, str) else ""
    while name.startswith("../"):  # some services write it so, of folders that lie beside the file
        name = name[3:]
    if not (name == "." or stays_inside(name)):
        raise InputError(
            path,
            f"{key}: {reprlib.repr(place)[:40]} is no folder beside this file. Put the pictures beside it "
            "and name their folders relative to it.",
        )
    return PurePosixPath(name)


def _samples(
    file: Path, folder: Path, categories: tuple[str, ...], origin: Origin
) -> Iterator[Sample]:
    """Yields the pictures of a folder and of those in it, by name."""
    root = file.parent
    if not folder.is_dir():
        raise InputError(file, f"'{folder.relative_to(root)}' is no folder of pictures. {_CURE}")
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() not in images.SUFFIXES or path.name.startswith("."):
            continue
        width, height = images.read_size(path)
        name = path.relative_to(root)
        labels = root / _labels_file(name)
        objects = tuple(_objects(labels, categories, width, height)) if labels.is_file() else None
        yield Sample(name.as_posix(), path, width, height, objects, origin)


def _labels_file(picture: Path) -> Path:
    """Returns where the labels of a picture are."""
    steps = list(picture.parent.parts)
    if "images" in steps:
        steps[len(steps) - 1 - steps[::-1].index("images")] = "labels"
    return Path(*steps, f"{picture.stem}.txt")


def _objects(
    path: Path, categories: tuple[str, ...], width: int, height: int
) -> Iterator[ObjectLabel]:
    lines = read_text(path, _MOST_BYTES, "file of labels").splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            category, box, outline = _line(path, number, line, categories)
            x0, y0, x1, y1 = box
            box_px = x0 * width, y0 * height, x1 * width, y1 * height
            area = (box_px[2] - box_px[0]) * (box_px[3] - box_px[1])
            mask = _mask(outline, width, height)
            if mask is not None:
                area = float(mask.area_px())
            yield ObjectLabel(category, box_px, area, mask=mask)


def _mask(outline: Sequence[float], width: int, height: int) -> RunLengths | None:
    """Returns the pixels inside an outline; None where there are none, or no outline."""
    if not outline:
        return None
    corners = np.reshape(outline, (-1, 2)).clip(0, 1) * (width, height)
    mask = RunLengths.of_polygons([corners.ravel().tolist()], (height, width))
    return mask if mask.area_px() else None


def _line(
    path: Path, number: int, line: str, categories: tuple[str, ...]
) -> tuple[str, Box, Sequence[float]]:
    """Returns the category of a line, its box and its outline, if it has one, over the picture's sides."""
    place = f"line {number}"
    try:
        first, *numbers = [float(word) for word in line.split()]
    except ValueError as error:
        raise InputError(path, f"{place}: '{line[:60]}' is not all numbers. {_CURE}") from error
    if first not in range(len(categories)):
        raise InputError(
            path, f"{place}: class {first:g}, but there are {len(categories)}, from 0. {_CURE}"
        )
    box = _box(numbers)
    if box is None:
        raise InputError(
            path,
            f"{place}: {len(numbers)} numbers after the class. A box has 4, an outline 6 or more "
            f"and as many x as y. {_CURE}",
        )
    x0, y0, x1, y1 = box
    if not (-_SLACK <= x0 < x1 <= 1 + _SLACK and -_SLACK <= y0 < y1 <= 1 + _SLACK):
        raise InputError(
            path,
            f"{place}: the box from ({x0:g}, {y0:g}) to ({x1:g}, {y1:g}) does not lie in the picture, "
            f"0 to 1 both ways, or is empty. {_CURE}",
        )
    return categories[int(first)], box, numbers if len(numbers) > 4 else ()


def _box(numbers: list[float]) -> Box | None:
    """Returns the box of four numbers or of an outline; None for another number of them."""
    if not all(math.isfinite(number) for number in numbers):
        return math.nan, math.nan, math.nan, math.nan
    if len(numbers) == 4:
        x, y, width, height = numbers
        return x - width / 2, y - height / 2, x + width / 2, y + height / 2
    if len(numbers) >= 6 and len(numbers) % 2 == 0:
        xs, ys = numbers[::2], numbers[1::2]
        return min(xs), min(ys), max(xs), max(ys)
    return None
