"""Masks stored in image files and read on demand, because large datasets do not fit into memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.errors import InputError


@dataclass(frozen=True)
class MaskFile:
    """A mask that is read from its image file when needed.

    Attributes:
        path: Image file, black outside the mask.
        size: Height and width in pixels.
    """

    path: Path
    size: tuple[int, int]

    def decode(self) -> NDArray[np.bool_]:
        """Return the mask (h, w).

        Raises:
            InputError: If the file cannot be read or has another size.
        """
        mask = images.read_rgb(self.path).any(axis=2)
        if mask.shape != self.size:
            sizes = "{1}x{0} pixels, its image {3}x{2}".format(*mask.shape, *self.size)
            raise InputError(self.path, f"the mask has {sizes}. Copy the dataset again.")
        return np.asarray(mask)
