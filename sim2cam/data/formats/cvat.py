"""CVAT for images 1.1: ``annotations.xml`` with the shapes of all images, which lie in ``images/``."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from sim2cam.data.formats.annotation_shapes import DrawnShapes
from sim2cam.data.formats.photos import Photo, are_of_stored_pixels, read_photo
from sim2cam.data.formats.writing import checked_categories, each_a_scene
from sim2cam.data.formats.xml_file import number_of, parse_xml
from sim2cam.data.parsing import category_problem, is_file, stays_inside
from sim2cam.data.problems import Problems
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.boxes import box_of_mask
from sim2cam.geometry.run_length import RunLengths

FILE = "annotations.xml"
_MOST_BYTES = 1_000_000_000
_HEAD_BYTES = 4096
_PARTS = {"default": "train", "validation": "val"}
_NOT_SHAPES = ("tag",)  # of whole images


def is_cvat(path: Path) -> bool:
    """Return whether a path is an ``annotations.xml`` of CVAT, or a folder with one."""
    file = path / FILE if path.is_dir() else path
    if file.suffix.lower() != ".xml" or not is_file(file):
        return False
    with file.open("rb") as stream:
        return b"<annotations" in stream.read(_HEAD_BYTES)


def read_cvat(path: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the images of a CVAT XML file, each subset as a part, ``default`` as ``train``.

    Boxes, polygons and masks are read, other shapes are left out with a warning. Of rotated boxes the boxes
    around them are read. Categories are the labels of the task, in its order.

    Args:
        path: the file, or its folder.
        origin: how the images were made.
        skip_invalid: leave flawed labels out with a warning.

    Raises:
        InputError: a file is missing, broken or contradicts itself, or lies outside the folder.
    """
    path = path / FILE if path.is_dir() else path
    problems, shapes = Problems(path, skip=skip_invalid), DrawnShapes()
    tree = parse_xml(path, "annotations", _MOST_BYTES)
    if tree.find("track") is not None:
        raise InputError(
            path, "holds tracks of a video. Export the task as 'CVAT for images 1.1' or COCO."
        )
    categories = checked_categories(path, list(_labels_of_task(tree)))
    read: list[tuple[Element, Photo]] = []
    listed: set[Path] = set()
    for entry in tree.findall("image"):
        with problems.collecting():
            read.append((entry, _photo(path, entry, listed)))
    if not read and not problems.found:
        raise InputError(path, "lists no image. Export the task with its images.")
    parts: dict[str, list[Sample]] = defaultdict(list)
    turned = are_of_stored_pixels(path, [photo for _, photo in read])
    for (entry, photo), is_turned in zip(read, turned, strict=True):
        objects: list[ObjectLabel] = []
        for number, shape in enumerate(entry):
            with problems.collecting():
                size = photo.size(is_turned)
                objects += _labels(path, photo, number, shape, size, shapes)
        if is_turned:
            objects = [photo.upright_label(label) for label in objects]
        subset = entry.get("subset", "").lower() or "default"
        sample = Sample(photo.name, photo.path, *photo.upright, tuple(objects), origin)
        parts[_PARTS.get(subset, subset)].append(sample)
    problems.finish()
    if shapes.notes():
        warnings.warn(f"{path}: {' '.join(shapes.notes())}", RepairWarning, stacklevel=2)
    return each_a_scene(
        {name: Dataset(path.parent, categories, tuple(part)) for name, part in parts.items()}
    )


def _labels_of_task(tree: Element) -> Iterator[str]:
    """Yield the names of the labels in the order of the task, or else those that occur, sorted."""
    names = [name.text or "" for name in tree.iterfind("meta//labels/label/name")]
    used = {shape.get("label", "") for shape in tree.iterfind("image/*[@label]")}
    yield from dict.fromkeys([*names, *sorted(used)])


def _photo(path: Path, entry: Element, listed: set[Path]) -> Photo:
    name = entry.get("name", "").replace("\\", "/")
    problem = category_problem(name)
    if problem is not None or not stays_inside(name):
        raise InputError(path, f"image {problem or f'{name!r:.80} lies outside the folder.'}")
    root, subset = path.parent, entry.get("subset", "")
    folders = [root / "images", root / "images" / subset, root, root / subset]
    found = next((folder / name for folder in folders if is_file(folder / name)), None)
    if found is None:
        raise InputError(
            path, f"there is no image '{name}' in images/ beside this file. Copy it there."
        )
    if found in listed:
        raise InputError(path, f"image {name} is listed twice.")
    listed.add(found)
    size = tuple(int(_attribute(path, name, entry, side)) for side in ("width", "height"))
    return read_photo(path, found.relative_to(root).as_posix(), found, (size[0], size[1]))


def _attribute(path: Path, place: str, entry: Element, key: str, default: str = "") -> float:
    return number_of(path, f"{place}: {key}", entry.get(key, default))


def _labels(
    path: Path,
    photo: Photo,
    number: int,
    shape: Element,
    size: tuple[int, int],
    shapes: DrawnShapes,
) -> Iterator[ObjectLabel]:
    """Yield the label of a shape; none for shapes that are not read."""
    category = shape.get("label", "")
    place = f"image {photo.name}: shape {number} ({category})"
    if not category:
        raise InputError(path, f"{place}: it has no label.")
    try:
        if shape.tag == "box":
            sides = (_attribute(path, place, shape, key) for key in ("xtl", "ytl", "xbr", "ybr"))
            x0, y0, x1, y1 = sides
            rotation_deg = _attribute(path, place, shape, "rotation", "0")
            yield shapes.label_box(category, (x0, y0, x1, y1), size, rotation_deg)
        elif shape.tag == "polygon":
            corners = _numbers(shape.get("points", "").replace(";", ","))
            yield shapes.label_polygons(category, [corners], size)
        elif shape.tag == "mask":
            yield _mask_label(category, shape, size)
        elif shape.tag not in _NOT_SHAPES:
            shapes.leave_out(shape.tag[:40])
    except ValueError as error:
        raise InputError(path, f"{place}: {error}") from error


def _mask_label(category: str, shape: Element, size: tuple[int, int]) -> ObjectLabel:
    """Return the label of a mask: runs of pixels outside and inside by turns, over the rows of a box."""
    sides = [_numbers(shape.get(key, "")) for key in ("left", "top", "width", "height")]
    left, top, width, height = (int(side[0]) for side in sides)
    runs = np.array(_numbers(shape.get("rle", "")))
    fits = left >= 0 and top >= 0 and left + width <= size[0] and top + height <= size[1]
    if not fits or min(width, height) < 1 or runs.min() < 0 or runs.sum() != width * height:
        raise ValueError("the runs of its mask do not fill its box in the image.")
    mask = np.zeros(size[::-1], bool)
    inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs.astype(np.int64))
    mask[top : top + height, left : left + width] = inside.reshape(height, width)
    box = box_of_mask(mask)
    if box is None:
        raise ValueError("its mask is empty.")
    return ObjectLabel(category, box, float(mask.sum()), mask=RunLengths.of(mask))


def _numbers(text: str) -> list[float]:
    """Return the numbers of a text, which are separated by commas."""
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"'{text[:40]}' is not all numbers.")
    return numbers
