"""Duplicates: tested pictures that were learned from already, or show nearly the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sim2cam import images
from sim2cam.data.sample import Dataset, Sample
from sim2cam.errors import InputError
from sim2cam.metrics.perceptual_hash import BITS, NEAR_BITS, Bits, differing_bits, fingerprint


@dataclass(frozen=True)
class NearDuplicate:
    """A tested picture and the one most like it among those that were learned from.

    Attributes:
        tested, learned: names of both.
        bits: of their fingerprints that differ.
    """

    tested: str
    learned: str
    bits: int


def check_apart(learned: Iterable[Sample], tested: Dataset) -> None:
    """Refuses pictures that are learned from too, under whatever name.

    Raises:
        InputError: naming one and its copy; or a picture cannot be read.
    """
    known = {images.digest_of(sample.rgb): sample.name for sample in learned}
    for sample in tested.samples:
        copy = known.get(images.digest_of(sample.rgb))
        if copy is not None:
            raise InputError(
                tested.root,
                f"image {sample.name} is trained on too, as {copy}: what has been learned tells nothing "
                "of other pictures. Keep it in one of them.",
            )


def near_duplicates(
    learned: Iterable[Sample], tested: Sequence[Sample]
) -> tuple[NearDuplicate, ...]:
    """Returns the tested pictures that show nearly what a learned one shows, the most alike first.

    Raises:
        InputError: a picture cannot be read.
    """
    known = {sample.rgb.resolve(): sample for sample in learned}
    others = list(known.values())
    if not others or not tested:
        return ()
    bits = differing_bits(_fingerprints(tested), _fingerprints(others))
    nearest = bits.argmin(axis=1)
    found = [
        NearDuplicate(sample.name, others[index].name, int(bits[number, index]))
        for number, (sample, index) in enumerate(zip(tested, nearest, strict=True))
        if bits[number, index] <= NEAR_BITS
    ]
    return tuple(sorted(found, key=lambda one: one.bits))


def duplicates_note(found: Sequence[NearDuplicate], tested: int) -> str:
    """Returns what a reader of scores has to know of near-duplicates; nothing where there are none.

    Args:
        found: what ``near_duplicates`` returned.
        tested: how many pictures are scored.
    """
    if not found:
        return ""
    first = found[0]
    return (
        f"{len(found)} of {tested} test images look nearly like one that was learned from or tuned "
        f"on, as copies or photos of one burst do; the most alike are {first.tested} and {first.learned} "
        f"({first.bits} of {BITS} bits differ). Scores on photos of another day may be lower, and "
        "the intervals do not know that."
    )


def _fingerprints(samples: Sequence[Sample]) -> Bits:
    return np.stack([fingerprint(images.read_rgb(sample.rgb)) for sample in samples])
