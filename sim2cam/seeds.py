"""Chance: every random draw comes from a stream that is named, never from a shared state."""

from __future__ import annotations

import zlib

import numpy as np


def derive_rng(
    seed: int, path: str, *, scene_index: int = 0, attempt: int = 0
) -> np.random.Generator:
    """Return the generator of one factor of one scene.

    It depends on nothing but its arguments, so a sample is the same on any worker, in any order,
    after any resume, and alone.

    Args:
        seed: the run's seed, 0 or more; 0 is a seed like any other.
        path: name of what is drawn, as ``light/elevation_rad``.
        scene_index: which scene of the data set.
        attempt: counts redraws.

    Raises:
        ValueError: a negative seed, index or attempt.
    """
    for name, value in (("seed", seed), ("scene_index", scene_index), ("attempt", attempt)):
        if value < 0:
            raise ValueError(f"{name} must be 0 or more, not {value}")
    key = (scene_index, attempt, zlib.crc32(path.encode()))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def derive_seed(seed: int, path: str) -> int:
    """Return a 63-bit seed for generators that are not numpy's (torch, albumentations)."""
    return int(derive_rng(seed, path).integers(2**63))
