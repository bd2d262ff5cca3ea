"""Reading Pascal VOC, as its own data sets and labelling tools (labelImg, roLabelImg, CVAT) write it.

Its pixels are counted from 1 and a box names the first and the last of them, so that xmin and ymin
are one more than ours.
"""

from __future__ import annotations

import math
import warnings
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
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError, RepairWarning
from sim2cam.geometry.boxes import Box
from sim2cam.geometry.run_length import RleMask

_TRAINVAL = "trainval"
_PRESENCE_FLAGS = (
    "-1",
    "0",
    "1",
)  # of an image: a category is not in it, only in a difficult way, or is
_VOID_ID = 255  # of the rims of objects, of which nobody says whose they are
_MIN_MASK_IN_BOX = 0.5  # share of a mask that lies in its object's box, or it is another's
_MAX_BYTES = 4_000_000
_ROTATION_PATH = "attributes/attribute[name='rotation']/value"


def is_voc(path: Path) -> bool:
    """Return whether a path is a folder in VOC's layout, or of XML files beside their images."""
    beside = (xml.with_suffix(s) for xml in path.glob("*.xml") for s in images.IMAGE_SUFFIXES)
    return (path / ANNOTATION_FOLDER).is_dir() or any(image.is_file() for image in beside)


def read_voc(root: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the parts of a folder in VOC's layout, or with XML files beside their images.

    An XML file belongs to the image of its own name, or else to the one it names. ``difficult`` objects
    are taken for groups: neither trained on nor scored. Categories are those that occur, sorted. Images
    in ``SegmentationObject/`` are masks of the objects. Of rotated boxes (roLabelImg, CVAT) the boxes
    around them are read. Boxes of stored pixels are turned upright, as ``detect_stored_pixel_labels`` decides.

    Args:
        root: the folder.
        origin: how the images were made.
        skip_invalid: leave flawed labels out with a warning.

    Raises:
        InputError: a file is missing, broken or contradicts itself, or lies outside the folder.
    """
    reader = _VocReader(root, origin, AnnotationErrors(root, skip_invalid=skip_invalid))
    lists = _read_image_lists(root, reader.annotations)
    photos = {name: dict(reader.read_images(stems)) for name, stems in lists.items()}
    every = {path: photo for part in photos.values() for path, photo in part.items()}
    turned = dict(zip(every, detect_stored_pixel_labels(root, list(every.values())), strict=True))
    samples = {name: tuple(reader.build_samples(part, turned)) for name, part in photos.items()}
    reader.report()
    found = {o.category for part in samples.values() for s in part for o in s.objects or ()}
    categories = tuple(sorted(found))
    return assign_scene_per_image(
        {name: Dataset(root, categories, part) for name, part in samples.items() if part}
    )


class _VocReader:
    """Read the XML files of a folder, and count what is changed."""

    def __init__(self, root: Path, origin: Origin, problems: AnnotationErrors) -> None:
        nested = (root / ANNOTATION_FOLDER).is_dir()
        self._root, self._origin, self._problems = root, origin, problems
        self.annotations = root / ANNOTATION_FOLDER if nested else root
        self._finder = ImageFinder(root, root / IMAGE_FOLDER if nested else root)
        self._trees: dict[Path, Element] = {}
        self._shapes = ShapeConverter()
        self._repeated = 0

    def read_images(self, stems: Sequence[str]) -> Iterator[tuple[Path, OrientedImage]]:
        """Yield the XML files of some stems, each once, with their images."""
        self._repeated += len(stems) - len(set(stems))
        for stem in dict.fromkeys(stems):
            if not is_inside_folder(stem):
                raise InputError(
                    self._root, f"'{stem}' lies outside this folder. Correct the file."
                )
            path = self.annotations / f"{stem}.xml"
            with self._problems.collect():
                tree = self._trees[path] = parse_xml(path, "annotation", _MAX_BYTES)
                image = self._finder.find(path, stem, tree.findtext("filename", ""))
                name = image.relative_to(self._root).as_posix()
                yield path, read_oriented_image(path, name, image, _parse_size(path, tree))

    def build_samples(
        self, oriented_images: Mapping[Path, OrientedImage], is_stored: Mapping[Path, bool]
    ) -> Iterator[Sample]:
        """Yield the images with their labels."""
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
        for number, entry in enumerate(entries):
            with self._problems.collect():
                labels[number] = self._build_label(path, number, entry, size)
        masks = self._root / MASK_FOLDER / f"{path.stem}.png"
        if masks.is_file():
            labels = _attach_masks(masks, labels, len(entries), size)
        for label in labels.values():
            yield image.orient_label(label) if is_stored else label

    def _build_label(
        self, path: Path, number: int, entry: Element, size: tuple[int, int]
    ) -> ObjectLabel:
        category = entry.findtext("name", "").strip()
        if not category:
            raise InputError(path, f"object {number} has no name.")
        check_category(path, category)
        box, rotation_deg = _parse_box(path, entry)
        try:
            label = self._shapes.convert_box(category, box, size, rotation_deg)
        except ValueError as error:
            raise InputError(path, f"object {number} ({category}): {error}") from error
        difficult = entry.findtext("difficult", "0").strip() == "1"
        return replace(label, is_crowd=difficult)

    def report(self) -> None:
        """Report flawed labels, and labels that are changed.

        Raises:
            InputError: labels are flawed and are not skipped.
        """
        self._problems.report()
        notes = [*self._finder.list_warnings(), *self._shapes.list_warnings()]
        if self._repeated:
            notes.append(
                f"images that are listed more than once: {self._repeated}. Each is read once."
            )
        if notes:
            warnings.warn(f"{self._root}: {' '.join(notes)}", RepairWarning, stacklevel=2)
        warn_about_unsupported_images(self._root, {self._finder.folder})


def _read_image_lists(root: Path, annotations: Path) -> dict[str, list[str]]:
    """Return the names of each part's images; all of them where there are no lists."""
    lists = {
        path.stem: [line.strip() for line in _read_lines(path) if line.strip()]
        for path in sorted((root / LIST_FOLDER).glob("*.txt"))
    }
    lists = {name: lines for name, lines in lists.items() if not _is_category_list(name, lines)}
    if not lists:
        return {DEFAULT_SPLIT: sorted(path.stem for path in annotations.glob("*.xml"))}
    both = lists.pop(_TRAINVAL, None)
    if both is not None and not {DEFAULT_SPLIT, "val"} & set(lists):
        lists[DEFAULT_SPLIT] = both
    return lists


def _is_category_list(name: str, lines: list[str]) -> bool:
    """Return whether a list, as aeroplane_train, says of each image whether it shows a category."""
    said = [line.split()[1:] for line in lines]
    return "_" in name and all(len(words) == 1 and words[0] in _PRESENCE_FLAGS for words in said)


def _read_lines(path: Path) -> list[str]:
    return read_text(path, _MAX_BYTES, "list of pictures").splitlines()


def _parse_size(path: Path, tree: Element) -> tuple[int, int] | None:
    """Return width and height as listed; None where the file gives none, or 0 as labelImg may."""
    if tree.find("size") is None:
        return None
    width, height = (_parse_number(path, tree, f"size/{side}") for side in ("width", "height"))
    return (int(width), int(height)) if width or height else None


def _parse_box(path: Path, entry: Element) -> tuple[Box, float]:
    """Return the box of an object before it is rotated about its centre, and the rotation in degrees."""
    if entry.find("bndbox") is None and entry.find("robndbox") is not None:
        keys = ("cx", "cy", "w", "h", "angle")
        x, y, width, height, angle = (_parse_number(path, entry, f"robndbox/{key}") for key in keys)
        box = x - width / 2, y - height / 2, x + width / 2, y + height / 2
        return box, math.degrees(angle)
    sides = ("xmin", "ymin", "xmax", "ymax")
    x0, y0, x1, y1 = (_parse_number(path, entry, f"bndbox/{side}") for side in sides)
    is_rotated = entry.find(_ROTATION_PATH) is not None
    return (x0 - 1, y0 - 1, x1, y1), _parse_number(
        path, entry, _ROTATION_PATH
    ) if is_rotated else 0.0


def _parse_number(path: Path, entry: Element, location: str) -> float:
    return parse_number(path, location, entry.findtext(location))


def _attach_masks(
    path: Path, labels: Mapping[int, ObjectLabel], count: int, size: tuple[int, int]
) -> dict[int, ObjectLabel]:
    """Return objects with their masks; without one where the image of masks shows nothing of them.

    Args:
        path: image of masks, whose pixels have the number of their object, from 1.
        labels: by the number of the object in the XML file, from 0.
        count: number of objects in the XML file.
        size: width and height of the pixels that the labels are of.
    """
    numbers = images.read_palette_indices(path)
    found = numbers.shape[1], numbers.shape[0]
    if found != size:
        raise InputError(
            path,
            f"is {found[0]}x{found[1]} pixels, not {size[0]}x{size[1]} as its photo.",
        )
    strangers = sorted({*np.unique(numbers).tolist()} - {0, _VOID_ID, *range(1, count + 1)})
    if strangers:
        raise InputError(
            path,
            f"shows object {strangers[0]}, but its XML file has {count}: they are of different versions.",
        )
    masked = dict(labels)
    for number, label in labels.items():
        mask = numbers == number + 1
        area = int(mask.sum())
        x0, y0, x1, y1 = (max(0, round(side)) for side in label.box_xyxy)
        if mask[y0:y1, x0:x1].sum() < _MIN_MASK_IN_BOX * area:
            raise InputError(
                path,
                f"object {number + 1} ({label.category}) lies mostly outside its box in the XML file: they are "
                "of different versions.",
            )
        if area:
            masked[number] = replace(label, mask=RleMask.from_mask(mask), area_px=float(area))
    return masked
