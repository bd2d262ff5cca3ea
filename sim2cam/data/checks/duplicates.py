"""Duplicates and near-duplicates between test and training images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sim2cam import images
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.metrics.perceptual_hash import (
    N_HASH_BITS,
    NEAR_DUPLICATE_BITS,
    HashBits,
    compute_hamming_distances,
    compute_perceptual_hash,
)


@dataclass(frozen=True)
class NearDuplicate:
    """A test image and the most similar training image."""

    test_name: str
    training_name: str
    hamming_distance: int


def check_disjoint(training_samples: Iterable[Sample], test_dataset: Dataset) -> None:
    """Raise InputError if a test image is a copy of a training image or cannot be read."""
    training_names = {images.compute_digest(sample.rgb): sample.name for sample in training_samples}
    for sample in test_dataset.samples:
        copy = training_names.get(images.compute_digest(sample.rgb))
        if copy is not None:
            raise InputError(
                test_dataset.root,
                f"image {sample.name} is a training image too, as {copy}. Test images must not be used for "
                "training. Keep it in one of them.",
            )


def find_near_duplicates(
    training_samples: Iterable[Sample], test_samples: Sequence[Sample]
) -> tuple[NearDuplicate, ...]:
    """Return test images that nearly equal a training image, the most similar first.

    Raises:
        InputError: If an image cannot be read.
    """
    unique_samples = {sample.rgb.resolve(): sample for sample in training_samples}
    training = list(unique_samples.values())
    if not training or not test_samples:
        return ()
    distances = compute_hamming_distances(
        _compute_fingerprints(test_samples), _compute_fingerprints(training)
    )
    nearest = distances.argmin(axis=1)
    duplicates = [
        NearDuplicate(sample.name, training[index].name, int(distances[row, index]))
        for row, (sample, index) in enumerate(zip(test_samples, nearest, strict=True))
        if distances[row, index] <= NEAR_DUPLICATE_BITS
    ]
    return tuple(sorted(duplicates, key=lambda duplicate: duplicate.hamming_distance))


def describe_near_duplicates(duplicates: Sequence[NearDuplicate], test_count: int) -> str:
    """Return a warning about near-duplicates, or an empty text without any."""
    if not duplicates:
        return ""
    first = duplicates[0]
    return (
        f"{len(duplicates)} of {test_count} test images nearly equal an image used for training or tuning. The most "
        f"similar are {first.test_name} and {first.training_name} ({first.hamming_distance} of {N_HASH_BITS} bits "
        "differ). Scores on new photos may be lower; the intervals do not include this."
    )


def _compute_fingerprints(samples: Sequence[Sample]) -> HashBits:
    return np.stack([compute_perceptual_hash(images.read_rgb(sample.rgb)) for sample in samples])
