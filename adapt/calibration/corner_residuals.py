"""Residuals of board corners in a camera file: a sample, packed into a text."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MAX_CORNERS = 600
"""Corners that a camera file keeps, evenly spaced over those of all photos."""
_UNITS_PX = (1.0, 1.0, 0.01, 0.01)
_DTYPE = np.dtype("<i2")


def pack_residuals(corners_px: Sequence[Floats], residuals_px: Sequence[Floats]) -> str:
    """Return corners and residuals as base64 of 16-bit integers.

    Args:
        corners_px: observed corners (n, 2) of each photo, pixels.
        residuals_px: their residuals (n, 2), observed minus projected, pixels.

    Returns:
        Rows of x, y in pixels and dx, dy in 0.01 pixels, little-endian.
    """
    rows = np.concatenate([np.hstack(pair) for pair in zip(corners_px, residuals_px, strict=True)])
    selected = np.linspace(0, len(rows) - 1, min(len(rows), MAX_CORNERS)).round().astype(int)
    limits = np.iinfo(_DTYPE)
    integers = np.rint(rows[selected] / _UNITS_PX).clip(limits.min, limits.max)
    return base64.b64encode(integers.astype(_DTYPE).tobytes()).decode()


def unpack_residuals(text: str) -> Floats:
    """Return rows of ``x y dx dy`` (n, 4), pixels, from a text of ``pack_residuals``.

    Raises:
        ValueError: if the text is damaged.
    """
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"corner_residuals is not base64 ({error})") from error
    row_bytes = len(_UNITS_PX) * _DTYPE.itemsize
    if len(data) % row_bytes:
        raise ValueError(f"corner_residuals must be rows of {row_bytes} bytes")
    rows = np.frombuffer(data, _DTYPE).reshape(-1, len(_UNITS_PX))
    return np.asarray(rows * np.array(_UNITS_PX))
