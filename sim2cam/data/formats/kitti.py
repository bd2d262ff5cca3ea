"""KITTI's object labels (Geiger et al. 2012): boxes, and how much of an object is seen.

What it has for boxes in space takes for granted that objects stand upright before a level camera:
one angle says how they are turned. Objects that lie on a table any way up do not fit, so those
fields hold what KITTI's own ``DontCare`` regions hold there, and pose, extent and mask are lost;
COCO and BOP keep them. They are not read either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sim2cam import images
from sim2cam.data.formats.writing import assign_scene_per_image, encode_upright_png, require_labels
from sim2cam.data.parsing import read_text
from sim2cam.data.problems import AnnotationErrors
from sim2cam.data.sample import Dataset, ObjectLabel, Origin, Sample
from sim2cam.errors import InputError
from sim2cam.files import write_bytes
from sim2cam.geometry.boxes import Box, is_inside_image

IMAGE_FOLDER, LABEL_FOLDER, CATEGORY_FILE = "image_2", "label_2", "categories.txt"
_LAYOUTS = {IMAGE_FOLDER: LABEL_FOLDER, "rgb": "object_detection"}
"""Folders of images and of their labels; the second are those of Omniverse Replicator."""
_DONT_CARE = "DontCare"
_OCCLUSION_LEVELS: dict[int, Literal[0, 1, 2]] = {0: 0, 1: 1, 2: 2}
_SPLIT_NAMES = {"training": "train", "testing": "test"}
_COLUMN_COUNT = 15
_MAX_BYTES = 4_000_000
_HINT = "Correct the file."
_UNKNOWN_BOX = "-1 -1 -1 -1000 -1000 -1000 -10"
_UNKNOWN_ANGLE = -10
_UNKNOWN_TRUNCATION = -1
_FULLY_VISIBLE, _PARTLY_OCCLUDED, _LARGELY_OCCLUDED, _UNKNOWN_OCCLUSION = range(4)


def write_kitti(splits: Mapping[str, Dataset], folder: Path) -> tuple[str, ...]:
    """Fill a folder with ``PART/image_2/``, ``PART/label_2/`` and ``PART/samples.txt``, the names;
    returns what it changed.

    A box names its first and its last pixel, from 0. Truncation and occlusion are those of the labels;
    where they have none, truncation is 0 where the whole box is known to lie inside the picture and
    else unknown, -1, and occlusion is 0 from 95 % seen, 1 from half, 2 below (KITTI gives no numbers;
    these are our choice), 3 where unknown. Groups are ``DontCare``. Names of several words have ``_``
    between them, as lines take one; ``PART/categories.txt`` then says which they were.

    Raises:
        InputError: an image without labels or that cannot be read, or categories that would get one
            name.
        OutputError: the folder cannot be written.
    """
    words = _make_category_words(next(iter(splits.values())))
    changed = {category: word for category, word in words.items() if category != word}
    for name, dataset in splits.items():
        if changed:
            text = "".join(f"{word} {category}\n" for category, word in changed.items())
            write_bytes(folder / name / CATEGORY_FILE, text.encode())
        for number, sample in enumerate(dataset.samples):
            objects = require_labels(dataset, sample)
            lines = [
                f"{words[label.category]} {_format_object(label, sample)}\n"
                for label in objects
                if not label.is_crowd
            ]
            groups = dict.fromkeys(
                f"{_format_dont_care(label)}\n" for label in objects if label.is_crowd
            )
            stem = f"{number:06d}"
            write_bytes(folder / f"{name}/{IMAGE_FOLDER}/{stem}.png", encode_upright_png(sample))
            labels = "".join([*lines, *groups])
            write_bytes(folder / f"{name}/{LABEL_FOLDER}/{stem}.txt", labels.encode())
        names = "".join(f"{number:06d} {s.name}\n" for number, s in enumerate(dataset.samples))
        write_bytes(folder / f"{name}/samples.txt", names.encode())
    if not changed:
        return ()
    return (
        f"KITTI's names are one word: {', '.join(changed.values())}; {CATEGORY_FILE} says which",
    )


def _make_category_words(dataset: Dataset) -> dict[str, str]:
    """Return the names that lines have, by category."""
    found: dict[str, str] = {}
    for category in dataset.categories:
        word = "_".join(category.split())
        if word in ("", _DONT_CARE, *found.values()):
            raise InputError(
                dataset.root,
                f"category '{category}': KITTI takes one word, but '{word}' is that of something else. "
                "Rename it, or choose another format.",
            )
        found[category] = word
    return found


def _format_object(label: ObjectLabel, sample: Sample) -> str:
    """Return what follows the name in an object's line."""
    seen = f"{_estimate_truncation(label, sample):g} {_estimate_occlusion(label)}"
    return f"{seen} {_UNKNOWN_ANGLE} {_format_box(label)} {_UNKNOWN_BOX}"


def _format_dont_care(label: ObjectLabel) -> str:
    return f"{_DONT_CARE} -1 -1 {_UNKNOWN_ANGLE} {_format_box(label)} {_UNKNOWN_BOX}"


def _format_box(label: ObjectLabel) -> str:
    x0, y0, x1, y1 = label.box_xyxy
    return f"{x0:.2f} {y0:.2f} {x1 - 1:.2f} {y1 - 1:.2f}"


def _estimate_truncation(label: ObjectLabel, sample: Sample) -> float:
    if label.truncation is not None:
        return label.truncation
    if label.box_amodal_xyxy is None:
        return _UNKNOWN_TRUNCATION
    is_whole = is_inside_image(label.box_amodal_xyxy, sample.width, sample.height)
    return 0 if is_whole else _UNKNOWN_TRUNCATION


def _estimate_occlusion(label: ObjectLabel) -> int:
    if label.occlusion is not None:
        return label.occlusion
    match label.visible_fraction:
        case None:
            return _UNKNOWN_OCCLUSION
        case share if share >= 0.95:
            return _FULLY_VISIBLE
        case share if share >= 0.5:
            return _PARTLY_OCCLUDED
    return _LARGELY_OCCLUDED


@dataclass(frozen=True)
class _LabelRow:
    """A line of a file of labels; the category of a group is ``DontCare``."""

    category: str
    box_xyxy: Box
    truncation: float | None
    occlusion: Literal[0, 1, 2] | None


def is_kitti(path: Path) -> bool:
    """Return whether a path is a folder with ``image_2/``, as KITTI has it, or with ``rgb/`` and
    ``object_detection/``, as Omniverse Replicator writes it, or of such folders.
    """
    return bool(_find_image_folders(path))


def _find_image_folders(root: Path) -> dict[str, Path]:
    """Return the folders of images by part, for a data set or one part of it."""
    own = _find_image_folder(root)
    below = map(
        _find_image_folder, (path.parent for name in _LAYOUTS for path in root.glob(f"*/{name}"))
    )
    found = sorted(filter(None, [own] if own else below))
    parts = {_SPLIT_NAMES.get(path.parent.name, path.parent.name): path for path in found}
    return parts if len(parts) == len(found) else {path.parent.name: path for path in found}


def _find_image_folder(folder: Path) -> Path | None:
    """Return the folder of images in the folder of a part."""
    for name, labels in _LAYOUTS.items():
        if (folder / name).is_dir() and (name == IMAGE_FOLDER or (folder / labels).is_dir()):
            return folder / name
    return None


def read_kitti(root: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the parts of a data set, ``training`` as ``train`` and ``testing`` as ``test``.

    A part without labels was never labelled. A ``DontCare`` region is a group of each category:
    what lies in it is neither trained on nor scored. Categories are those that occur, sorted, with the
    names that ``categories.txt`` gives them where our export wrote one.

    Args:
        root: the folder.
        origin: how the images were made.
        skip_invalid: leave flawed annotations out with a warning.

    Raises:
        InputError: a file is missing, broken or contradicts itself.
    """
    problems = AnnotationErrors(root, skip_invalid=skip_invalid)
    rows: dict[str, dict[Path, list[_LabelRow] | None]] = {}
    for part, pictures in _find_image_folders(root).items():
        names = _read_category_names(pictures.parent / CATEGORY_FILE)
        rows[part] = {path: _read_labels(path, names, problems) for path in _list_images(pictures)}
    problems.report()
    listed = [row for part in rows.values() for found in part.values() for row in found or ()]
    categories = tuple(sorted({row.category for row in listed} - {_DONT_CARE}))
    parts = {
        name: Dataset(
            root,
            categories,
            tuple(
                _build_sample(path, root, found, categories, origin) for path, found in part.items()
            ),
        )
        for name, part in rows.items()
    }
    return assign_scene_per_image(parts)


def _list_images(folder: Path) -> list[Path]:
    found = (
        p for p in folder.iterdir() if p.suffix.lower() in images.IMAGE_SUFFIXES and p.is_file()
    )
    paths = sorted(p for p in found if p.name[0] != ".")
    if not paths:
        raise InputError(folder, "no images in it. Copy the data set again.")
    return paths


def _read_category_names(path: Path) -> dict[str, str]:
    """Return the names of categories by the word that stands for each in lines."""
    if not path.is_file():
        return {}
    found = {}
    for number, line in enumerate(
        read_text(path, _MAX_BYTES, "list of names").splitlines(), start=1
    ):
        word, _, category = line.strip().partition(" ")
        if not category or word == _DONT_CARE or word in found:
            raise InputError(
                path, f"line {number}: '{line[:60]}' is not a new word and its name. {_HINT}"
            )
        found[word] = category
    return found


def _read_labels(
    image: Path, names: Mapping[str, str], problems: AnnotationErrors
) -> list[_LabelRow] | None:
    folder = image.parents[1] / _LAYOUTS[image.parent.name]
    if not folder.is_dir():
        return None
    path = folder / f"{image.stem}.txt"
    if not path.is_file():
        raise InputError(path, f"missing, of {image.name}. Add it, empty where nothing is seen.")
    width, height = images.read_size(image)
    lines = read_text(path, _MAX_BYTES, "file of labels").splitlines()
    rows = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            with problems.collect():
                rows.append(_parse_row(path, number, line, (width, height), names))
    return rows


def _parse_row(
    path: Path, number: int, line: str, size: tuple[int, int], names: Mapping[str, str]
) -> _LabelRow:
    category, *words = line.split()
    if path.parent.name != LABEL_FOLDER and len(words) == _COLUMN_COUNT:
        words.pop()  # of Replicator, whose last column is a score, 0 of all
    try:
        numbers = [float(word) for word in words]
    except ValueError as error:
        raise InputError(
            path, f"line {number}: '{line[:60]}' is not a name and numbers."
        ) from error
    problem = _find_problem(numbers, *size)
    if problem:
        raise InputError(path, f"line {number}: {problem}")
    truncation, occlusion, _, x0, y0, last_x, last_y, *_ = numbers
    return _LabelRow(
        names.get(category, category),
        (x0, y0, last_x + 1, last_y + 1),
        None if truncation == _UNKNOWN_TRUNCATION else truncation,
        _OCCLUSION_LEVELS.get(int(occlusion)),
    )


def _find_problem(numbers: Sequence[float], width: int, height: int) -> str | None:
    """Return what is wrong with the numbers of a line of a picture of that size."""
    if len(numbers) != _COLUMN_COUNT - 1:
        return f"{len(numbers) + 1} words, not {_COLUMN_COUNT}."
    truncation, occlusion, _, x0, y0, last_x, last_y, *_ = numbers
    box = f"the box from ({x0:g}, {y0:g}) to ({last_x:g}, {last_y:g})"
    if not (math.isfinite(x0 + y0 + last_x + last_y) and x0 < last_x + 1 and y0 < last_y + 1):
        return f"{box} is none."
    if x0 >= width or y0 >= height or last_x <= -1 or last_y <= -1:
        return f"{box} lies outside the image of {width}x{height} pixels."
    if truncation != _UNKNOWN_TRUNCATION and not 0 <= truncation <= 1:
        return f"truncation {truncation:g} is neither 0 to 1 nor -1."
    if occlusion not in (-1, *_OCCLUSION_LEVELS, _UNKNOWN_OCCLUSION):
        return f"occlusion {occlusion:g} is none of -1, 0, 1, 2, 3."
    return None


def _build_sample(
    path: Path,
    root: Path,
    rows: Sequence[_LabelRow] | None,
    categories: tuple[str, ...],
    origin: Origin,
) -> Sample:
    width, height = images.read_size(path)
    objects = None if rows is None else tuple(_convert_rows(rows, categories))
    return Sample(path.relative_to(root).as_posix(), path, width, height, objects, origin)


def _convert_rows(rows: Sequence[_LabelRow], categories: tuple[str, ...]) -> Iterator[ObjectLabel]:
    for row in rows:
        x0, y0, x1, y1 = row.box_xyxy
        is_group = row.category == _DONT_CARE
        for category in categories if is_group else (row.category,):
            yield ObjectLabel(
                category,
                row.box_xyxy,
                (x1 - x0) * (y1 - y0),
                is_crowd=is_group,
                occlusion=row.occlusion,
                truncation=row.truncation,
            )
