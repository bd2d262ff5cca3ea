"""Masks in pictures of their own, of which large data sets have too many to read them all at once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.errors import InputError


@dataclass(frozen=True)
class MaskFile:
    """A mask that is read when it is asked for.

    Attributes:
        path: of the picture, black where the mask is not.
        size: height and width.
    """

    path: Path
    size: tuple[int, int]

    def decode(self) -> NDArray[np.bool_]:
        """Return the mask (h, w).

        Raises:
            InputError: the picture cannot be read, or is of another size.
        """
        found = images.read_rgb(self.path).any(axis=2)
        if found.shape != self.size:
            told = "{1}x{0}, not {3}x{2} pixels as its picture".format(*found.shape, *self.size)
            raise InputError(self.path, f"a mask of {told}. Copy the data set again.")
        return np.asarray(found)
