"""Evenly distributed directions on a sphere."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

GOLDEN_ANGLE_RAD = math.pi * (3 - math.sqrt(5))


def make_fibonacci_directions(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit vectors (n, 3) with the given z (n,), each rotated by the golden angle from the last.

    Equidistant heights give a Fibonacci spiral of equal solid angles.
    """
    angle = np.arange(len(heights)) * GOLDEN_ANGLE_RAD
    radius = np.sqrt(1 - heights * heights)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), heights], axis=1)
