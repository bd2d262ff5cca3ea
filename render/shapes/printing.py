"""Prints: one ink on a plate, as the share of each texel that it covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.scene.material import Color


@dataclass(frozen=True)
class Print:
    """What is printed on one side of a plate; row 0 is its top.

    Attributes:
        cover: (n, n) share of each texel that ink covers, 0 to 1; n is a power of two, so that
            smaller copies of the picture stay where they are.
        ink: linear RGB.
    """

    cover: NDArray[np.float64]
    ink: Color
