"""Records of image sets for the cards of learned translators."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from sim2cam.data.sample import Dataset, Sample
from sim2cam.images import compute_digest


@dataclass(frozen=True)
class ImageSetRecord:
    """Record of an image set in a card.

    Attributes:
        name: name of the folder.
        images: number of images.
        digest: SHA-256 over names and digests of all images.
    """

    name: str
    images: int
    digest: str


def compute_image_digests(dataset: Dataset) -> dict[str, str]:
    """Return the digests of the images of a dataset by name.

    Raises:
        InputError: an image cannot be read.
    """
    return {sample.name: compute_sample_digest(sample) for sample in dataset.samples}


def build_image_set_record(dataset: Dataset, image_digests: Mapping[str, str]) -> ImageSetRecord:
    """Build the card's record of a dataset from the digests of its images by name."""
    total = hashlib.sha256()
    for name, digest in image_digests.items():
        total.update(f"{name}\0{digest}\0".encode())
    return ImageSetRecord(dataset.root.name, len(dataset.samples), total.hexdigest())


def compute_sample_digest(sample: Sample) -> str:
    """Return the digest of a sample; of a photo, which has none, the digest of its file.

    Raises:
        InputError: the photo cannot be read.
    """
    return sample.digest or compute_digest(sample.rgb)
