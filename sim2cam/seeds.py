"""Named random streams, independent of shared state."""

from __future__ import annotations

import zlib

import numpy as np


def derive_rng(
    seed: int, path: str, *, scene_index: int = 0, attempt: int = 0
) -> np.random.Generator:
    """Return the random generator of one factor of one scene.

    It depends only on the arguments, so samples do not depend on worker, order or resumption.

    Args:
        seed: Seed of the run, 0 or more.
        path: Path of the sampled factor, such as ``light/elevation_rad``.
        scene_index: Index of the scene in the dataset.
        attempt: Number of rejected scenes before this one.

    Raises:
        ValueError: If seed, index or attempt is negative.
    """
    for name, value in (("seed", seed), ("scene_index", scene_index), ("attempt", attempt)):
        if value < 0:
            raise ValueError(f"{name} must be 0 or more, not {value}")
    key = (scene_index, attempt, zlib.crc32(path.encode()))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def derive_seed(seed: int, path: str) -> int:
    """Return a 63-bit seed for generators of other libraries (torch, albumentations)."""
    return int(derive_rng(seed, path).integers(2**63))
