"""What formats share: labels that are there, upright pictures, names that do not meet."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from sim2cam import images
from sim2cam.data.parsing import find_category_problem
from sim2cam.data.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError, RepairWarning

_UNCOMMON_SUFFIXES = (".ppm", ".pgm", ".tga", ".jp2")
"""Suffixes of images that few tools read."""


def require_labels(dataset: Dataset, sample: Sample) -> tuple[ObjectLabel, ...]:
    """Return the labels of a sample.

    Raises:
        InputError: it was never labelled.
    """
    if sample.objects is None:
        raise InputError(dataset.root, f"image {sample.name} has no labels to export.")
    return sample.objects


def encode_upright(sample: Sample) -> tuple[bytes, str]:
    """Return the bytes and the suffix of an image's file.

    The bytes are the file's own. An image that EXIF turns is encoded upright as PNG, as tools disagree on
    whether to turn it, and so is one of a kind that few tools read.

    Raises:
        InputError: it cannot be read.
    """
    suffix = sample.rgb.suffix
    if suffix.lower() in _UNCOMMON_SUFFIXES or images.read_orientation(sample.rgb) != 1:
        return encode_upright_png(sample), ".png"
    return read_bytes(sample.rgb), ".jpg" if suffix.lower() == ".jfif" else suffix


def to_json(values: Any, source: Path, *, indent: int | None = None) -> bytes:
    """Return values as a JSON file, which has no word for what is not finite.

    Args:
        values: of which JSON knows the kinds.
        source: what they were read from, for the error.
        indent: spaces of each level; None for one line.

    Raises:
        InputError: a number is not finite.
    """
    try:
        return json.dumps(values, allow_nan=False, indent=indent).encode()
    except ValueError as error:
        raise InputError(
            source, "holds a number that is not finite, which JSON cannot hold. Correct it."
        ) from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error


def encode_upright_png(sample: Sample) -> bytes:
    """Return the picture as an upright PNG file.

    Raises:
        InputError: it cannot be read.
    """
    return images.encode_png(images.read_rgb(sample.rgb))


def get_stem(sample: Sample) -> str:
    """Return the name of a sample without the suffix of its picture."""
    return sample.name.removesuffix(sample.rgb.suffix)


def get_flat_stem(sample: Sample) -> str:
    """Return that without folders, by whose names some tools find the labels of a picture."""
    return get_stem(sample).replace("/", "-")


def check_unique_stems(dataset: Dataset) -> None:
    """Refuse samples whose flat stems are the same, where labels go by them.

    Raises:
        InputError: naming two.
    """
    found: dict[str, str] = {}
    for sample in dataset.samples:
        other = found.setdefault(get_flat_stem(sample), sample.name)
        if other != sample.name:
            raise InputError(
                dataset.root,
                f"images {other} and {sample.name} would share one file of labels. Rename one.",
            )


def assign_scene_per_image(splits: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Return photos of which nothing is known but that each is one: every one its own scene."""
    numbers = count()
    return {
        name: replace(
            part,
            samples=tuple(replace(sample, scene_index=next(numbers)) for sample in part.samples),
        )
        for name, part in splits.items()
    }


_UNSUPPORTED_SUFFIXES = (".gif", ".heic", ".heif", ".avif", ".jxl", ".jp2", ".dng", ".arw", ".cr2", ".cr3", ".nef",
           ".orf", ".raf", ".rw2")  # fmt: skip
"""Suffixes of images that cameras and people make and that are not read."""


def list_unsupported_images(folder: Path) -> list[Path]:
    """Return the images in a folder that cannot be read for their kind, by name."""
    unread = set(_UNSUPPORTED_SUFFIXES) - set(images.IMAGE_SUFFIXES)
    files = (path for path in folder.iterdir() if path.suffix.lower() in unread)
    return sorted(path for path in files if not path.name.startswith("."))


def describe_unsupported_images(root: Path, unsupported: Sequence[Path]) -> str | None:
    """Return a note on images of a dataset that are left out for their kind; None without any."""
    if not unsupported:
        return None
    return (
        f"{root}: images of kinds that cannot be read are left out: {len(unsupported)} (first: {unsupported[0].relative_to(root)}). "
        f"Convert them to one of {images.FORMAT_NAMES}."
    )


def warn_about_unsupported_images(root: Path, folders: Iterable[Path]) -> None:
    """Warn of images in folders of a dataset that are left out for their kind."""
    words = describe_unsupported_images(
        root, [path for folder in sorted(folders) for path in list_unsupported_images(folder)]
    )
    if words is not None:
        warnings.warn(words, RepairWarning, stacklevel=2)


def validate_categories(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of categories, which differ and can be printed in one line.

    Raises:
        InputError: two are the same, or one is empty, too long or holds control characters.
    """
    for name in names:
        check_category(path, name)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(path, f"two categories are named '{twice}'. Merge them or rename one.")
    return tuple(names)


def check_category(path: Path, name: str) -> None:
    """Refuse a name of a category that cannot be printed in one line.

    Raises:
        InputError: it is empty, too long or holds control characters.
    """
    if not name.strip():
        raise InputError(path, "a category has an empty name. Give it one.")
    problem = find_category_problem(name)
    if problem is not None:
        raise InputError(path, f"the category {problem}")
