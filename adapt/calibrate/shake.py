"""Shake: how far a hand moves the picture while it is taken, by edges that are blurrier one way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_TO_SQUARED_PX = 12.0
"""Motion of standard deviation s along both ways leaves smears of standard deviation s^2 / 12: those are
(x^2 - y^2) / 24, and the variance of x^2 is 2 s^4."""


def shake_px(smears: Floats, rng: np.random.Generator, count: int) -> Floats:
    """Returns draws (count,) of how far the picture moves in an exposure, pixels.

    That is the standard deviation along the picture's x and along its y, of all photos. Blur that is
    the same every way is no part of it.

    Args:
        smears: (photos, 2) of ``edges.smear``, all of them known.
        rng: resamples photos.
        count: of draws.
    """
    picks = rng.integers(len(smears), size=(count, len(smears)))
    values, variances = smears.T
    squares = (values**2 - variances)[picks].mean(axis=1)
    return np.asarray(np.sqrt(_TO_SQUARED_PX * np.sqrt(np.maximum(squares, 0.0))))
