"""Bands: stripes along the rows that lamps on mains leave where rows are exposed one after another.

What is in a picture changes from row to row as often up as down, in the median over columns; a lamp
that flickers changes all of a row. Bands have one width in all photos of a camera and lie elsewhere in
each.
"""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.linearization import decode_levels

Floats = NDArray[np.float64]

_PROFILE_ROWS, _PROFILE_COLUMNS = 240, 160  # of the picture that is looked at
_BAND_COUNTS = np.arange(1.5, 40.0, 0.1)  # bands to a picture that are looked for
_SMOOTH_COEFFICIENTS = 4  # coefficients of what light itself does from top to bottom
_MIN_LEVEL, _MAX_LEVEL = 20, 235  # levels that light is told from
_MIN_COLUMNS = 20
_MIN_VARIANCE_SHARE, _MIN_PEAK_RISE = 0.4, 0.25
"""Share of the variance from row to row that bands have at least in the median photo, and by how much
more that is than what waves of one more and of one fewer have."""


def measure_row_profile(rgb: NDArray[np.uint8]) -> Floats:
    """Return the log of light (rows,) by which all of each row of a photo (h, w, 3) differs."""
    green = rgb[..., 1].astype(np.float32)
    size = (_PROFILE_COLUMNS, _PROFILE_ROWS)
    small = np.asarray(cv2.resize(green, size, interpolation=cv2.INTER_AREA), np.float32)
    light = np.log(np.maximum(decode_levels(small), 1e-4))
    known = (small > _MIN_LEVEL) & (small < _MAX_LEVEL)
    change = np.where(known[1:] & known[:-1], np.diff(light, axis=0), np.nan)
    told = np.isfinite(change).sum(axis=1) >= _MIN_COLUMNS
    steps = np.zeros(_PROFILE_ROWS)
    steps[1:][told] = np.nanmedian(change[told], axis=1)
    return np.asarray(np.cumsum(steps))


def estimate_band_count(profiles: Floats) -> float | None:
    """Return how many bands a picture has from top to bottom; None where none are seen.

    Args:
        profiles: (photos, rows) of ``measure_row_profile``.
    """
    smooth, waves = _make_band_basis()
    uneven = profiles - profiles @ smooth @ smooth.T
    power = np.maximum((uneven**2).sum(axis=1), 1e-12)
    shares = ((waves @ uneven.T) ** 2).sum(axis=1) / power  # (cycles, photos)
    middle = np.median(shares, axis=1)
    peak = int(middle.argmax())
    beside = [abs(_BAND_COUNTS - _BAND_COUNTS[peak] - way).argmin() for way in (-1.0, 1.0)]
    is_line = (
        middle[peak] > _MIN_VARIANCE_SHARE and middle[peak] - middle[beside].max() > _MIN_PEAK_RISE
    )
    return float(_BAND_COUNTS[peak]) if is_line else None


@cache
def _make_band_basis() -> tuple[Floats, Floats]:
    """Return what is smooth (rows, 4), and waves without it (cycles, 2, rows), of unit length."""
    place = (np.arange(_PROFILE_ROWS) + 0.5) / _PROFILE_ROWS
    smooth = np.linalg.qr(np.vander(place, _SMOOTH_COEFFICIENTS))[0]
    pairs = np.stack(
        [wave(2 * np.pi * np.outer(_BAND_COUNTS, place)) for wave in (np.cos, np.sin)], -1
    )
    pairs -= smooth @ (smooth.T @ pairs)
    return smooth, np.linalg.qr(pairs)[0].swapaxes(1, 2)
