"""What the cards of all learned translators have in common."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.errors import InputError


@dataclass(frozen=True)
class ImagesRecord:
    """What a card says of the images of one side.

    Attributes:
        name: their folder's name.
        images: how many.
        digest: SHA-256 over all of them.
    """

    name: str
    images: int
    digest: str


def images_record(dataset: Dataset) -> ImagesRecord:
    """Returns what the card says of a data set's images.

    Raises:
        InputError: an image cannot be read.
    """
    total = hashlib.sha256()
    for sample in dataset.samples:
        total.update(f"{sample.name}\0{sample.digest or _file_digest(sample)}\0".encode())
    return ImagesRecord(dataset.root.name, len(dataset.samples), total.hexdigest())


def _file_digest(sample: Sample) -> str:
    try:
        return hashlib.sha256(sample.rgb.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(
            sample.rgb, f"cannot be read ({error.strerror}). Check the path."
        ) from error
