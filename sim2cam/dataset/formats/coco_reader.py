"""Reading COCO files: labels come out upright, like the pixels that ``images`` returns."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from sim2cam import images
from sim2cam.dataset.formats.coco_boxes import CORNERS, are_corners
from sim2cam.dataset.formats.coco_shapes import keypoints_of, mask_of
from sim2cam.dataset.parsing import first_problem, stays_inside
from sim2cam.dataset.sample import Dataset, Keypoint, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box, box_of_mask, xywh_to_xyxy
from sim2cam.geometry.masks import RunLengths

# EXIF orientation: mirrored in x, mirrored in y, then x and y exchanged, to stand upright
_TO_UPRIGHT = {
    1: (False, False, False),
    2: (True, False, False),
    3: (True, True, False),
    4: (False, True, False),
    5: (False, False, True),
    6: (False, True, True),
    7: (True, True, True),
    8: (True, False, True),
}

_MOST_BYTES = 1_000_000_000  # twice the boxes and masks of COCO's own training images

_NOT_READ = (
    f"is neither a folder of pictures ({', '.join(images.SUFFIXES)}), a video "
    f"({', '.join(images.VIDEO_SUFFIXES)}) nor a COCO file (.json). Convert it, or name its folder."
)


@dataclass(frozen=True)
class _Image:
    id: int | str
    file_name: str
    width: int
    height: int
    origin: Any = None
    scene_index: Any = None


@dataclass(frozen=True)
class _Category:
    id: int
    name: str
    keypoints: list[str] | None = None


@dataclass(frozen=True)
class _Annotation:
    image_id: int | str
    category_id: int
    bbox: list[float]
    id: Any = None
    area: float | None = None
    iscrowd: bool = False
    segmentation: Any = None
    keypoints: Any = None
    visible_fraction: Any = None
    bbox_amodal: Any = None
    instance_id: Any = None


@dataclass(frozen=True)
class _File:
    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Annotation] | None = None


@dataclass(frozen=True)
class _Photo:
    """An image of the list and what its file says: size (width, height) as stored, orientation."""

    entry: _Image
    path: Path
    stored: tuple[int, int]
    orientation: int

    @property
    def listed(self) -> tuple[int, int]:
        return self.entry.width, self.entry.height

    @property
    def upright(self) -> tuple[int, int]:
        exchanged = _TO_UPRIGHT[self.orientation][2]
        return self.stored[::-1] if exchanged else self.stored


_FILE: TypeAdapter[_File] = TypeAdapter(_File)


def read_coco(path: Path, origin: Origin) -> Dataset:
    """Returns the images and labels of a COCO file, in its order; images lie beside the file.

    Boxes, masks and keypoints are turned upright with the pixels where the listed size is that of the
    file as stored. An orientation that leaves the size alone does not tell: it then follows the other
    images. Keypoints have the names that their category lists.
    Without a list of annotations, the images are unlabelled (``objects`` is None). What our export
    says beside COCO is kept: an image's origin and scene, otherwise every image is its own scene; of
    an object, the share that is seen, the box of the whole and the number.

    Raises:
        InputError: the file is missing, not COCO or contradicts itself, its boxes are corners, or an image
            is missing, not an image, or of another size.
    """
    file = _parse(path)
    categories = _categories(path, file)
    photos = _photos(path, file)
    labels = _by_image(path, file)
    ours = all(type(photo.entry.scene_index) is int for photo in photos)
    samples: list[Sample] = []
    for photo, turned in zip(photos, _turned(photos), strict=True):
        objects = tuple(
            _label(path, number, annotation, photo, categories, turned)
            for number, annotation in labels[photo.entry.id]
        )
        samples.append(
            Sample(
                name=photo.entry.file_name,
                rgb=photo.path,
                width=photo.upright[0],
                height=photo.upright[1],
                objects=None if file.annotations is None else objects,
                origin=photo.entry.origin if photo.entry.origin in get_args(Origin) else origin,
                scene_index=photo.entry.scene_index if ours else len(samples),
            )
        )
    _check_boxes(path, photos, labels)
    return Dataset(path.parent, tuple(c.name for c in categories.values()), tuple(samples))


def read_coco_image(
    path: Path, name: str, picture: Path, tables: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[ObjectLabel, ...]]:
    """Returns the categories and the labels of one image whose COCO tables stand alone.

    Args:
        path: what the tables were read from, for errors.
        name: of the image.
        picture: its file.
        tables: ``annotations`` and ``categories``; ``width`` and ``height`` where they tell of which
            pixels the labels are.

    Raises:
        InputError: as ``read_coco``.
    """
    width, height = images.read_size(picture)
    image = {"id": 0, "file_name": name, "width": width, "height": height}
    image |= {side: tables[side] for side in ("width", "height") if side in tables}
    annotations = tables["annotations"]
    if isinstance(annotations, list):
        annotations = [a | {"image_id": 0} if isinstance(a, dict) else a for a in annotations]
    file = _checked(path, {**tables, "images": [image], "annotations": annotations})
    categories = _categories(path, file)
    photo = _photo(path, file.images[0], picture)
    (turned,) = _turned([photo])
    labels = (
        _label(path, number, annotation, photo, categories, turned)
        for number, annotation in enumerate(file.annotations or ())
    )
    return tuple(c.name for c in categories.values()), tuple(labels)


@dataclass(frozen=True)
class CocoIds:
    """What a COCO file means by its ids.

    Attributes:
        names: of images, by id.
        categories: names, by id.
        keypoints: names of those of each category, by its id.
        photos: by id.
        turned: ids of images whose labels are of the pixels as stored.
    """

    names: dict[int | str, str]
    categories: dict[int, str]
    keypoints: dict[int, tuple[str, ...]]
    photos: dict[int | str, _Photo]
    turned: set[int | str]

    def label(
        self,
        image_id: int | str,
        category_id: int,
        bbox: tuple[float, float, float, float] | None,
        segmentation: Any,
        keypoints: Any,
    ) -> ObjectLabel:
        """Returns what a result says as a label of the pixels that ``images`` returns.

        Without ``bbox`` the box is that around the mask or else the keypoints, as COCO's own tools take it.

        Raises:
            ValueError: there is neither of these, or one that does not fit.
        """
        photo, is_turned = self.photos[image_id], image_id in self.turned
        columns, rows = photo.stored if is_turned else photo.upright
        mask = mask_of(segmentation, (rows, columns))
        points = keypoints_of(_placed(keypoints), self.keypoints[category_id])
        box = _box_around(mask, points) if bbox is None else xywh_to_xyxy(bbox)
        if box is None:
            raise ValueError("bbox is missing.")
        area_px = (box[2] - box[0]) * (box[3] - box[1])
        label = ObjectLabel(self.categories[category_id], box, area_px, mask=mask, keypoints=points)
        stands = not is_turned or photo.orientation == 1  # then masks need not be unpacked
        return label if stands else _label_upright(label, photo)


def read_ids(path: Path) -> CocoIds:
    """Returns what a COCO file means by its ids.

    Raises:
        InputError: as ``read_coco``.
    """
    file = _parse(path)
    photos = _photos(path, file)
    categories = _categories(path, file)
    return CocoIds(
        {photo.entry.id: photo.entry.file_name for photo in photos},
        {number: category.name for number, category in categories.items()},
        {number: tuple(category.keypoints or ()) for number, category in categories.items()},
        {photo.entry.id: photo for photo in photos},
        {p.entry.id for p, is_turned in zip(photos, _turned(photos), strict=True) if is_turned},
    )


def _placed(keypoints: Any) -> Any:
    """Returns keypoints of a result, of which all have a place: what they say of visibility is not asked."""
    if isinstance(keypoints, list) and len(keypoints) % 3 == 0:
        return [1 if place % 3 == 2 else number for place, number in enumerate(keypoints)]
    return keypoints


def _box_around(mask: RunLengths | None, points: Sequence[Keypoint] | None) -> Box | None:
    if mask is not None:
        return box_of_mask(mask.mask()) or (0.0, 0.0, 0.0, 0.0)
    if not points:
        return None
    x, y = zip(*(point.xy for point in points), strict=True)
    return min(x), min(y), max(x), max(y)


def _parse(path: Path) -> _File:
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError(path, f"more than {_MOST_BYTES} bytes. Split it into smaller files.")
        tables = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(path, "no such file. Check the path.") from error
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error
    except (ValueError, RecursionError) as error:
        if path.suffix.lower() != ".json":
            raise InputError(path, _NOT_READ) from error
        raise InputError(path, f"not JSON ({error}). Export the annotations again.") from error
    for key in ("images", "categories"):
        if not isinstance(tables, dict) or key not in tables:
            raise InputError(
                path,
                f"not a COCO file: there is no list '{key}' in it. Export the annotations as COCO "
                "detection.",
            )
    return _checked(path, tables)


def _checked(path: Path, tables: Any) -> _File:
    try:
        return _FILE.validate_python(tables)
    except ValidationError as error:
        raise InputError(path, f"{first_problem(error)}. Correct the file.") from error


def _categories(path: Path, file: _File) -> dict[int, _Category]:
    """Returns the categories by id, in the order of ids."""
    found: dict[int, _Category] = {}
    names: set[str] = set()
    for category in sorted(file.categories, key=lambda c: c.id):
        if category.id in found:
            raise InputError(path, f"two categories have the id {category.id}. Give each its own.")
        if category.name in names:
            raise InputError(
                path, f"two categories are named '{category.name}'. Merge them or rename one."
            )
        found[category.id] = category
        names.add(category.name)
    return found


def _checked_images(path: Path, file: _File) -> list[_Image]:
    if not file.images:
        raise InputError(path, "its list of images is empty. Export it with the images.")
    ids: set[int | str] = set()
    names: set[PurePosixPath] = set()
    for entry in file.images:
        name = PurePosixPath(entry.file_name)
        if entry.id in ids:
            raise InputError(path, f"two images have the id {entry.id}. Give each its own.")
        if name in names:
            raise InputError(path, f"image {entry.file_name} is listed twice. Keep one entry.")
        if not stays_inside(entry.file_name):
            raise InputError(
                path,
                f"image '{entry.file_name}' lies outside the folder of this file. Put the images "
                "beside it and name them relative to it.",
            )
        ids.add(entry.id)
        names.add(name)
    return file.images


def _photos(path: Path, file: _File) -> list[_Photo]:
    entries = _checked_images(path, file)
    return [_photo(path, entry, path.parent / entry.file_name) for entry in entries]


def _photo(path: Path, entry: _Image, image: Path) -> _Photo:
    orientation = images.read_orientation(image)
    width, height = images.read_size(image)
    exchanged = _TO_UPRIGHT[orientation][2]
    photo = _Photo(entry, image, (height, width) if exchanged else (width, height), orientation)
    if photo.listed not in (photo.stored, photo.upright):
        raise InputError(
            path,
            f"image {entry.file_name} is {width}x{height} pixels, not "
            f"{entry.width}x{entry.height} as listed. Export the annotations of this very image.",
        )
    return photo


def _turned(photos: list[_Photo]) -> list[bool]:
    """Returns whether the boxes of each photo are of its pixels as stored."""
    labelled_upright = any(p.listed == p.upright != p.stored for p in photos)
    return [
        p.listed == p.stored and not (labelled_upright and p.stored == p.upright) for p in photos
    ]


def _by_image(path: Path, file: _File) -> dict[int | str, list[tuple[int, _Annotation]]]:
    """Returns the annotations, numbered as they stand in the file, by the id of their image."""
    known = {entry.id for entry in file.images}
    numbers: dict[str, int] = {}
    found: dict[int | str, list[tuple[int, _Annotation]]] = defaultdict(list)
    for number, annotation in enumerate(file.annotations or ()):
        own = json.dumps(annotation.id)
        if annotation.id is not None and numbers.setdefault(own, number) != number:
            raise InputError(
                path,
                f"annotations[{number}] has the id {own} of annotations[{numbers[own]}]. Remove it, or give it "
                "its own.",
            )
        if annotation.image_id not in known:
            raise InputError(
                path,
                f"annotations[{number}] is of image_id {json.dumps(annotation.image_id)}, which is "
                "not in the list of images. List the image or remove the annotation.",
            )
        found[annotation.image_id].append((number, annotation))
    return found


def _check_boxes(
    path: Path,
    photos: list[_Photo],
    labels: dict[int | str, list[tuple[int, _Annotation]]],
) -> None:
    each = [(photo, label) for photo in photos for _, label in labels[photo.entry.id]]
    boxes = [label.bbox for _, label in each]
    sizes = [photo.listed for photo, _ in each]
    areas = [math.nan if label.area is None else label.area for _, label in each]
    if are_corners(boxes, sizes, areas):
        raise InputError(path, f"{CORNERS} Export the annotations as COCO has them.")


def _label(
    path: Path,
    number: int,
    annotation: _Annotation,
    photo: _Photo,
    categories: dict[int, _Category],
    turned: bool,
) -> ObjectLabel:
    place = f"annotations[{number}] (image {photo.entry.file_name})"
    category = categories.get(annotation.category_id)
    if category is None:
        known = ", ".join(f"{i} ({c.name})" for i, c in categories.items())
        raise InputError(
            path, f"{place}: no category has the id {annotation.category_id}. Allowed: {known}."
        )
    problem = _box_problem(annotation.bbox, photo, turned) or _area_problem(annotation.area)
    if problem:
        raise InputError(path, f"{place}: {problem} Correct or remove the annotation.")
    columns, rows = photo.stored if turned else photo.upright
    try:
        mask = mask_of(annotation.segmentation, (rows, columns))
        keypoints = keypoints_of(annotation.keypoints, category.keypoints or ())
    except ValueError as error:
        raise InputError(path, f"{place}: {error} Correct or remove the annotation.") from error
    x, y, width, height = annotation.bbox
    label = ObjectLabel(
        category=category.name,
        box_xyxy=xywh_to_xyxy((x, y, width, height)),
        area_px=width * height if annotation.area is None else annotation.area,
        is_crowd=annotation.iscrowd,
        mask=mask,
        keypoints=keypoints,
        **_said_beside(annotation),
    )
    stands = not turned or photo.orientation == 1  # then masks need not be unpacked
    return label if stands else _label_upright(label, photo)


def _said_beside(annotation: _Annotation) -> dict[str, Any]:
    """Returns what our export says of an object beside COCO; other values are other files' own."""
    fraction, amodal = annotation.visible_fraction, annotation.bbox_amodal
    found: dict[str, Any] = {}
    if _is_number(fraction) and 0 <= fraction <= 1:
        found["visible_fraction"] = float(fraction)
    if isinstance(amodal, list) and len(amodal) == 4 and all(map(_is_number, amodal)):
        found["box_amodal_xyxy"] = xywh_to_xyxy((amodal[0], amodal[1], amodal[2], amodal[3]))
    if type(annotation.instance_id) is int:
        found["instance_id"] = annotation.instance_id
    return found


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _box_problem(bbox: list[float], photo: _Photo, turned: bool) -> str | None:
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


def _upright(box_xyxy: Box, photo: _Photo) -> Box:
    """Returns where a box of the stored pixels lies in the upright ones."""
    x0, y0, x1, y1 = box_xyxy
    width, height = photo.stored
    mirrored_x, mirrored_y, exchanged = _TO_UPRIGHT[photo.orientation]
    if mirrored_x:
        x0, x1 = width - x1, width - x0
    if mirrored_y:
        y0, y1 = height - y1, height - y0
    return (y0, x0, y1, x1) if exchanged else (x0, y0, x1, y1)


def _label_upright(label: ObjectLabel, photo: _Photo) -> ObjectLabel:
    """Returns a label of the stored pixels as one of the upright ones."""
    mask = None if label.mask is None else RunLengths.of(_mask_upright(label.mask.mask(), photo))
    points = label.keypoints
    if points is not None:
        points = tuple(
            replace(p, xy=_upright((*p.xy, p.xy[0] + 1, p.xy[1] + 1), photo)[:2])
            if p.visibility > 0
            else p
            for p in points
        )
    amodal = label.box_amodal_xyxy
    return replace(
        label,
        box_xyxy=_upright(label.box_xyxy, photo),
        box_amodal_xyxy=None if amodal is None else _upright(amodal, photo),
        mask=mask,
        keypoints=points,
    )


def _mask_upright(mask: NDArray[np.bool_], photo: _Photo) -> NDArray[np.bool_]:
    mirrored_x, mirrored_y, exchanged = _TO_UPRIGHT[photo.orientation]
    mask = mask[:: -1 if mirrored_y else 1, :: -1 if mirrored_x else 1]
    return mask.T if exchanged else mask
