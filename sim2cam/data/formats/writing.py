"""Helpers of format readers and writers: labels, upright images, unique names, categories."""

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
"""Suffixes of image formats that few tools support."""


def require_labels(dataset: Dataset, sample: Sample) -> tuple[ObjectLabel, ...]:
    """Return the labels of a sample.

    Raises:
        InputError: the sample is unlabelled.
    """
    if sample.objects is None:
        raise InputError(
            dataset.root, f"image {sample.name} has no labels to export. Label or remove it."
        )
    return sample.objects


def encode_upright(sample: Sample) -> tuple[bytes, str]:
    """Return the bytes and the suffix of an image's file.

    The file's own bytes, unless EXIF rotates the image or few tools support its format; such images
    are encoded upright as PNG, as tools handle EXIF rotation differently.

    Raises:
        InputError: the image cannot be read.
    """
    suffix = sample.rgb.suffix
    if suffix.lower() in _UNCOMMON_SUFFIXES or images.read_orientation(sample.rgb) != 1:
        return encode_upright_png(sample), ".png"
    return read_bytes(sample.rgb), ".jpg" if suffix.lower() == ".jfif" else suffix


def to_json(values: Any, source: Path, *, indent: int | None = None) -> bytes:
    """Return values as strict JSON, which has no NaN or infinity.

    Raises:
        InputError: a number is not finite.
    """
    try:
        return json.dumps(values, allow_nan=False, indent=indent).encode()
    except ValueError as error:
        raise InputError(
            source, "contains a number that is not finite, which JSON does not support. Correct it."
        ) from error


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file.

    Raises:
        InputError: the file cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error


def encode_upright_png(sample: Sample) -> bytes:
    """Return the image as an upright PNG file.

    Raises:
        InputError: the image cannot be read.
    """
    return images.encode_png(images.read_rgb(sample.rgb))


def get_stem(sample: Sample) -> str:
    """Return the name of a sample without the suffix of its image."""
    return sample.name.removesuffix(sample.rgb.suffix)


def get_flat_stem(sample: Sample) -> str:
    """Return the stem of a sample with folders joined by ``-``, for tools that match labels by name."""
    return get_stem(sample).replace("/", "-")


def check_unique_stems(dataset: Dataset) -> None:
    """Raise if two samples have the same flat stem, and so the same label file.

    Raises:
        InputError: two samples have the same flat stem.
    """
    names: dict[str, str] = {}
    for sample in dataset.samples:
        other = names.setdefault(get_flat_stem(sample), sample.name)
        if other != sample.name:
            raise InputError(
                dataset.root,
                f"images {other} and {sample.name} would share one label file. Rename one.",
            )


def assign_scene_per_image(splits: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Return the splits with a scene of its own for every image."""
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
"""Suffixes of common image formats that are not supported."""


def list_unsupported_images(folder: Path) -> list[Path]:
    """Return the images in a folder with an unsupported format, by name."""
    suffixes = set(_UNSUPPORTED_SUFFIXES) - set(images.IMAGE_SUFFIXES)
    files = (path for path in folder.iterdir() if path.suffix.lower() in suffixes)
    return sorted(path for path in files if not path.name.startswith("."))


def describe_unsupported_images(root: Path, unsupported: Sequence[Path]) -> str | None:
    """Return a note on images of a dataset with an unsupported format; None without any."""
    if not unsupported:
        return None
    return (
        f"{root}: images in unsupported formats are left out: {len(unsupported)} (first: {unsupported[0].relative_to(root)}). "
        f"Convert them to one of {images.FORMAT_NAMES}."
    )


def warn_about_unsupported_images(root: Path, folders: Iterable[Path]) -> None:
    """Warn about images in folders of a dataset that have an unsupported format."""
    note = describe_unsupported_images(
        root, [path for folder in sorted(folders) for path in list_unsupported_images(folder)]
    )
    if note is not None:
        warnings.warn(note, RepairWarning, stacklevel=2)


def validate_categories(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return category names if they are unique and printable on one line.

    Raises:
        InputError: two names are equal, or one is empty, too long or contains control characters.
    """
    for name in names:
        check_category(path, name)
    if len(set(names)) < len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise InputError(path, f"two categories are named '{duplicate}'. Merge them or rename one.")
    return tuple(names)


def check_category(path: Path, name: str) -> None:
    """Raise if a category name cannot be printed on one line.

    Raises:
        InputError: the name is empty, too long or contains control characters.
    """
    if not name.strip():
        raise InputError(path, "a category has an empty name. Give it one.")
    problem = find_category_problem(name)
    if problem is not None:
        raise InputError(path, f"the category {problem}")
