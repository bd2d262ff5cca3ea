"""Pascal VOC reader, also for files of labelImg, roLabelImg and CVAT.

VOC counts pixels from 1, and a box is its first and last pixel: xmin and ymin are one more than x0
and y0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from sim2cam import images
from sim2cam.data.formats.annotation_shapes import ShapeConverter
from sim2cam.data.formats.label_files import ImageFinder
from sim2cam.data.formats.photos import (
    OrientedImage,
    detect_stored_pixel_labels,
    read_oriented_image,
)
from sim2cam.data.formats.voc.writer import (
    ANNOTATION_FOLDER,
    DEFAULT_SPLIT,
    IMAGE_FOLDER,
    LIST_FOLDER,
    MASK_FOLDER,
)
from sim2cam.data.formats.writing import (
    assign_scene_per_image,
    check_category,
    warn_about_unsupported_images,
)
from sim2cam.data.formats.xml_file import parse_number, parse_xml
from sim2cam.data.parsing import is_inside_folder, read_text
from sim2cam.data.problems import AnnotationErrors, warn_about_repairs
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.run_length import RleMask

_TRAINVAL = "trainval"
_PRESENCE_FLAGS = ("-1", "0", "1")
"""Flags of a category in an image: absent, difficult only, present."""
_VOID_ID = 255  # unlabelled borders of objects
_MIN_MASK_IN_BOX = 0.5  # fraction of a mask inside its object's box; less means a mismatch
_MAX_BYTES = 4_000_000
_ROTATION_PATH = "attributes/attribute[name='rotation']/value"


def is_voc(path: Path) -> bool:
    """Return whether a path is a folder in VOC's layout, or of images with XML files."""
    candidates = (xml.with_suffix(s) for xml in path.glob("*.xml") for s in images.IMAGE_SUFFIXES)
    return (path / ANNOTATION_FOLDER).is_dir() or any(image.is_file() for image in candidates)


def read_voc(root: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the splits of a folder in VOC's layout, or of images with XML files.

    An XML file belongs to the image with the same stem, or else to the one it names. ``difficult``
    objects are crowds: neither trained on nor scored. Categories are the names that occur, sorted.
    Images in ``SegmentationObject/`` are instance masks. Rotated boxes (roLabelImg, CVAT) are
    replaced by their bounding boxes. Labels of stored pixels are rotated upright, see
    ``detect_stored_pixel_labels``.

    Raises:
        InputError: a file is missing, broken, inconsistent, or outside the folder.
    """
    reader = _VocReader(root, origin, AnnotationErrors(root, skip_invalid=skip_invalid))
    lists = _read_image_lists(root, reader.annotations)
    photos = {name: dict(reader.read_images(stems)) for name, stems in lists.items()}
    all_photos = {path: photo for split in photos.values() for path, photo in split.items()}
    are_stored = detect_stored_pixel_labels(root, list(all_photos.values()))
    is_stored = dict(zip(all_photos, are_stored, strict=True))
    samples = {
        name: tuple(reader.build_samples(split, is_stored)) for name, split in photos.items()
    }
    reader.report()
    names = {o.category for split in samples.values() for s in split for o in s.objects or ()}
    categories = tuple(sorted(names))
    return assign_scene_per_image(
        {name: Dataset(root, categories, split) for name, split in samples.items() if split}
    )


class _VocReader:
    def __init__(self, root: Path, origin: Origin, problems: AnnotationErrors) -> None:
        has_layout = (root / ANNOTATION_FOLDER).is_dir()
        self._root, self._origin, self._problems = root, origin, problems
        self.annotations = root / ANNOTATION_FOLDER if has_layout else root
        self._finder = ImageFinder(root, root / IMAGE_FOLDER if has_layout else root)
        self._trees: dict[Path, Element] = {}
        self._shapes = ShapeConverter()
        self._repeated = 0

    def read_images(self, stems: Sequence[str]) -> Iterator[tuple[Path, OrientedImage]]:
        """Yield the XML files of stems, without repetitions, with their images."""
        self._repeated += len(stems) - len(set(stems))
        for stem in dict.fromkeys(stems):
            if not is_inside_folder(stem):
                raise InputError(
                    self._root, f"'{stem}' lies outside this folder. Correct the list."
                )
            path = self.annotations / f"{stem}.xml"
            with self._problems.collect():
                root = self._trees[path] = parse_xml(path, "annotation", _MAX_BYTES)
                image = self._finder.find(path, stem, root.findtext("filename", ""))
                name = image.relative_to(self._root).as_posix()
                yield path, read_oriented_image(path, name, image, _parse_size(path, root))

    def build_samples(
        self, oriented_images: Mapping[Path, OrientedImage], is_stored: Mapping[Path, bool]
    ) -> Iterator[Sample]:
        """Yield the labelled samples."""
        for path, photo in oriented_images.items():
            with self._problems.collect():
                objects = tuple(self._build_labels(path, photo, is_stored[path]))
                width, height = photo.upright_size
                yield Sample(photo.name, photo.path, width, height, objects, self._origin)

    def _build_labels(
        self, path: Path, image: OrientedImage, is_stored: bool
    ) -> Iterator[ObjectLabel]:
        size = image.get_size(is_stored)
        entries = self._trees[path].findall("object")
        labels: dict[int, ObjectLabel] = {}
        for index, entry in enumerate(entries):
            with self._problems.collect():
                labels[index] = self._build_label(path, index, entry, size)
        masks = self._root / MASK_FOLDER / f"{path.stem}.png"
        if masks.is_file():
            labels = _attach_masks(masks, labels, len(entries), size)
        for label in labels.values():
            yield image.orient_label(label) if is_stored else label

    def _build_label(
        self, path: Path, index: int, entry: Element, size: tuple[int, int]
    ) -> ObjectLabel:
        category = entry.findtext("name", "").strip()
        if not category:
            raise InputError(path, f"object {index}: name is missing.")
        check_category(path, category)
        box, rotation_deg = _parse_box(path, entry)
        try:
            label = self._shapes.convert_box(category, box, size, rotation_deg)
        except ValueError as error:
            raise InputError(path, f"object {index} ({category}): {error}") from error
        is_difficult = entry.findtext("difficult", "0").strip() == "1"
        return replace(label, is_crowd=is_difficult)

    def report(self) -> None:
        """Report invalid and changed labels.

        Raises:
            InputError: labels are invalid and not skipped.
        """
        self._problems.report()
        notes = [*self._finder.list_warnings(), *self._shapes.list_warnings()]
        if self._repeated:
            notes.append(f"images listed more than once: {self._repeated}. Each is read once.")
        warn_about_repairs(self._root, notes)
        warn_about_unsupported_images(self._root, {self._finder.folder})


def _read_image_lists(root: Path, annotations: Path) -> dict[str, list[str]]:
    """Return the image names of each split; all images as ``train`` without lists."""
    lists = {
        path.stem: [
            line.strip()
            for line in read_text(path, _MAX_BYTES, "list of images").splitlines()
            if line.strip()
        ]
        for path in sorted((root / LIST_FOLDER).glob("*.txt"))
    }
    lists = {name: lines for name, lines in lists.items() if not _is_category_list(name, lines)}
    if not lists:
        return {DEFAULT_SPLIT: sorted(path.stem for path in annotations.glob("*.xml"))}
    trainval = lists.pop(_TRAINVAL, None)
    if trainval is not None and not {DEFAULT_SPLIT, "val"} & set(lists):
        lists[DEFAULT_SPLIT] = trainval
    return lists


def _is_category_list(name: str, lines: list[str]) -> bool:
    """Return whether a list gives the presence of a category, e.g. ``aeroplane_train``."""
    flags = [line.split()[1:] for line in lines]
    return "_" in name and all(len(f) == 1 and f[0] in _PRESENCE_FLAGS for f in flags)


def _parse_size(path: Path, root: Element) -> tuple[int, int] | None:
    """Return width and height as listed; None if missing or 0, as labelImg may write."""
    if root.find("size") is None:
        return None
    width, height = (_parse_number(path, root, f"size/{side}") for side in ("width", "height"))
    return (int(width), int(height)) if width or height else None


def _parse_box(path: Path, entry: Element) -> tuple[Box, float]:
    """Return the box of an object before its rotation about the centre, and the rotation in degrees."""
    if entry.find("bndbox") is None and entry.find("robndbox") is not None:
        keys = ("cx", "cy", "w", "h", "angle")
        x, y, width, height, angle = (_parse_number(path, entry, f"robndbox/{key}") for key in keys)
        box = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        return box, math.degrees(angle)
    sides = ("xmin", "ymin", "xmax", "ymax")
    x0, y0, x1, y1 = (_parse_number(path, entry, f"bndbox/{side}") for side in sides)
    is_rotated = entry.find(_ROTATION_PATH) is not None
    rotation_deg = _parse_number(path, entry, _ROTATION_PATH) if is_rotated else 0.0
    return (x0 - 1, y0 - 1, x1, y1), rotation_deg


def _parse_number(path: Path, entry: Element, location: str) -> float:
    return parse_number(path, location, entry.findtext(location))


def _attach_masks(
    path: Path, labels: Mapping[int, ObjectLabel], count: int, size: tuple[int, int]
) -> dict[int, ObjectLabel]:
    """Return the labels with their masks; without one if the mask image does not show the object.

    Args:
        path: mask image, with object numbers from 1 as pixel values.
        labels: labels by index of the object in the XML file, from 0.
        count: number of objects in the XML file.
        size: width and height of the labelled pixels.
    """
    object_ids = images.read_palette_indices(path)
    mask_size = object_ids.shape[1], object_ids.shape[0]
    if mask_size != size:
        raise InputError(
            path, f"is {mask_size[0]}x{mask_size[1]} pixels, not {size[0]}x{size[1]} as its image."
        )
    unknown_ids = sorted({*np.unique(object_ids).tolist()} - {0, _VOID_ID, *range(1, count + 1)})
    if unknown_ids:
        raise InputError(
            path,
            f"contains object {unknown_ids[0]}, but its XML file has {count} objects: the files do not match.",
        )
    with_masks = dict(labels)
    for index, label in labels.items():
        mask = object_ids == index + 1
        area = int(mask.sum())
        x0, y0, x1, y1 = (max(0, round(side)) for side in label.box_xyxy)
        if mask[y0:y1, x0:x1].sum() < _MIN_MASK_IN_BOX * area:
            raise InputError(
                path,
                f"object {index + 1} ({label.category}) lies mostly outside its box in the XML file: the files "
                "do not match.",
            )
        if area:
            with_masks[index] = replace(label, mask=RleMask.from_mask(mask), area_px=float(area))
    return with_masks
