"""Mirrors that are rough: microfacets after GGX (Walter et al. 2007), which hide each other by height.

What they reflect of an even environment is f0 times one number plus another (the split sum of Karis
2013, "Real shading in Unreal Engine 4"): both depend on roughness and direction alone.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TABLE_SIZE = 32
_SAMPLES = 512
_LEAST_COSINE = 1e-3


@functools.cache
def split_sum() -> NDArray[np.float32]:
    """Returns the factor of f0 and what is added to it, (n, n, 2).

    Row i is for the roughness i / (n - 1), column j for the cosine j / (n - 1) between the eye and
    the normal.
    """
    steps = np.linspace(0, 1, TABLE_SIZE)
    return np.array([[_integral(rough, nv) for nv in steps] for rough in steps], np.float32)


def split_sum_at(
    roughness: NDArray[np.float32], nv: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the two numbers, (n,) each, for roughnesses and cosines (n,) of 0 to 1, interpolated."""
    last = TABLE_SIZE - 1
    row, column = roughness * last, nv * last
    i = np.minimum(row.astype(np.int32), last - 1)
    j = np.minimum(column.astype(np.int32), last - 1)
    down, right = row - i.astype(np.float32), column - j.astype(np.float32)
    first = i * TABLE_SIZE + j
    return (
        _between(split_sum()[..., 0].ravel(), first, down, right),
        _between(split_sum()[..., 1].ravel(), first, down, right),
    )


def _between(
    table: NDArray[np.float32],
    first: NDArray[np.int32],
    down: NDArray[np.float32],
    right: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Returns what a table (n n,) holds ``down`` and ``right`` of its entries ``first``."""
    above = table[first] * (1 - right) + table[first + 1] * right
    below = table[first + TABLE_SIZE] * (1 - right) + table[first + TABLE_SIZE + 1] * right
    return np.asarray(above * (1 - down) + below * down)


def hidden(nl: Floats, nv: Floats, wide: Floats) -> Floats:
    """Returns 4 nl nv over twice the share that is neither shadowed nor masked (Heitz 2014).

    Args:
        nl, nv: (n,) cosines of light and eye with the normal.
        wide: (n,) squared width of the distribution of normals.
    """
    return np.asarray(
        nl * np.sqrt(nv**2 * (1 - wide) + wide) + nv * np.sqrt(nl**2 * (1 - wide) + wide)
    )


def _integral(roughness: float, nv: float) -> tuple[float, float]:
    """Returns the two numbers by drawing facets where most of them look."""
    nv = max(nv, _LEAST_COSINE)
    wide = max(roughness, 1e-2) ** 4
    i = np.arange(_SAMPLES)
    share, turn = (i + 0.5) / _SAMPLES, 2 * math.pi * ((i * 0.5 * (1 + math.sqrt(5))) % 1)
    nh = np.sqrt((1 - share) / (1 + (wide - 1) * share))
    vh = math.sqrt(1 - nv * nv) * np.sqrt(1 - nh * nh) * np.cos(turn) + nv * nh
    nl = 2 * vh * nh - nv
    lit = (nl > 0) & (vh > 0)
    nl, nh, vh = nl[lit], nh[lit], vh[lit]
    weight = 2 * nl * vh / (nh * hidden(nl, np.full_like(nl, nv), np.full_like(nl, wide)))
    edge = (1 - vh) ** 5  # Schlick 1994
    return float((weight * (1 - edge)).sum() / _SAMPLES), float((weight * edge).sum() / _SAMPLES)
