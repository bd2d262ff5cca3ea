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
_MIN_COSINE = 1e-3


@functools.cache
def compute_split_sum_table() -> NDArray[np.float32]:
    """Return the factor of f0 and what is added to it, (n, n, 2).

    Row i is for the roughness i / (n - 1), column j for the cosine j / (n - 1) between the eye and
    the normal.
    """
    steps = np.linspace(0, 1, TABLE_SIZE)
    return np.array(
        [[_integrate_split_sum(rough, nv) for nv in steps] for rough in steps], np.float32
    )


def interpolate_split_sum(
    roughness: NDArray[np.float32], cos_view: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the two numbers, (n,) each, for roughnesses and cosines (n,) of 0 to 1, interpolated."""
    last = TABLE_SIZE - 1
    row, column = roughness * last, cos_view * last
    i = np.minimum(row.astype(np.int32), last - 1)
    j = np.minimum(column.astype(np.int32), last - 1)
    down, right = row - i.astype(np.float32), column - j.astype(np.float32)
    first = i * TABLE_SIZE + j
    return (
        _interpolate_table(compute_split_sum_table()[..., 0].ravel(), first, down, right),
        _interpolate_table(compute_split_sum_table()[..., 1].ravel(), first, down, right),
    )


def _interpolate_table(
    table: NDArray[np.float32],
    indices: NDArray[np.int32],
    row_fractions: NDArray[np.float32],
    column_fractions: NDArray[np.float32],
) -> NDArray[np.float32]:
    """Return what a table (n n,) holds ``row_fractions`` and ``column_fractions`` of its entries ``indices``."""
    above = table[indices] * (1 - column_fractions) + table[indices + 1] * column_fractions
    below = (
        table[indices + TABLE_SIZE] * (1 - column_fractions)
        + table[indices + TABLE_SIZE + 1] * column_fractions
    )
    return np.asarray(above * (1 - row_fractions) + below * row_fractions)


def compute_smith_masking(cos_light: Floats, cos_view: Floats, alpha_squared: Floats) -> Floats:
    """Return 4 nl nv over twice the share that is neither shadowed nor masked (Heitz 2014).

    Args:
        cos_light, cos_view: (n,) cosines of light and eye with the normal.
        alpha_squared: (n,) squared width of the distribution of normals.
    """
    return np.asarray(
        cos_light * np.sqrt(cos_view**2 * (1 - alpha_squared) + alpha_squared)
        + cos_view * np.sqrt(cos_light**2 * (1 - alpha_squared) + alpha_squared)
    )


def _integrate_split_sum(roughness: float, cos_view: float) -> tuple[float, float]:
    """Return the two numbers by drawing facets where most of them look."""
    cos_view = max(cos_view, _MIN_COSINE)
    wide = max(roughness, 1e-2) ** 4
    i = np.arange(_SAMPLES)
    share, turn = (i + 0.5) / _SAMPLES, 2 * math.pi * ((i * 0.5 * (1 + math.sqrt(5))) % 1)
    nh = np.sqrt((1 - share) / (1 + (wide - 1) * share))
    vh = math.sqrt(1 - cos_view * cos_view) * np.sqrt(1 - nh * nh) * np.cos(turn) + cos_view * nh
    nl = 2 * vh * nh - cos_view
    lit = (nl > 0) & (vh > 0)
    nl, nh, vh = nl[lit], nh[lit], vh[lit]
    weight = (
        2
        * nl
        * vh
        / (nh * compute_smith_masking(nl, np.full_like(nl, cos_view), np.full_like(nl, wide)))
    )
    edge = (1 - vh) ** 5  # Schlick 1994
    return float((weight * (1 - edge)).sum() / _SAMPLES), float((weight * edge).sum() / _SAMPLES)
