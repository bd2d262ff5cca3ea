"""The data sets a model is trained on, each with its share of the crops."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.errors import InputError, UsageError

Parts = tuple[tuple[Dataset, float], ...]


@dataclass(frozen=True)
class PartRecord:
    """What a card says of one data set.

    Attributes:
        name: its folder's name.
        images: how many images it holds.
        origins: how many images of each origin.
        weight: its share of the crops, 0 to 1.
        digest: SHA-256 over all images and labels.
    """

    name: str
    images: int
    origins: dict[str, int]
    weight: float
    digest: str


def check_parts(parts: Parts) -> tuple[str, ...]:
    """Returns the categories, which all parts share.

    Raises:
        UsageError: no part, or a weight that is not positive.
        InputError: a part without images, with images without labels, or with other categories.
    """
    if not parts:
        raise UsageError("no data to train on. Name at least one data set.")
    first = parts[0][0]
    for dataset, weight in parts:
        if not weight > 0:
            raise UsageError(f"the weight of {dataset.root} must be above 0, not {weight}")
        if not dataset.samples:
            raise InputError(dataset.root, "no images to train on.")
        for sample in dataset.samples:
            if sample.objects is None:
                raise InputError(dataset.root, f"image {sample.name} has no labels to train on.")
        if set(dataset.categories) != set(first.categories):
            raise InputError(
                dataset.root,
                f"categories {', '.join(dataset.categories)} are not those of {first.root}: "
                f"{', '.join(first.categories)}. Map or leave out the others.",
            )
    return first.categories


def part_records(parts: Parts) -> tuple[PartRecord, ...]:
    """Returns what the card says of each part, in order.

    Raises:
        InputError: an image cannot be read.
    """
    total = sum(weight for _, weight in parts)
    return tuple(
        PartRecord(
            name=dataset.root.name,
            images=len(dataset.samples),
            origins=dict(sorted(Counter(s.origin for s in dataset.samples).items())),
            weight=round(weight / total, 6),
            digest=_digest(dataset),
        )
        for dataset, weight in parts
    )


def _digest(dataset: Dataset) -> str:
    total = hashlib.sha256(json.dumps(dataset.categories).encode())
    for sample in dataset.samples:
        total.update(f"{sample.name}\0{sample.digest or _content_digest(sample)}\0".encode())
    return total.hexdigest()


def _content_digest(sample: Sample) -> str:
    try:
        content = hashlib.sha256(sample.rgb.read_bytes())
    except OSError as error:
        raise InputError(
            sample.rgb, f"cannot be read ({error.strerror}). Check the path."
        ) from error
    labels: list[dict[str, Any]] = [asdict(label) for label in sample.objects or ()]
    content.update(json.dumps(labels, default=repr, sort_keys=True).encode())
    return content.hexdigest()
