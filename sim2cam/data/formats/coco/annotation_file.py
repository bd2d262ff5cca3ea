"""Reading and validation of COCO annotation files."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from sim2cam import images
from sim2cam.data.parsing import convert_validation_errors, read_json
from sim2cam.data.problems import AnnotationErrors
from sim2cam.errors import InputError

_MAX_BYTES = 1_000_000_000  # twice COCO's training annotations
_ROOT_SUPERCATEGORY = "none"  # supercategory of Roboflow's project category
_UNSUPPORTED_MESSAGE = (
    f"is not a folder of images ({', '.join(images.IMAGE_SUFFIXES)}), a video "
    f"({', '.join(images.VIDEO_SUFFIXES)}) or a COCO file (.json). Convert it, or give its folder."
)
_EXPORT_HINT = "Export the annotations as COCO detection."


@dataclass(frozen=True)
class ImageEntry:
    """Entry of ``images``; ``origin`` and ``scene_index`` are extensions of ``write_coco``."""

    id: int | str
    file_name: str
    width: int
    height: int
    origin: Any = None
    scene_index: Any = None


@dataclass(frozen=True)
class Category:
    """An entry of ``categories``."""

    id: int
    name: str
    keypoints: list[str] | None = None
    supercategory: Any = None


@dataclass(frozen=True)
class Annotation:
    """Entry of ``annotations``; ``attributes`` is CVAT's, the last three are extensions of ``write_coco``."""

    image_id: int | str
    category_id: int
    bbox: list[float]
    id: Any = None
    area: float | None = None
    iscrowd: bool = False
    segmentation: Any = None
    keypoints: Any = None
    attributes: Any = None
    visible_fraction: Any = None
    bbox_amodal: Any = None
    instance_id: Any = None


@dataclass(frozen=True)
class CocoFile:
    """Contents of a COCO file.

    Attributes:
        images: entries in the order of the file.
        categories: categories by id, in the order of ids.
        annotations: annotations by image id, each with its index in the file; None without a list
            of annotations.
    """

    images: list[ImageEntry]
    categories: dict[int, Category]
    annotations: dict[int | str, list[tuple[int, Annotation]]] | None

    def get_annotations(self, image_id: int | str) -> Sequence[tuple[int, Annotation]]:
        """Return the annotations of an image with their indices."""
        return (self.annotations or {}).get(image_id, ())


@dataclass(frozen=True)
class _Tables:
    images: list[ImageEntry]
    categories: list[Category]
    annotations: list[Any] | None = field(default=None)


_TABLES: TypeAdapter[_Tables] = TypeAdapter(_Tables)
_ANNOTATION: TypeAdapter[Annotation] = TypeAdapter(Annotation)
_ANNOTATIONS: TypeAdapter[list[Annotation]] = TypeAdapter(list[Annotation])


def read_coco_file(path: Path, problems: AnnotationErrors) -> CocoFile:
    """Read the tables of a COCO file.

    Raises:
        InputError: the file is missing or not COCO, or its images or categories are inconsistent.
    """
    if not path.exists():
        raise InputError(path, "no such file. Check the path.")
    try:
        tables = read_json(path, _MAX_BYTES, "COCO file", "Export the annotations again.")
    except InputError as error:
        if path.suffix.lower() == ".json" or not path.is_file():
            raise
        raise InputError(path, _UNSUPPORTED_MESSAGE) from error
    for key in ("images", "categories"):
        if not isinstance(tables, dict) or key not in tables:
            raise InputError(path, f"not a COCO file: list '{key}' is missing. {_EXPORT_HINT}")
    return parse_tables(path, tables, problems)


def parse_tables(path: Path, tables: dict[str, Any], problems: AnnotationErrors) -> CocoFile:
    """Return the validated tables of a COCO file.

    Raises:
        InputError: as ``read_coco_file``.
    """
    with convert_validation_errors(path, "Correct the file."):
        parsed = _TABLES.validate_python(tables)
    _check_images(path, parsed.images)
    annotations = None
    if parsed.annotations is not None:
        annotations = list(_parse_annotations(path, parsed.annotations, problems))
    used_ids = {annotation.category_id for _, annotation in annotations or ()}
    return CocoFile(
        parsed.images,
        _index_categories(path, parsed.categories, used_ids),
        None
        if annotations is None
        else _group_by_image(path, parsed.images, annotations, problems),
    )


@contextmanager
def limit_nesting(path: Path) -> Iterator[None]:
    """Turn a RecursionError from deeply nested tables into an error that names the file."""
    try:
        yield
    except RecursionError as error:
        raise InputError(path, f"its tables are nested too deeply. {_EXPORT_HINT}") from error


def _check_images(path: Path, entries: list[ImageEntry]) -> None:
    if not entries:
        raise InputError(path, "its list of images is empty. Export it with the images.")
    ids: set[int | str] = set()
    for entry in entries:
        if entry.id in ids:
            raise InputError(path, f"two images have the id {entry.id}. Give each its own.")
        ids.add(entry.id)


def _index_categories(
    path: Path, categories: list[Category], used_ids: set[int]
) -> dict[int, Category]:
    supercategories = {
        category.supercategory for category in categories if _is_text(category.supercategory)
    }
    by_id: dict[int, Category] = {}
    ids: set[int] = set()
    names: set[str] = set()
    for category in sorted(categories, key=lambda c: c.id):
        if category.id in ids:
            raise InputError(path, f"two categories have the id {category.id}. Give each its own.")
        ids.add(category.id)
        is_root = category.supercategory == _ROOT_SUPERCATEGORY and category.name in supercategories
        if is_root and category.id not in used_ids:
            continue
        if category.name in names:
            raise InputError(
                path, f"two categories are named '{category.name}'. Merge them or rename one."
            )
        by_id[category.id] = category
        names.add(category.name)
    return by_id


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _parse_annotations(
    path: Path, entries: list[Any], problems: AnnotationErrors
) -> Iterator[tuple[int, Annotation]]:
    try:
        yield from enumerate(_ANNOTATIONS.validate_python(entries))
        return
    except ValidationError:  # parse one by one to collect all errors
        pass
    for index, entry in enumerate(entries):
        with problems.collect():
            with convert_validation_errors(path, location=f"annotations[{index}]"):
                annotation = _ANNOTATION.validate_python(entry)
            yield index, annotation


def _group_by_image(
    path: Path,
    entries: list[ImageEntry],
    annotations: list[tuple[int, Annotation]],
    problems: AnnotationErrors,
) -> dict[int | str, list[tuple[int, Annotation]]]:
    image_ids = {entry.id for entry in entries}
    indices: dict[str, int] = {}
    by_image: dict[int | str, list[tuple[int, Annotation]]] = defaultdict(list)
    for index, annotation in annotations:
        with problems.collect():
            annotation_id = json.dumps(annotation.id)
            if annotation.id is not None and indices.setdefault(annotation_id, index) != index:
                raise InputError(
                    path,
                    f"annotations[{index}] has the id {annotation_id} of annotations[{indices[annotation_id]}].",
                )
            if annotation.image_id not in image_ids:
                image_id = json.dumps(annotation.image_id)
                raise InputError(
                    path,
                    f"annotations[{index}] has image_id {image_id}, which is not in the list of images.",
                )
            by_image[annotation.image_id].append((index, annotation))
    return by_image
