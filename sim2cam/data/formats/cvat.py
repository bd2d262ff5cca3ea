"""CVAT for images 1.1: ``annotations.xml`` with the shapes of all images in ``images/``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from sim2cam.data.formats.annotation_shapes import ShapeConverter
from sim2cam.data.formats.photos import (
    OrientedImage,
    detect_stored_pixel_labels,
    read_oriented_image,
)
from sim2cam.data.formats.writing import assign_scene_per_image, validate_categories
from sim2cam.data.formats.xml_file import parse_number, parse_xml
from sim2cam.data.parsing import find_category_problem, is_file, is_inside_folder
from sim2cam.data.problems import AnnotationErrors, warn_about_repairs
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import mask_to_box
from sim2cam.geometry.run_length import RleMask

ANNOTATION_FILE = "annotations.xml"
_MAX_BYTES = 1_000_000_000
_HEAD_BYTES = 4096
_SPLIT_NAMES = {"default": "train", "validation": "val"}
_IMAGE_LEVEL_TAGS = ("tag",)  # tags of whole images, without shape


def is_cvat(path: Path) -> bool:
    """Return whether a path is an ``annotations.xml`` of CVAT, or a folder with one."""
    file = path / ANNOTATION_FILE if path.is_dir() else path
    if file.suffix.lower() != ".xml" or not is_file(file):
        return False
    with file.open("rb") as stream:
        return b"<annotations" in stream.read(_HEAD_BYTES)


def read_cvat(path: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the images of a CVAT XML file, each subset as a split, ``default`` as ``train``.

    Boxes, polygons and masks are read, other shapes are left out with a warning. Rotated boxes are
    replaced by their bounding boxes. Categories are the labels of the task, in its order.

    Args:
        path: the file, or its folder.

    Raises:
        InputError: a file is missing, broken, inconsistent, or outside the folder.
    """
    path = path / ANNOTATION_FILE if path.is_dir() else path
    problems, converter = AnnotationErrors(path, skip_invalid=skip_invalid), ShapeConverter()
    root = parse_xml(path, "annotations", _MAX_BYTES)
    if root.find("track") is not None:
        raise InputError(
            path, "contains video tracks. Export the task as 'CVAT for images 1.1' or COCO."
        )
    categories = validate_categories(path, list(_list_task_labels(root)))
    entries: list[tuple[Element, OrientedImage]] = []
    read_paths: set[Path] = set()
    for entry in root.findall("image"):
        with problems.collect():
            entries.append((entry, _read_image(path, entry, read_paths)))
    if not entries and not problems.has_errors:
        raise InputError(path, "contains no images. Export the task with its images.")
    splits: dict[str, list[Sample]] = defaultdict(list)
    are_stored = detect_stored_pixel_labels(path, [photo for _, photo in entries])
    for (entry, photo), is_stored in zip(entries, are_stored, strict=True):
        objects: list[ObjectLabel] = []
        for number, shape in enumerate(entry):
            with problems.collect():
                size = photo.get_size(is_stored)
                objects += _convert_shape(path, photo, number, shape, size, converter)
        if is_stored:
            objects = [photo.orient_label(label) for label in objects]
        subset = entry.get("subset", "").lower() or "default"
        sample = Sample(photo.name, photo.path, *photo.upright_size, tuple(objects), origin)
        splits[_SPLIT_NAMES.get(subset, subset)].append(sample)
    problems.report()
    warn_about_repairs(path, converter.list_warnings())
    return assign_scene_per_image(
        {name: Dataset(path.parent, categories, tuple(samples)) for name, samples in splits.items()}
    )


def _list_task_labels(tree: Element) -> Iterator[str]:
    names = [name.text or "" for name in tree.iterfind("meta//labels/label/name")]
    used = {shape.get("label", "") for shape in tree.iterfind("image/*[@label]")}
    yield from dict.fromkeys([*names, *sorted(used)])


def _read_image(path: Path, entry: Element, read_paths: set[Path]) -> OrientedImage:
    name = entry.get("name", "").replace("\\", "/")
    problem = find_category_problem(name)
    if problem is not None or not is_inside_folder(name):
        raise InputError(path, f"image {problem or f'{name!r:.80} lies outside the folder.'}")
    root, subset = path.parent, entry.get("subset", "")
    folders = [root / "images", root / "images" / subset, root, root / subset]
    image_path = next((folder / name for folder in folders if is_file(folder / name)), None)
    if image_path is None:
        raise InputError(
            path, f"image '{name}' is missing in images/ next to this file. Copy it there."
        )
    if image_path in read_paths:
        raise InputError(path, f"image {name} is listed twice.")
    read_paths.add(image_path)
    size = tuple(int(_parse_attribute(path, name, entry, side)) for side in ("width", "height"))
    return read_oriented_image(
        path, image_path.relative_to(root).as_posix(), image_path, (size[0], size[1])
    )


def _parse_attribute(
    path: Path, location: str, entry: Element, key: str, default: str = ""
) -> float:
    return parse_number(path, f"{location}: {key}", entry.get(key, default))


def _convert_shape(
    path: Path,
    image: OrientedImage,
    index: int,
    shape: Element,
    size: tuple[int, int],
    converter: ShapeConverter,
) -> Iterator[ObjectLabel]:
    category = shape.get("label", "")
    location = f"image {image.name}: shape {index} ({category})"
    if not category:
        raise InputError(path, f"{location}: label is missing.")
    try:
        if shape.tag == "box":
            sides = (
                _parse_attribute(path, location, shape, key) for key in ("xtl", "ytl", "xbr", "ybr")
            )
            x0, y0, x1, y1 = sides
            rotation_deg = _parse_attribute(path, location, shape, "rotation", "0")
            yield converter.convert_box(category, (x0, y0, x1, y1), size, rotation_deg)
        elif shape.tag == "polygon":
            corners = _parse_numbers(shape.get("points", "").replace(";", ","))
            yield converter.convert_polygons(category, [corners], size)
        elif shape.tag == "mask":
            yield _convert_mask(category, shape, size)
        elif shape.tag not in _IMAGE_LEVEL_TAGS:
            converter.skip(shape.tag[:40])
    except ValueError as error:
        raise InputError(path, f"{location}: {error}") from error


def _convert_mask(category: str, shape: Element, size: tuple[int, int]) -> ObjectLabel:
    sides = [_parse_numbers(shape.get(key, "")) for key in ("left", "top", "width", "height")]
    left, top, width, height = (int(side[0]) for side in sides)
    runs = np.array(_parse_numbers(shape.get("rle", "")))
    is_in_image = left >= 0 and top >= 0 and left + width <= size[0] and top + height <= size[1]
    if not is_in_image or min(width, height) < 1 or runs.min() < 0 or runs.sum() != width * height:
        raise ValueError(
            "the runs of the mask do not match its box, or the box lies outside the image."
        )
    mask = np.zeros(size[::-1], bool)
    is_inside = np.repeat(np.arange(len(runs)) % 2 == 1, runs.astype(np.int64))
    mask[top : top + height, left : left + width] = is_inside.reshape(height, width)
    box = mask_to_box(mask)
    if box is None:
        raise ValueError("the mask is empty.")
    return ObjectLabel(category, box, float(mask.sum()), mask=RleMask.from_mask(mask))


def _parse_numbers(text: str) -> list[float]:
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"'{text[:40]}' is not a list of numbers.")
    return numbers
