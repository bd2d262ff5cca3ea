"""Warnings about the images of a translator training: copies, mixed grey and colour."""

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
"""Largest Hamming distance of the perceptual hashes of two copies.

Copies recompressed at JPEG quality 50 differ in up to 8 bits; the nearest of 384,000 pairs of a render and a photo
of dice differ in 76.
"""
_MAX_GREY_SPREAD = 2  # levels; JPEG rounding lets the channels of a grey pixel differ


def find_data_warnings(sim: Dataset, real: Dataset, *, paired: bool = False) -> tuple[str, ...]:
    """Return warnings about training images: copies of renders, mixed grey and colour images.

    Each image is read once.

    Args:
        sim: renders.
        real: real images.
        paired: whether the real images are expected to show the scenes of the renders.

    Raises:
        InputError: an image cannot be read.
    """
    total = len(real.samples)
    render_hashes = [compute_perceptual_hash(images.read_rgb(sample.rgb)) for sample in sim.samples]
    inspected = [_inspect_image(images.read_rgb(sample.rgb)) for sample in real.samples]
    grey = sum(is_grey for _, is_grey in inspected)
    bits = compute_hamming_distances(
        _stack_hashes(render_hashes), _stack_hashes([image_hash for image_hash, _ in inspected])
    )
    is_copy = (bits <= _MAX_COPY_BITS).any(axis=0)
    copies = 0 if paired else int(is_copy.sum())
    warnings = []
    if copies:
        warnings.append(
            f"{copies} of {total} real images are copies of images of --sim, so the translator learns nothing from "
            "them. Check --real."
        )
    if 0 < grey < total:
        warnings.append(
            f"{grey} of {total} real images are grey and the others coloured, so translations lose some colour. "
            "Remove either kind."
        )
    return tuple(warnings)


def _inspect_image(rgb: NDArray[np.uint8]) -> tuple[HashBits, bool]:
    """Return the perceptual hash of an image, and whether all pixels are grey."""
    return compute_perceptual_hash(rgb), bool(np.ptp(rgb, axis=2).max() <= _MAX_GREY_SPREAD)


def _stack_hashes(hashes: Sequence[HashBits]) -> HashBits:
    return np.array(hashes, np.bool_).reshape(-1, N_HASH_BITS)
