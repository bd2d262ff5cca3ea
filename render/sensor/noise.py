"""Normal noise by the million, at a quarter of the time that exact deviates take."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float32]

_QUANTILE_COUNT = 2**16
_CHUNK_SIZE = 2**15  # what is made of so many stays in the processor's cache


def sample_standard_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return deviates of mean 0 and variance 1, each one of 65,536 equally likely quantiles.

    None is larger than 4.4: after that, a pixel would have to be drawn 65,536 times to tell.

    Args:
        rng: source of chance.
        shape: of what is returned.
    """
    drawn = np.empty(shape, np.float32)
    flat, quantiles = drawn.reshape(-1), _compute_quantiles()
    for first in range(0, flat.size, _CHUNK_SIZE):
        part = flat[first : first + _CHUNK_SIZE]
        quantiles.take(
            rng.integers(_QUANTILE_COUNT, size=part.size, dtype=np.uint16), out=part, mode="clip"
        )
    return drawn


@cache
def _compute_quantiles() -> Floats:
    middles = ndtri((np.arange(_QUANTILE_COUNT) + 0.5) / _QUANTILE_COUNT)
    return np.asarray(middles / middles.std(), dtype=np.float32)
