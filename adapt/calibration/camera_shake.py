"""Shake: how far a hand moves the picture while it is taken, by edges that are blurrier one way."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ANISOTROPY_TO_PX2 = 6 * np.pi
"""Motion of standard deviation s along both ways leaves smears whose mean size is s^2 / 6 pi: those are
(x^2 - y^2) / 24, and x - y and x + y are independent, of a mean size of 2 s / sqrt(pi) each."""
_MAX_STILL_ANISOTROPY = 0.2
"""Smear at most, square pixels, that photos of still cameras show beside errors of measuring: tilted boards
and filters leave 0.05 to 0.2 of it, by nothing that a photo tells."""


def sample_shake_px(anisotropies: Floats, rng: np.random.Generator, count: int) -> Floats:
    """Return draws (count,) of how far the picture moves in an exposure, pixels.

    That is the standard deviation along the picture's x and along its y, of all photos. Blur that is
    the same every way is no part of it. Where still cameras may look so, the draws reach 0.

    Args:
        anisotropies: (photos, 2) of ``edges.smear``, all of them known.
        rng: resamples photos.
        count: of draws.
    """
    # resamples of n photos would spread their means too little, by the root of (n - 1) / n
    picks = rng.integers(len(anisotropies), size=(count, max(len(anisotropies) - 1, 1)))
    sizes, variances = (
        numbers[picks].mean(axis=1) for numbers in (np.abs(anisotropies.T[0]), anisotropies.T[1])
    )
    still = rng.uniform(0.0, _MAX_STILL_ANISOTROPY, count)
    squares = sizes**2 - 2 / np.pi * (
        variances + still**2
    )  # of normal errors alone nothing is left
    return np.asarray(np.sqrt(_ANISOTROPY_TO_PX2 * np.sqrt(np.maximum(squares, 0.0))))
