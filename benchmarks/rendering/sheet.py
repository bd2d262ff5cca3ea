"""The contact sheet: the same frame by every renderer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.files import write_bytes

Picture = NDArray[np.uint8]

_STRIP_PX = 28
_QUALITY = 75  # of the file, which lies in the repository
_PAPER, _INK = 255, (30, 30, 30)


def contact_sheet(pictures: Sequence[tuple[str, Picture]], *, columns: int = 3) -> Picture:
    """Return named pictures (h, w, 3) of one size beside and below one another.

    Args:
        pictures: row by row.
        columns: how many stand beside one another, at most.

    Raises:
        ValueError: there are none, or their sizes differ.
    """
    if len({picture.shape for _, picture in pictures}) != 1:
        raise ValueError("a contact sheet needs pictures of one size")
    tiles = [_tile(name, picture) for name, picture in pictures]
    columns = min(columns, len(tiles))
    tiles += [np.full_like(tiles[0], _PAPER)] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)]
    return np.vstack(rows)


def write_contact_sheet(
    path: Path, pictures: Sequence[tuple[str, Picture]], *, columns: int = 3
) -> None:
    """Write a ``contact_sheet`` as a JPEG file."""
    sheet = contact_sheet(pictures, columns=columns)
    write_bytes(path, images.encode_jpeg(sheet, _QUALITY))


def _tile(name: str, picture: Picture) -> Picture:
    strip = np.full((_STRIP_PX, *picture.shape[1:]), _PAPER, np.uint8)
    cv2.putText(strip, name, (8, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)
    return np.vstack([strip, picture])
