"""COCO reader: datasets from the files that ``annotation_file`` parses.

Labels are of the upright pixels, as ``sim2cam.images`` returns them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_args

from sim2cam import images
from sim2cam.data.formats.coco.annotation_file import (
    Annotation,
    CocoFile,
    limit_nesting,
    parse_tables,
    read_coco_file,
)
from sim2cam.data.formats.coco.boxes import XYXY_MESSAGE, are_xyxy
from sim2cam.data.formats.coco.photos import CocoImage, find_coco_images, read_coco_image_entry
from sim2cam.data.formats.coco.shapes import parse_keypoints, parse_segmentation
from sim2cam.data.formats.photos import detect_stored_pixel_labels
from sim2cam.data.problems import AnnotationErrors, warn_about_repairs
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import bound_rotated_box, xywh_to_xyxy

_MAX_NUMBER = 1e300


def read_coco(path: Path, origin: Origin, *, skip_invalid: bool = False) -> Dataset:
    """Read the images and labels of a COCO file, in its order.

    Images are found as by ``find_coco_images``. Labels of stored pixels are rotated upright, see
    ``detect_stored_pixel_labels``. Keypoints have the names of their category. Without a list of
    annotations, images are unlabelled (``objects`` is None). Boxes without width or height are left
    out with a warning; boxes rotated by CVAT are replaced by their bounding boxes. Extensions of
    ``write_coco`` are restored: origin and scene of an image (else every image is a scene); visible
    fraction, amodal box and instance id of an object.

    Raises:
        InputError: the file is missing, not COCO or inconsistent, annotations are invalid, boxes
            are corners, or an image is missing, broken, or of another size.
    """
    problems = AnnotationErrors(path, skip_invalid=skip_invalid)
    with limit_nesting(path):
        file = read_coco_file(path, problems)
        photos = find_coco_images(path, file.images)
        builder = _LabelBuilder(path, file, problems)
        has_scenes = all(type(photo.entry.scene_index) is int for photo in photos)
        samples: list[Sample] = []
        for photo, is_stored in zip(photos, detect_stored_pixel_labels(path, photos), strict=True):
            objects = builder.build_labels(photo, is_stored)
            samples.append(
                Sample(
                    name=photo.name,
                    rgb=photo.path,
                    width=photo.upright_size[0],
                    height=photo.upright_size[1],
                    objects=None if file.annotations is None else objects,
                    origin=photo.entry.origin if photo.entry.origin in get_args(Origin) else origin,
                    scene_index=photo.entry.scene_index if has_scenes else len(samples),
                )
            )
        builder.report()
    return Dataset(path.parent, tuple(c.name for c in file.categories.values()), tuple(samples))


def read_coco_image(
    path: Path, name: str, image_path: Path, tables: dict[str, Any], problems: AnnotationErrors
) -> tuple[tuple[str, ...], tuple[ObjectLabel, ...]]:
    """Return the categories and labels of one image from COCO tables of its own.

    Args:
        tables: ``annotations`` and ``categories``, and optionally ``width`` and ``height`` of the
            labelled pixels.

    Raises:
        InputError: the tables are not COCO or inconsistent.
    """
    width, height = images.read_size(image_path)
    image = {"id": 0, "file_name": name, "width": width, "height": height}
    image |= {side: tables[side] for side in ("width", "height") if side in tables}
    annotations = tables["annotations"]
    if isinstance(annotations, list):
        annotations = [a | {"image_id": 0} if isinstance(a, dict) else a for a in annotations]
    with limit_nesting(path):
        complete = {**tables, "images": [image], "annotations": annotations}
        file = parse_tables(path, complete, problems)
        photo = read_coco_image_entry(path, file.images[0], name, image_path)
        (is_stored,) = detect_stored_pixel_labels(path, [photo])
        builder = _LabelBuilder(path, file, problems)
        objects = builder.build_labels(photo, is_stored)
        builder.warn()
    return tuple(c.name for c in file.categories.values()), objects


class _LabelBuilder:
    def __init__(self, path: Path, file: CocoFile, problems: AnnotationErrors) -> None:
        self._path, self._file, self._problems = path, file, problems
        self._empty = self._rotated = 0
        self._read: list[tuple[Annotation, CocoImage]] = []

    def build_labels(self, image: CocoImage, is_stored: bool) -> tuple[ObjectLabel, ...]:
        """Return the labels of an image; ``is_stored`` if they are of its stored pixels."""
        labels = []
        for index, annotation in self._file.get_annotations(image.entry.id):
            if _is_empty(annotation.bbox):
                self._empty += 1
                continue
            with self._problems.collect():
                try:
                    labels.append(self._build_label(annotation, image, is_stored))
                except ValueError as error:
                    location = f"annotations[{index}] (image {image.name})"
                    raise InputError(self._path, f"{location}: {error}") from error
                self._read.append((annotation, image))
        return tuple(labels)

    def report(self) -> None:
        """Report invalid annotations, and boxes that were changed or left out.

        Raises:
            InputError: annotations are invalid, or boxes are corners.
        """
        self._problems.report()
        boxes = [annotation.bbox for annotation, _ in self._read]
        areas = [math.nan if a.area is None else a.area for a, _ in self._read]
        if are_xyxy(boxes, [photo.listed_size for _, photo in self._read], areas):
            raise InputError(self._path, f"{XYXY_MESSAGE} Export the annotations as COCO.")
        self.warn()

    def warn(self) -> None:
        """Warn about boxes that were changed or left out."""
        notes = []
        if self._empty:
            notes.append(f"boxes without width or height are left out: {self._empty}.")
        if self._rotated:
            notes.append(
                f"rotated boxes (attributes.rotation, as CVAT writes it): {self._rotated}. The axis-aligned boxes "
                "around them are used."
            )
        warn_about_repairs(self._path, notes)

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
    is_finite = len(bbox) == 4 and all(map(math.isfinite, bbox))
    return is_finite and min(bbox[2:]) == 0


def _parse_rotation_deg(attributes: Any) -> float:
    """Return CVAT's clockwise rotation of a box about its centre, degrees; 0 without one."""
    rotation = attributes.get("rotation") if isinstance(attributes, dict) else None
    return rotation % 180.0 if _is_number(rotation) else 0.0


def _parse_extensions(annotation: Annotation) -> dict[str, Any]:
    """Return the extensions of ``write_coco``; values of other types are ignored."""
    fraction, amodal = annotation.visible_fraction, annotation.bbox_amodal
    extensions: dict[str, Any] = {}
    if _is_number(fraction) and 0 <= fraction <= 1:
        extensions["visible_fraction"] = float(fraction)
    is_box = isinstance(amodal, list) and len(amodal) == 4 and all(map(_is_number, amodal))
    if is_box and min(amodal[2:]) > 0:
        extensions["box_amodal_xyxy"] = xywh_to_xyxy((amodal[0], amodal[1], amodal[2], amodal[3]))
    if type(annotation.instance_id) is int:
        extensions["instance_id"] = annotation.instance_id
    return extensions


def _is_number(value: Any) -> TypeGuard[int | float]:
    # integers can be too large for a float
    return type(value) in (int, float) and abs(value) < _MAX_NUMBER


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
