"""Duplicates: tested pictures that were learned from already, or show nearly the same."""

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
    """A tested picture and the one most like it among those that were learned from.

    Attributes:
        test_name, training_name: names of both.
        hamming_distance: of their fingerprints that differ.
    """

    test_name: str
    training_name: str
    hamming_distance: int


def check_disjoint(training_samples: Iterable[Sample], test_dataset: Dataset) -> None:
    """Refuse pictures that are learned from too, under whatever name.

    Raises:
        InputError: naming one and its copy; or a picture cannot be read.
    """
    known = {images.compute_digest(sample.rgb): sample.name for sample in training_samples}
    for sample in test_dataset.samples:
        copy = known.get(images.compute_digest(sample.rgb))
        if copy is not None:
            raise InputError(
                test_dataset.root,
                f"image {sample.name} is trained on too, as {copy}: what has been learned tells nothing "
                "of other pictures. Keep it in one of them.",
            )


def find_near_duplicates(
    training_samples: Iterable[Sample], test_samples: Sequence[Sample]
) -> tuple[NearDuplicate, ...]:
    """Return the tested pictures that show nearly what a learned one shows, the most alike first.

    Raises:
        InputError: a picture cannot be read.
    """
    known = {sample.rgb.resolve(): sample for sample in training_samples}
    others = list(known.values())
    if not others or not test_samples:
        return ()
    bits = compute_hamming_distances(
        _compute_fingerprints(test_samples), _compute_fingerprints(others)
    )
    nearest = bits.argmin(axis=1)
    found = [
        NearDuplicate(sample.name, others[index].name, int(bits[number, index]))
        for number, (sample, index) in enumerate(zip(test_samples, nearest, strict=True))
        if bits[number, index] <= NEAR_DUPLICATE_BITS
    ]
    return tuple(sorted(found, key=lambda one: one.hamming_distance))


def describe_near_duplicates(duplicates: Sequence[NearDuplicate], test_count: int) -> str:
    """Return what a reader of scores has to know of near-duplicates; nothing where there are none.

    Args:
        duplicates: what ``find_near_duplicates`` returned.
        test_count: how many pictures are scored.
    """
    if not duplicates:
        return ""
    first = duplicates[0]
    return (
        f"{len(duplicates)} of {test_count} test images look nearly like one that was learned from or tuned "
        f"on, as copies or photos of one burst do; the most alike are {first.test_name} and {first.training_name} "
        f"({first.hamming_distance} of {N_HASH_BITS} bits differ). Scores on photos of another day may be lower, and "
        "the intervals do not know that."
    )


def _compute_fingerprints(samples: Sequence[Sample]) -> HashBits:
    return np.stack([compute_perceptual_hash(images.read_rgb(sample.rgb)) for sample in samples])
