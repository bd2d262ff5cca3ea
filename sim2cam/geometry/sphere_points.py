"""Directions that cover a sphere, or a cap of it, evenly."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

GOLDEN_ANGLE_RAD = math.pi * (3 - math.sqrt(5))


def make_fibonacci_directions(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return unit vectors (n, 3) with these z (n,), each a golden angle further around than the last.

    With heights the same distance apart they lie on a Fibonacci spiral, each for the same solid angle.
    """
    angle = np.arange(len(heights)) * GOLDEN_ANGLE_RAD
    around = np.sqrt(1 - heights * heights)
    return np.stack([around * np.cos(angle), around * np.sin(angle), heights], axis=1)
