"""Contact sheets of named images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.files import write_bytes
from sim2cam.images import encode_jpeg

Image = NDArray[np.uint8]

_STRIP_PX = 28
_QUALITY = 75  # low, because the file is committed
_PAPER, _INK = 255, (30, 30, 30)


def make_contact_sheet(images: Sequence[tuple[str, Image]], *, columns: int = 3) -> Image:
    """Return a grid of named images (h, w, 3) of one size.

    Args:
        images: names and images, row by row.
        columns: maximum number of columns.

    Raises:
        ValueError: there are no images, or their sizes differ.
    """
    if len({image.shape for _, image in images}) != 1:
        raise ValueError("A contact sheet needs at least one image, all of one size.")
    tiles = [_label_tile(name, image) for name, image in images]
    columns = min(columns, len(tiles))
    tiles += [np.full_like(tiles[0], _PAPER)] * (-len(tiles) % columns)
    rows = [np.hstack(tiles[i : i + columns]) for i in range(0, len(tiles), columns)]
    return np.vstack(rows)


def write_contact_sheet(
    path: Path, images: Sequence[tuple[str, Image]], *, columns: int = 3
) -> None:
    """Write a contact sheet as a JPEG file."""
    sheet = make_contact_sheet(images, columns=columns)
    write_bytes(path, encode_jpeg(sheet, _QUALITY))


def _label_tile(name: str, image: Image) -> Image:
    strip = np.full((_STRIP_PX, *image.shape[1:]), _PAPER, np.uint8)
    cv2.putText(strip, name, (8, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.55, _INK, 1, cv2.LINE_AA)
    return np.vstack([strip, image])
