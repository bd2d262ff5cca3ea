"""What the cards of all learned translators have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sim2cam.data.sample import Dataset, Sample
from sim2cam.images import compute_digest


@dataclass(frozen=True)
class ImageSetRecord:
    """What a card says of the images of one side.

    Attributes:
        name: their folder's name.
        images: how many.
        digest: SHA-256 over all of them.
    """

    name: str
    images: int
    digest: str


def compute_image_digests(dataset: Dataset) -> dict[str, str]:
    """Return the digests of a data set's images by their names.

    Raises:
        InputError: an image cannot be read.
    """
    return {sample.name: compute_sample_digest(sample) for sample in dataset.samples}


def build_image_set_record(dataset: Dataset, image_digests: Mapping[str, str]) -> ImageSetRecord:
    """Return what the card says of a data set's images, of which these are the digests."""
    total = hashlib.sha256()
    for name, digest in image_digests.items():
        total.update(f"{name}\0{digest}\0".encode())
    return ImageSetRecord(dataset.root.name, len(dataset.samples), total.hexdigest())


def compute_sample_digest(sample: Sample) -> str:
    """Return its digest; of a photo, which has none, that of its file.

    Raises:
        InputError: the photo cannot be read.
    """
    return sample.digest or compute_digest(sample.rgb)
