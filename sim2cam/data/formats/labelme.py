"""LabelMe: a JSON file of shapes for each image, as written by LabelMe and X-AnyLabeling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from sim2cam import images
from sim2cam.data.formats.annotation_shapes import ShapeConverter
from sim2cam.data.formats.label_files import ImageFinder
from sim2cam.data.formats.photos import (
    OrientedImage,
    detect_stored_pixel_labels,
    read_oriented_image,
)
from sim2cam.data.formats.writing import (
    assign_scene_per_image,
    check_category,
    warn_about_unsupported_images,
)
from sim2cam.data.parsing import convert_validation_errors, is_file, read_json
from sim2cam.data.problems import AnnotationErrors, warn_about_repairs
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError

_MAX_BYTES = 400_000_000  # files can contain the image
_HEAD_BYTES = 65536
_POLYGON_TYPES, _BOX_TYPES = ("polygon", "rotation", None), ("rectangle",)


@dataclass(frozen=True)
class _Shape:
    label: str
    points: list[tuple[float, float]]
    shape_type: str | None = None
    group_id: Any = None


@dataclass(frozen=True)
class _File:
    shapes: list[Any]
    imagePath: str | None = None  # noqa: N815 (key of the file)
    imageWidth: int | None = None  # noqa: N815
    imageHeight: int | None = None  # noqa: N815

    @property
    def size(self) -> tuple[int, int] | None:
        return (self.imageWidth, self.imageHeight) if self.imageWidth and self.imageHeight else None


_FILE: TypeAdapter[_File] = TypeAdapter(_File)
_SHAPE: TypeAdapter[_Shape] = TypeAdapter(_Shape)


def is_labelme(path: Path) -> bool:
    """Return whether a path is a folder of images with LabelMe files."""
    return path.is_dir() and any(True for _ in _find_label_files(path))


def _find_label_files(root: Path) -> Iterator[Path]:
    for path in sorted(root.glob("*.json")):
        image_paths = (path.with_suffix(suffix) for suffix in images.IMAGE_SUFFIXES)
        if any(map(is_file, image_paths)) and is_file(path):
            with path.open("rb") as file:
                if b'"shapes"' in file.read(_HEAD_BYTES):
                    yield path


def read_labelme(root: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the labelled images of a folder of LabelMe files as the split ``train``.

    Rectangles become boxes, polygons become boxes and masks; polygons with the same label and
    ``group_id`` are one object. Other shapes and images without a label file are left out with a
    warning. Categories are the labels that occur, sorted.

    Raises:
        InputError: a file is missing, broken or inconsistent.
    """
    problems = AnnotationErrors(root, skip_invalid=skip_invalid)
    finder, converter = ImageFinder(root, root), ShapeConverter()
    files: list[tuple[Path, _File, OrientedImage]] = []
    for path in _find_label_files(root):
        with problems.collect():
            file = _parse(path)
            image = finder.find(path, path.stem, file.imagePath or "")
            files.append((path, file, read_oriented_image(path, image.name, image, file.size)))
    are_stored = detect_stored_pixel_labels(root, [photo for _, _, photo in files])
    samples = []
    for (path, file, photo), is_stored in zip(files, are_stored, strict=True):
        size = photo.get_size(is_stored)
        objects: list[ObjectLabel] = []
        for shapes in _group_shapes(path, file.shapes, problems):
            with problems.collect():
                objects += _convert_shapes(path, shapes, size, converter)
        if is_stored:
            objects = [photo.orient_label(label) for label in objects]
        samples.append(Sample(photo.name, photo.path, *photo.upright_size, tuple(objects), origin))
    problems.report()
    unlabelled = {p.name for p in root.iterdir() if p.suffix.lower() in images.IMAGE_SUFFIXES}
    unlabelled -= {sample.name for sample in samples}
    _warn(root, [*finder.list_warnings(), *converter.list_warnings()], sorted(unlabelled))
    categories = sorted({label.category for sample in samples for label in sample.objects or ()})
    return assign_scene_per_image({"train": Dataset(root, tuple(categories), tuple(samples))})


def _parse(path: Path) -> _File:
    with convert_validation_errors(path):
        return _FILE.validate_python(read_json(path, _MAX_BYTES, "LabelMe file"))


def _group_shapes(
    path: Path, entries: Sequence[Any], problems: AnnotationErrors
) -> list[list[tuple[int, _Shape]]]:
    groups: dict[Any, list[tuple[int, _Shape]]] = {}
    for index, entry in enumerate(entries):
        with problems.collect():
            with convert_validation_errors(path, location=f"shapes[{index}]"):
                shape = _SHAPE.validate_python(entry)
            is_grouped = shape.group_id is not None and shape.shape_type in _POLYGON_TYPES
            key = (shape.label, str(shape.group_id)) if is_grouped else index
            groups.setdefault(key, []).append((index, shape))
    return list(groups.values())


def _convert_shapes(
    path: Path,
    entries: Sequence[tuple[int, _Shape]],
    size: tuple[int, int],
    converter: ShapeConverter,
) -> Iterator[ObjectLabel]:
    index, shape = entries[0]
    check_category(path, shape.label)
    points = [xy for _, part in entries for xy in part.points]
    try:
        if shape.shape_type in _POLYGON_TYPES:
            polygons = [[value for xy in part.points for value in xy] for _, part in entries]
            yield converter.convert_polygons(shape.label, polygons, size)
        elif shape.shape_type in _BOX_TYPES:
            if not points:
                raise ValueError("points is empty.")
            xs, ys = zip(*points, strict=True)
            yield converter.convert_box(shape.label, (min(xs), min(ys), max(xs), max(ys)), size)
        else:
            converter.skip(str(shape.shape_type)[:40])
    except ValueError as error:
        raise InputError(path, f"shapes[{index}] ({shape.label}): {error}") from error


def _warn(root: Path, notes: list[str], unlabelled: Sequence[str]) -> None:
    if unlabelled:
        notes.append(
            f"images without a LabelMe file are left out: {len(unlabelled)} (first: {unlabelled[0]})."
        )
    warn_about_repairs(root, notes)
    warn_about_unsupported_images(root, {root})
