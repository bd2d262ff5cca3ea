"""What is odd about the pictures of a training, told before it starts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.data.sample import Dataset
from sim2cam.metrics.perceptual_hash import (
    N_HASH_BITS,
    HashBits,
    compute_hamming_distances,
    compute_perceptual_hash,
)

_MAX_COPY_BITS = 40
"""Of a fingerprint, in which copies differ at most: recompressed at quality 50 they differ in up to 8, and the
nearest of 384,000 pairs of a render and a photo of dice in 76."""
_MAX_GREY_SPREAD = 2  # that rounding lets the colours of a grey pixel differ by in a JPEG


def find_data_warnings(sim: Dataset, real: Dataset, *, paired: bool = False) -> tuple[str, ...]:
    """Return what a translator would learn from captures that nobody wants of it, in words.

    Captures are compared with renders by what they show, and asked whether they hold colour. Each picture
    of either side is read, once.

    Args:
        sim: renders.
        real: captures.
        paired: whether captures are meant to show what the renders do.

    Raises:
        InputError: a picture cannot be read.
    """
    total = len(real.samples)
    renders = [compute_perceptual_hash(images.read_rgb(sample.rgb)) for sample in sim.samples]
    looked = [_inspect_image(images.read_rgb(sample.rgb)) for sample in real.samples]
    grey = sum(is_grey for _, is_grey in looked)
    bits = compute_hamming_distances(
        _stack_fingerprints(renders), _stack_fingerprints([found for found, _ in looked])
    )
    is_copy = (bits <= _MAX_COPY_BITS).any(axis=0)
    copies = 0 if paired else int(is_copy.sum())
    found = []
    if copies:
        found.append(
            f"{copies} of {total} captures show what a picture of --sim shows, as copies of it do: nothing but "
            "--sim is learned from them. Check --real."
        )
    if 0 < grey < total:
        found.append(
            f"{grey} of {total} captures are grey, the others have colour: translations will lose some of "
            "theirs. Leave out either."
        )
    return tuple(found)


def _inspect_image(rgb: NDArray[np.uint8]) -> tuple[HashBits, bool]:
    """Return the fingerprint of a picture, and whether no pixel of it has colour, whatever its file could
    hold.
    """
    return compute_perceptual_hash(rgb), bool(np.ptp(rgb, axis=2).max() <= _MAX_GREY_SPREAD)


def _stack_fingerprints(fingerprints: Sequence[HashBits]) -> HashBits:
    return np.array(fingerprints, np.bool_).reshape(-1, N_HASH_BITS)
