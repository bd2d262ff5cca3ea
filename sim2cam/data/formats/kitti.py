"""KITTI object labels (Geiger et al. 2012): boxes, truncation and occlusion.

KITTI's 3D boxes assume upright objects in front of a level camera: one angle gives the rotation.
Objects on a table in any pose do not fit, so these fields have the values of KITTI's ``DontCare``
regions. Poses, sizes and masks are neither written nor read; COCO and BOP keep them.
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
"""Folders of images and of their labels, of KITTI and of Omniverse Replicator."""
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
    """Write ``SPLIT/image_2/``, ``SPLIT/label_2/`` and ``SPLIT/samples.txt`` (names); return notes on changes.

    Boxes are the first and last pixel, from 0. Unknown truncation is 0 if the amodal box lies
    inside the image, else -1. Unknown occlusion is 0 from a visible fraction of 0.95, 1 from 0.5,
    else 2 (our choice, as KITTI defines no fractions), 3 without a fraction. Crowds are
    ``DontCare``. Spaces in category names become ``_``; ``SPLIT/categories.txt`` maps them back.

    Raises:
        InputError: an image is unlabelled or unreadable, or two categories get the same name.
        OutputError: the folder cannot be written.
    """
    category_words = _make_category_words(next(iter(splits.values())))
    renamed = {category: word for category, word in category_words.items() if category != word}
    for name, dataset in splits.items():
        if renamed:
            text = "".join(f"{word} {category}\n" for category, word in renamed.items())
            write_bytes(folder / name / CATEGORY_FILE, text.encode())
        for number, sample in enumerate(dataset.samples):
            objects = require_labels(dataset, sample)
            lines = [
                f"{category_words[label.category]} {_format_object(label, sample)}\n"
                for label in objects
                if not label.is_crowd
            ]
            crowds = dict.fromkeys(
                f"{_format_dont_care(label)}\n" for label in objects if label.is_crowd
            )
            stem = f"{number:06d}"
            write_bytes(folder / f"{name}/{IMAGE_FOLDER}/{stem}.png", encode_upright_png(sample))
            labels = "".join([*lines, *crowds])
            write_bytes(folder / f"{name}/{LABEL_FOLDER}/{stem}.txt", labels.encode())
        names = "".join(f"{number:06d} {s.name}\n" for number, s in enumerate(dataset.samples))
        write_bytes(folder / f"{name}/samples.txt", names.encode())
    if not renamed:
        return ()
    return (
        f"category names without spaces: {', '.join(renamed.values())}; {CATEGORY_FILE} has the original names",
    )


def _make_category_words(dataset: Dataset) -> dict[str, str]:
    words: dict[str, str] = {}
    for category in dataset.categories:
        word = "_".join(category.split())
        if word in ("", _DONT_CARE, *words.values()):
            raise InputError(
                dataset.root,
                f"category '{category}': its name without spaces, '{word}', is reserved or used twice. "
                "Rename it, or choose another format.",
            )
        words[category] = word
    return words


def _format_object(label: ObjectLabel, sample: Sample) -> str:
    """Return the columns after the name of an object's line."""
    visibility = f"{_estimate_truncation(label, sample):g} {_estimate_occlusion(label)}"
    return f"{visibility} {_UNKNOWN_ANGLE} {_format_box(label)} {_UNKNOWN_BOX}"


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
    is_inside = is_inside_image(label.box_amodal_xyxy, sample.width, sample.height)
    return 0 if is_inside else _UNKNOWN_TRUNCATION


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
    """A line of a label file; the category of a crowd is ``DontCare``."""

    category: str
    box_xyxy: Box
    truncation: float | None
    occlusion: Literal[0, 1, 2] | None


def is_kitti(path: Path) -> bool:
    """Return whether a path is a KITTI dataset or split, or one of Omniverse Replicator.

    KITTI has folders ``image_2/``, Omniverse Replicator ``rgb/`` and ``object_detection/``.
    """
    return bool(_find_image_folders(path))


def _find_image_folders(root: Path) -> dict[str, Path]:
    root_images = _find_image_folder(root)
    split_images = map(
        _find_image_folder, (path.parent for name in _LAYOUTS for path in root.glob(f"*/{name}"))
    )
    folders = sorted(filter(None, [root_images] if root_images else split_images))
    splits = {_SPLIT_NAMES.get(path.parent.name, path.parent.name): path for path in folders}
    return splits if len(splits) == len(folders) else {path.parent.name: path for path in folders}


def _find_image_folder(folder: Path) -> Path | None:
    for name, labels in _LAYOUTS.items():
        if (folder / name).is_dir() and (name == IMAGE_FOLDER or (folder / labels).is_dir()):
            return folder / name
    return None


def read_kitti(root: Path, origin: Origin, *, skip_invalid: bool = False) -> dict[str, Dataset]:
    """Return the splits of a dataset, ``training`` as ``train`` and ``testing`` as ``test``.

    A split without labels is unlabelled. A ``DontCare`` region is a crowd of every category:
    neither trained on nor scored. Categories are the names that occur, sorted, restored from
    ``categories.txt`` if present.

    Raises:
        InputError: a file is missing, broken or inconsistent.
    """
    problems = AnnotationErrors(root, skip_invalid=skip_invalid)
    rows: dict[str, dict[Path, list[_LabelRow] | None]] = {}
    for split, folder in _find_image_folders(root).items():
        names = _read_category_names(folder.parent / CATEGORY_FILE)
        rows[split] = {path: _read_labels(path, names, problems) for path in _list_images(folder)}
    problems.report()
    image_rows = [labels for split_rows in rows.values() for labels in split_rows.values()]
    names_in_use = {row.category for labels in image_rows for row in labels or ()}
    categories = tuple(sorted(names_in_use - {_DONT_CARE}))
    splits = {
        name: Dataset(
            root,
            categories,
            tuple(
                _build_sample(path, root, labels, categories, origin)
                for path, labels in split_rows.items()
            ),
        )
        for name, split_rows in rows.items()
    }
    return assign_scene_per_image(splits)


def _list_images(folder: Path) -> list[Path]:
    files = (
        p for p in folder.iterdir() if p.suffix.lower() in images.IMAGE_SUFFIXES and p.is_file()
    )
    paths = sorted(p for p in files if p.name[0] != ".")
    if not paths:
        raise InputError(folder, "contains no images. Copy the dataset again.")
    return paths


def _read_category_names(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    names = {}
    for number, line in enumerate(
        read_text(path, _MAX_BYTES, "list of names").splitlines(), start=1
    ):
        word, _, category = line.strip().partition(" ")
        if not category or word == _DONT_CARE or word in names:
            raise InputError(
                path,
                f"line {number}: '{line[:60]}' must be a unique word and a category name. {_HINT}",
            )
        names[word] = category
    return names


def _read_labels(
    image: Path, names: Mapping[str, str], problems: AnnotationErrors
) -> list[_LabelRow] | None:
    folder = image.parents[1] / _LAYOUTS[image.parent.name]
    if not folder.is_dir():
        return None
    path = folder / f"{image.stem}.txt"
    if not path.is_file():
        raise InputError(
            path, f"missing label file of {image.name}. Add it, empty for an image without objects."
        )
    width, height = images.read_size(image)
    lines = read_text(path, _MAX_BYTES, "label file").splitlines()
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
        words.pop()  # score of Omniverse Replicator, always 0
    try:
        numbers = [float(word) for word in words]
    except ValueError as error:
        raise InputError(
            path, f"line {number}: '{line[:60]}' must be a name and numbers."
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
    """Return an error message for the numbers of a line, or None."""
    if len(numbers) != _COLUMN_COUNT - 1:
        return f"{len(numbers) + 1} words, not {_COLUMN_COUNT}."
    truncation, occlusion, _, x0, y0, last_x, last_y, *_ = numbers
    box = f"the box from ({x0:g}, {y0:g}) to ({last_x:g}, {last_y:g})"
    if not (math.isfinite(x0 + y0 + last_x + last_y) and x0 < last_x + 1 and y0 < last_y + 1):
        return f"{box} is empty or not finite."
    if x0 >= width or y0 >= height or last_x <= -1 or last_y <= -1:
        return f"{box} lies outside the image of {width}x{height} pixels."
    if truncation != _UNKNOWN_TRUNCATION and not 0 <= truncation <= 1:
        return f"truncation {truncation:g} must be 0 to 1, or -1."
    if occlusion not in (-1, *_OCCLUSION_LEVELS, _UNKNOWN_OCCLUSION):
        return f"occlusion {occlusion:g} must be -1, 0, 1, 2 or 3."
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
        is_crowd = row.category == _DONT_CARE
        for category in categories if is_crowd else (row.category,):
            yield ObjectLabel(
                category,
                row.box_xyxy,
                (x1 - x0) * (y1 - y0),
                is_crowd=is_crowd,
                occlusion=row.occlusion,
                truncation=row.truncation,
            )
