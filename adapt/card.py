"""What the cards of all learned translators have in common."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sim2cam.dataset.sample import Dataset, Sample
from sim2cam.images import digest_of


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
        total.update(f"{sample.name}\0{digest_of_sample(sample)}\0".encode())
    return ImagesRecord(dataset.root.name, len(dataset.samples), total.hexdigest())


def digest_of_sample(sample: Sample) -> str:
    """Returns its digest; of a photo, which has none, that of its file.

    Raises:
        InputError: the photo cannot be read.
    """
    return sample.digest or digest_of(sample.rgb)
