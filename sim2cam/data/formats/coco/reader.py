"""Labels of a COCO file: they come out upright, like the pixels that ``images`` returns."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard, get_args

from sim2cam import images
from sim2cam.data.formats.coco.boxes import CORNERS, are_corners
from sim2cam.data.formats.coco.file import (
    Annotation,
    CocoFile,
    bounded_nesting,
    checked_tables,
    read_coco_file,
)
from sim2cam.data.formats.coco.photos import CocoPhoto, coco_photo, find_photos
from sim2cam.data.formats.coco.shapes import keypoints_of, mask_of
from sim2cam.data.formats.photos import are_of_stored_pixels
from sim2cam.data.problems import Problems
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.boxes import box_around_rotated, xywh_to_xyxy

_MOST = 1e300


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
    problems = Problems(path, skip=skip_invalid)
    with bounded_nesting(path):
        file = read_coco_file(path, problems)
        photos = find_photos(path, file.images)
        labels = _Labels(path, file, problems)
        ours = all(type(photo.entry.scene_index) is int for photo in photos)
        samples: list[Sample] = []
        for photo, turned in zip(photos, are_of_stored_pixels(path, photos), strict=True):
            objects = labels.of(photo, turned)
            samples.append(
                Sample(
                    name=photo.name,
                    rgb=photo.path,
                    width=photo.upright[0],
                    height=photo.upright[1],
                    objects=None if file.annotations is None else objects,
                    origin=photo.entry.origin if photo.entry.origin in get_args(Origin) else origin,
                    scene_index=photo.entry.scene_index if ours else len(samples),
                )
            )
        labels.finish()
    return Dataset(path.parent, tuple(c.name for c in file.categories.values()), tuple(samples))


def read_coco_image(
    path: Path, name: str, picture: Path, tables: dict[str, Any], problems: Problems
) -> tuple[tuple[str, ...], tuple[ObjectLabel, ...]]:
    """Return the categories and the labels of one image whose COCO tables stand alone.

    Args:
        path: what the tables were read from, for errors.
        name: of the image.
        picture: its file.
        tables: ``annotations`` and ``categories``; ``width`` and ``height`` where they tell of which
            pixels the labels are.
        problems: collects flawed annotations, which are left out.

    Raises:
        InputError: as ``read_coco``; of annotations only that their boxes are corners.
    """
    width, height = images.read_size(picture)
    image = {"id": 0, "file_name": name, "width": width, "height": height}
    image |= {side: tables[side] for side in ("width", "height") if side in tables}
    annotations = tables["annotations"]
    if isinstance(annotations, list):
        annotations = [a | {"image_id": 0} if isinstance(a, dict) else a for a in annotations]
    with bounded_nesting(path):
        whole = {**tables, "images": [image], "annotations": annotations}
        file = checked_tables(path, whole, problems)
        photo = coco_photo(path, file.images[0], name, picture)
        (turned,) = are_of_stored_pixels(path, [photo])
        labels = _Labels(path, file, problems)
        objects = labels.of(photo, turned)
        labels.note()
    return tuple(c.name for c in file.categories.values()), objects


class _Labels:
    """Turn the annotations of a file into labels, and count those that are changed or left out."""

    def __init__(self, path: Path, file: CocoFile, problems: Problems) -> None:
        self._path, self._file, self._problems = path, file, problems
        self._empty = self._rotated = 0
        self._read: list[tuple[Annotation, CocoPhoto]] = []

    def of(self, photo: CocoPhoto, turned: bool) -> tuple[ObjectLabel, ...]:
        """Return the labels of an image, which are of its stored pixels where ``turned``."""
        found = []
        for number, annotation in self._file.annotations_of(photo.entry.id):
            if _is_empty(annotation.bbox):
                self._empty += 1
                continue
            with self._problems.collecting():
                try:
                    found.append(self._label(annotation, photo, turned))
                except ValueError as error:
                    place = f"annotations[{number}] (image {photo.name})"
                    raise InputError(self._path, f"{place}: {error}") from error
                self._read.append((annotation, photo))
        return tuple(found)

    def finish(self) -> None:
        """Report flawed annotations, and those that were changed or left out.

        Raises:
            InputError: annotations are flawed, or their boxes are corners.
        """
        self._problems.finish()
        boxes = [annotation.bbox for annotation, _ in self._read]
        areas = [math.nan if a.area is None else a.area for a, _ in self._read]
        if are_corners(boxes, [photo.listed_size for _, photo in self._read], areas):
            raise InputError(self._path, f"{CORNERS} Export the annotations as COCO has them.")
        self.note()

    def note(self) -> None:
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

    def _label(self, annotation: Annotation, photo: CocoPhoto, turned: bool) -> ObjectLabel:
        category = self._file.categories.get(annotation.category_id)
        if category is None:
            known = ", ".join(f"{i} ({c.name})" for i, c in self._file.categories.items())
            raise ValueError(f"no category has the id {annotation.category_id}. Allowed: {known}.")
        problem = _box_problem(annotation.bbox, photo, turned) or _area_problem(annotation.area)
        if problem:
            raise ValueError(problem)
        columns, rows = photo.stored if turned else photo.upright
        mask = mask_of(annotation.segmentation, (rows, columns))
        x, y, width, height = annotation.bbox
        box = xywh_to_xyxy((x, y, width, height))
        rotation_deg = _rotation_deg(annotation.attributes) if mask is None else 0.0
        if rotation_deg:
            self._rotated += 1
            box = box_around_rotated(box, rotation_deg)
        label = ObjectLabel(
            category=category.name,
            box_xyxy=box,
            area_px=width * height if annotation.area is None else annotation.area,
            is_crowd=annotation.iscrowd,
            mask=mask,
            keypoints=keypoints_of(annotation.keypoints, category.keypoints or ()),
            **_said_beside(annotation),
        )
        return photo.upright_label(label) if turned else label


def _is_empty(bbox: Sequence[float]) -> bool:
    """Return whether a box has no width or no height; COCO's own files and BlenderProc's have some."""
    is_finite = len(bbox) == 4 and all(map(math.isfinite, bbox))
    return is_finite and min(bbox[2:]) == 0


def _rotation_deg(attributes: Any) -> float:
    """Return by how much CVAT rotated a box about its centre, clockwise; 0 where it stands upright."""
    rotation = attributes.get("rotation") if isinstance(attributes, dict) else None
    return rotation % 180.0 if _is_number(rotation) else 0.0


def _said_beside(annotation: Annotation) -> dict[str, Any]:
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
        type(value) in (int, float) and abs(value) < _MOST
    )  # an integer may be too large for a float


def _box_problem(bbox: list[float], photo: CocoPhoto, turned: bool) -> str | None:
    if len(bbox) != 4 or not all(math.isfinite(value) for value in bbox):
        return f"bbox {bbox} must be four finite numbers: x, y, width, height."
    x, y, width, height = bbox
    if width <= 0 or height <= 0:
        return f"bbox {bbox} must have a width and a height above 0."
    columns, rows = photo.stored if turned else photo.upright
    if x >= columns or y >= rows or x + width <= 0 or y + height <= 0:
        return f"bbox {bbox} lies outside the image of {columns}x{rows} pixels."
    return None


def _area_problem(area: float | None) -> str | None:
    if area is None or (math.isfinite(area) and area >= 0):
        return None
    return f"area {area} must be a finite number, 0 or more."
