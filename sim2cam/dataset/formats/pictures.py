"""What formats share: labels that are there, upright pictures, names that do not meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path

from sim2cam import images
from sim2cam.dataset.sample import Dataset, ObjectLabel, Sample
from sim2cam.errors import InputError


def labels_of(dataset: Dataset, sample: Sample) -> tuple[ObjectLabel, ...]:
    """Returns the labels of a sample.

    Raises:
        InputError: it was never labelled.
    """
    if sample.objects is None:
        raise InputError(dataset.root, f"image {sample.name} has no labels to export.")
    return sample.objects


def upright_file(sample: Sample) -> tuple[bytes, str]:
    """Returns the bytes and the suffix of a picture's file.

    The bytes are the file's own; a picture that EXIF turns is encoded upright as PNG, as tools
    disagree on whether to turn it.

    Raises:
        InputError: it cannot be read.
    """
    if images.read_orientation(sample.rgb) != 1:
        return upright_png(sample), ".png"
    return bytes_of(sample.rgb), sample.rgb.suffix


def bytes_of(path: Path) -> bytes:
    """Returns the bytes of a file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(path, f"cannot be read ({error.strerror}). Check the path.") from error


def upright_png(sample: Sample) -> bytes:
    """Returns the picture as an upright PNG file.

    Raises:
        InputError: it cannot be read.
    """
    return images.encode_png(images.read_rgb(sample.rgb))


def stem_of(sample: Sample) -> str:
    """Returns the name of a sample without the suffix of its picture."""
    return sample.name.removesuffix(sample.rgb.suffix)


def flat_stem(sample: Sample) -> str:
    """Returns that without folders, by whose names some tools find the labels of a picture."""
    return stem_of(sample).replace("/", "-")


def check_stems(dataset: Dataset) -> None:
    """Refuses samples whose flat stems are the same, where labels go by them.

    Raises:
        InputError: naming two.
    """
    found: dict[str, str] = {}
    for sample in dataset.samples:
        other = found.setdefault(flat_stem(sample), sample.name)
        if other != sample.name:
            raise InputError(
                dataset.root,
                f"images {other} and {sample.name} would share one file of labels. Rename one.",
            )


def each_a_scene(parts: Mapping[str, Dataset]) -> dict[str, Dataset]:
    """Returns photos of which nothing is known but that each is one: every one its own scene."""
    numbers = count()
    return {
        name: replace(
            part,
            samples=tuple(replace(sample, scene_index=next(numbers)) for sample in part.samples),
        )
        for name, part in parts.items()
    }
