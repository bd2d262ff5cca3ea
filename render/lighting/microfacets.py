"""GGX microfacet reflection (Walter et al. 2007) with height-correlated masking and shadowing.

A uniform environment reflects f0 times a scale plus a bias, which depend on roughness and direction
only (split sum of Karis 2013, "Real shading in Unreal Engine 4").
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
    """Return scale and bias of f0, (n, n, 2).

    Row i is roughness i / (n - 1); column j is the cosine j / (n - 1) between view and normal.
    """
    levels = np.linspace(0, 1, TABLE_SIZE)
    return np.array(
        [
            [_integrate_split_sum(roughness, cos_view) for cos_view in levels]
            for roughness in levels
        ],
        np.float32,
    )


def interpolate_split_sum(
    roughness: NDArray[np.float32], cos_view: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return scale and bias of f0, (n,) each, at roughnesses and view cosines (n,) in 0 to 1."""
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
    """Interpolate a flat table (n n,) bilinearly, at fractions after entries ``indices``."""
    above = table[indices] * (1 - column_fractions) + table[indices + 1] * column_fractions
    below = (
        table[indices + TABLE_SIZE] * (1 - column_fractions)
        + table[indices + TABLE_SIZE + 1] * column_fractions
    )
    return np.asarray(above * (1 - row_fractions) + below * row_fractions)


def compute_smith_masking(cos_light: Floats, cos_view: Floats, alpha_squared: Floats) -> Floats:
    """Return 2 nl nv / G, with G the height-correlated Smith term (Heitz 2014).

    Args:
        cos_light, cos_view: (n,) cosines nl and nv of light and view with the normal.
        alpha_squared: (n,) squared width of the distribution of normals.
    """
    return np.asarray(
        cos_light * np.sqrt(cos_view**2 * (1 - alpha_squared) + alpha_squared)
        + cos_view * np.sqrt(cos_light**2 * (1 - alpha_squared) + alpha_squared)
    )


def _integrate_split_sum(roughness: float, cos_view: float) -> tuple[float, float]:
    """Return scale and bias of f0 by importance sampling of the GGX distribution."""
    cos_view = max(cos_view, _MIN_COSINE)
    alpha_squared = max(roughness, 1e-2) ** 4
    index = np.arange(_SAMPLES)
    quantile, angle = (
        (index + 0.5) / _SAMPLES,
        2 * math.pi * ((index * 0.5 * (1 + math.sqrt(5))) % 1),
    )
    nh = np.sqrt((1 - quantile) / (1 + (alpha_squared - 1) * quantile))
    vh = math.sqrt(1 - cos_view * cos_view) * np.sqrt(1 - nh * nh) * np.cos(angle) + cos_view * nh
    nl = 2 * vh * nh - cos_view
    is_lit = (nl > 0) & (vh > 0)
    nl, nh, vh = nl[is_lit], nh[is_lit], vh[is_lit]
    weight = (
        2
        * nl
        * vh
        / (
            nh
            * compute_smith_masking(nl, np.full_like(nl, cos_view), np.full_like(nl, alpha_squared))
        )
    )
    fresnel = (1 - vh) ** 5  # Schlick 1994
    return float((weight * (1 - fresnel)).sum() / _SAMPLES), float(
        (weight * fresnel).sum() / _SAMPLES
    )
