"""Camera shake during exposures, from directional blur of edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ANISOTROPY_TO_PX2 = 6 * np.pi
"""Motion with standard deviation s along both axes causes a mean absolute anisotropy of s^2 / (6
pi): anisotropies are (x^2 - y^2) / 24, and x - y and x + y are independent with a mean absolute
value of 2 s / sqrt(pi) each."""
_MAX_STILL_ANISOTROPY = 0.2
"""Maximum anisotropy of static cameras beyond measurement errors, squared pixels: tilted boards and
filters cause 0.05 to 0.2, which photos do not reveal."""


def sample_shake_px(anisotropies: Floats, rng: np.random.Generator, count: int) -> Floats:
    """Sample the image motion during an exposure (count,), pixels.

    The value is the standard deviation along x and along y over all photos. Isotropic blur does not
    count. Samples reach 0 if a static camera could explain the photos.

    Args:
        anisotropies: (photos, 2) results of ``edges.estimate_blur_anisotropy``, all finite.
    """
    # resamples of n photos would underestimate the spread of means by sqrt((n - 1) / n)
    picks = rng.integers(len(anisotropies), size=(count, max(len(anisotropies) - 1, 1)))
    sizes, variances = (
        columns[picks].mean(axis=1) for columns in (np.abs(anisotropies.T[0]), anisotropies.T[1])
    )
    still = rng.uniform(0.0, _MAX_STILL_ANISOTROPY, count)
    # subtracts the expected contribution of normal errors
    squares = sizes**2 - 2 / np.pi * (variances + still**2)
    return np.asarray(np.sqrt(_ANISOTROPY_TO_PX2 * np.sqrt(np.maximum(squares, 0.0))))
