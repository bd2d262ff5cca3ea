"""JPEG: the quality that a file's quantization tables stand for."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sim2cam import images
from sim2cam.images import Header


def jpeg_quality(header: Header) -> int | None:
    """Returns the quality, 1 to 100, at which our encoder's tables are nearest; None without tables.

    Cameras have tables of their own; nearest is by the mean ratio of the steps for brightness.
    """
    if not header.quantization:
        return None
    own = np.log(np.maximum(np.array(header.quantization[0], np.float64), 1))
    return int(np.abs(_tables() - own).mean(axis=1).argmin()) + 1


@cache
def _tables() -> NDArray[np.float64]:
    """Returns the logarithms of our encoder's steps for brightness (100, 64), by quality."""
    black = np.zeros((8, 8, 3), np.uint8)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "black.jpg")
        for quality in range(1, 101):
            path.write_bytes(images.encode_jpeg(black, quality))
            found.append(images.read_header(path).quantization[0])
    return np.log(np.array(found, dtype=np.float64))
