"""Labels of a COCO file: they come out upright, like the pixels that ``images`` returns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_args

from sim2cam import images
from sim2cam.data.formats.coco.boxes import XYXY_MESSAGE, are_xyxy
from sim2cam.data.formats.coco.file import (
    Annotation,
    CocoFile,
    limit_nesting,
    parse_tables,
    read_coco_file,
)
from sim2cam.data.formats.coco.photos import CocoImage, find_coco_images, read_coco_image_entry
from sim2cam.data.formats.coco.shapes import parse_keypoints, parse_segmentation
from sim2cam.data.formats.photos import detect_stored_pixel_labels
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.boxes import bound_rotated_box, xywh_to_xyxy

_MAX_NUMBER = 1e300


def read_coco(path: Path, origin: Origin, *, skip_invalid: bool = False) -> Dataset:
    """Read the images and labels of a COCO file, in its order.

    Images are found as ``coco_photos.find_photos`` says. Boxes, masks and keypoints are turned upright with the
    pixels where they are of the pixels as stored, as ``coco_photos.are_of_stored_pixels`` decides. Keypoints
    have the names that their category lists. Without a list of annotations, the images are unlabelled
    (``objects`` is None). Boxes of no width or height are left out with a warning; of a box that CVAT rotated,
    the box around it is taken. What our export adds to COCO is kept: an image's origin and scene, otherwise
    every image is its own scene; of an object, its visible share, amodal box and number.

    Args:
        path: the file.
        origin: how the images were made.
        skip_invalid: leave flawed annotations out with a warning.

    Raises:
        InputError: the file is missing, not COCO or contradicts itself, annotations are flawed, boxes are
            corners, or an image is missing, not an image, or of another size.
    """
    problems = AnnotationErrors(path, skip_invalid=skip_invalid)
    with limit_nesting(path):
        file = read_coco_file(path, problems)
        photos = find_coco_images(path, file.images)
        labels = _LabelBuilder(path, file, problems)
        ours = all(type(photo.entry.scene_index) is int for photo in photos)
        samples: list[Sample] = []
        for photo, turned in zip(photos, detect_stored_pixel_labels(path, photos), strict=True):
            objects = labels.build_labels(photo, turned)
            samples.append(
                Sample(
                    name=photo.name,
                    rgb=photo.path,
                    width=photo.upright_size[0],
                    height=photo.upright_size[1],
                    objects=None if file.annotations is None else objects,
                    origin=photo.entry.origin if photo.entry.origin in get_args(Origin) else origin,
                    scene_index=photo.entry.scene_index if ours else len(samples),
                )
            )
        labels.report()
    return Dataset(path.parent, tuple(c.name for c in file.categories.values()), tuple(samples))


def read_coco_image(
    path: Path, name: str, image_path: Path, tables: dict[str, Any], problems: AnnotationErrors
) -> tuple[tuple[str, ...], tuple[ObjectLabel, ...]]:
    """Return the categories and the labels of one image whose COCO tables stand alone.

    Args:
        path: what the tables were read from, for errors.
        name: of the image.
        image_path: its file.
        tables: ``annotations`` and ``categories``; ``width`` and ``height`` where they tell of which
            pixels the labels are.
        problems: collects flawed annotations, which are left out.

    Raises:
        InputError: as ``read_coco``; of annotations only that their boxes are corners.
    """
    width, height = images.read_size(image_path)
    image = {"id": 0, "file_name": name, "width": width, "height": height}
    image |= {side: tables[side] for side in ("width", "height") if side in tables}
    annotations = tables["annotations"]
    if isinstance(annotations, list):
        annotations = [a | {"image_id": 0} if isinstance(a, dict) else a for a in annotations]
    with limit_nesting(path):
        whole = {**tables, "images": [image], "annotations": annotations}
        file = parse_tables(path, whole, problems)
        photo = read_coco_image_entry(path, file.images[0], name, image_path)
        (turned,) = detect_stored_pixel_labels(path, [photo])
        labels = _LabelBuilder(path, file, problems)
        objects = labels.build_labels(photo, turned)
        labels.warn()
    return tuple(c.name for c in file.categories.values()), objects


class _LabelBuilder:
    """Turn the annotations of a file into labels, and count those that are changed or left out."""

    def __init__(self, path: Path, file: CocoFile, problems: AnnotationErrors) -> None:
        self._path, self._file, self._problems = path, file, problems
        self._empty = self._rotated = 0
        self._read: list[tuple[Annotation, CocoImage]] = []

    def build_labels(self, image: CocoImage, is_stored: bool) -> tuple[ObjectLabel, ...]:
        """Return the labels of an image, which are of its stored pixels where ``is_stored``."""
        found = []
        for number, annotation in self._file.get_annotations(image.entry.id):
            if _is_empty(annotation.bbox):
                self._empty += 1
                continue
            with self._problems.collect():
                try:
                    found.append(self._build_label(annotation, image, is_stored))
                except ValueError as error:
                    place = f"annotations[{number}] (image {image.name})"
                    raise InputError(self._path, f"{place}: {error}") from error
                self._read.append((annotation, image))
        return tuple(found)

    def report(self) -> None:
        """Report flawed annotations, and those that were changed or left out.

        Raises:
            InputError: annotations are flawed, or their boxes are corners.
        """
        self._problems.report()
        boxes = [annotation.bbox for annotation, _ in self._read]
        areas = [math.nan if a.area is None else a.area for a, _ in self._read]
        if are_xyxy(boxes, [photo.listed_size for _, photo in self._read], areas):
            raise InputError(self._path, f"{XYXY_MESSAGE} Export the annotations as COCO has them.")
        self.warn()

    def warn(self) -> None:
        """Warn of boxes that were changed or left out."""
        notes = []
        if self._empty:
            notes.append(f"boxes without width or height are left out: {self._empty}.")
        if self._rotated:
            notes.append(
                f"rotated boxes (attributes.rotation, as CVAT writes it): {self._rotated}. The axis-aligned boxes "
                "around them are used."
            )
        if notes:
            warnings.warn(f"{self._path}: {' '.join(notes)}", RepairWarning, stacklevel=2)

    def _build_label(
        self, annotation: Annotation, image: CocoImage, is_stored: bool
    ) -> ObjectLabel:
        category = self._file.categories.get(annotation.category_id)
        if category is None:
            known = ", ".join(f"{i} ({c.name})" for i, c in self._file.categories.items())
            raise ValueError(f"no category has the id {annotation.category_id}. Allowed: {known}.")
        problem = _find_box_problem(annotation.bbox, image, is_stored) or _find_area_problem(
            annotation.area
        )
        if problem:
            raise ValueError(problem)
        columns, rows = image.stored_size if is_stored else image.upright_size
        mask = parse_segmentation(annotation.segmentation, (rows, columns))
        x, y, width, height = annotation.bbox
        box = xywh_to_xyxy((x, y, width, height))
        rotation_deg = _parse_rotation_deg(annotation.attributes) if mask is None else 0.0
        if rotation_deg:
            self._rotated += 1
            box = bound_rotated_box(box, rotation_deg)
        label = ObjectLabel(
            category=category.name,
            box_xyxy=box,
            area_px=width * height if annotation.area is None else annotation.area,
            is_crowd=annotation.iscrowd,
            mask=mask,
            keypoints=parse_keypoints(annotation.keypoints, category.keypoints or ()),
            **_parse_extensions(annotation),
        )
        return image.orient_label(label) if is_stored else label


def _is_empty(bbox: Sequence[float]) -> bool:
    """Return whether a box has no width or no height; COCO's own files and BlenderProc's have some."""
    is_finite = len(bbox) == 4 and all(map(math.isfinite, bbox))
    return is_finite and min(bbox[2:]) == 0


def _parse_rotation_deg(attributes: Any) -> float:
    """Return by how much CVAT rotated a box about its centre, clockwise; 0 where it stands upright."""
    rotation = attributes.get("rotation") if isinstance(attributes, dict) else None
    return rotation % 180.0 if _is_number(rotation) else 0.0


def _parse_extensions(annotation: Annotation) -> dict[str, Any]:
    """Return what our export says of an object beside COCO; other values are other files' own."""
    fraction, amodal = annotation.visible_fraction, annotation.bbox_amodal
    found: dict[str, Any] = {}
    if _is_number(fraction) and 0 <= fraction <= 1:
        found["visible_fraction"] = float(fraction)
    is_box = isinstance(amodal, list) and len(amodal) == 4 and all(map(_is_number, amodal))
    if is_box and min(amodal[2:]) > 0:
        found["box_amodal_xyxy"] = xywh_to_xyxy((amodal[0], amodal[1], amodal[2], amodal[3]))
    if type(annotation.instance_id) is int:
        found["instance_id"] = annotation.instance_id
    return found


def _is_number(value: Any) -> TypeGuard[int | float]:
    return (
        type(value) in (int, float) and abs(value) < _MAX_NUMBER
    )  # an integer may be too large for a float


def _find_box_problem(bbox: list[float], image: CocoImage, is_stored: bool) -> str | None:
    if len(bbox) != 4 or not all(math.isfinite(value) for value in bbox):
        return f"bbox {bbox} must be four finite numbers: x, y, width, height."
    x, y, width, height = bbox
    if width <= 0 or height <= 0:
        return f"bbox {bbox} must have a width and a height above 0."
    columns, rows = image.stored_size if is_stored else image.upright_size
    if x >= columns or y >= rows or x + width <= 0 or y + height <= 0:
        return f"bbox {bbox} lies outside the image of {columns}x{rows} pixels."
    return None


def _find_area_problem(area: float | None) -> str | None:
    if area is None or (math.isfinite(area) and area >= 0):
        return None
    return f"area {area} must be a finite number, 0 or more."
