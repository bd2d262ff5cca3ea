"""Flicker bands of mains-powered lamps in photos with a rolling shutter.

Scene content changes from row to row upwards as often as downwards, so the median over columns
shows changes of entire rows. Bands have the same width in all photos of a camera, at varying
positions.
"""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.calibration.linearization import decode_levels

Floats = NDArray[np.float64]

_PROFILE_ROWS, _PROFILE_COLUMNS = 240, 160  # of the downscaled image
_BAND_COUNTS = np.arange(1.5, 40.0, 0.1)  # candidate bands per image
_SMOOTH_COEFFICIENTS = 4  # of the polynomial for vertical light gradients
_MIN_LEVEL, _MAX_LEVEL = 20, 235  # valid levels
_MIN_COLUMNS = 20
_MIN_VARIANCE_SHARE, _MIN_PEAK_RISE = 0.4, 0.25
"""Minimum share of bands in the row variance of the median photo, and minimum margin over waves
with one band more or fewer."""


def measure_row_profile(rgb: NDArray[np.uint8]) -> Floats:
    """Return the log light (rows,) common to each row of a photo (h, w, 3)."""
    green = rgb[..., 1].astype(np.float32)
    size = (_PROFILE_COLUMNS, _PROFILE_ROWS)
    small = np.asarray(cv2.resize(green, size, interpolation=cv2.INTER_AREA), np.float32)
    light = np.log(np.maximum(decode_levels(small), 1e-4))
    is_valid = (small > _MIN_LEVEL) & (small < _MAX_LEVEL)
    change = np.where(is_valid[1:] & is_valid[:-1], np.diff(light, axis=0), np.nan)
    is_known = np.isfinite(change).sum(axis=1) >= _MIN_COLUMNS
    steps = np.zeros(_PROFILE_ROWS)
    steps[1:][is_known] = np.nanmedian(change[is_known], axis=1)
    return np.asarray(np.cumsum(steps))


def estimate_band_count(profiles: Floats) -> float | None:
    """Return the number of flicker bands per image; None without clear bands.

    Args:
        profiles: (photos, rows) results of ``measure_row_profile``.
    """
    smooth, waves = _make_band_basis()
    residuals = profiles - profiles @ smooth @ smooth.T
    power = np.maximum((residuals**2).sum(axis=1), 1e-12)
    shares = ((waves @ residuals.T) ** 2).sum(axis=1) / power  # (cycles, photos)
    median_shares = np.median(shares, axis=1)
    peak = int(median_shares.argmax())
    neighbors = [abs(_BAND_COUNTS - _BAND_COUNTS[peak] - offset).argmin() for offset in (-1.0, 1.0)]
    is_line = (
        median_shares[peak] > _MIN_VARIANCE_SHARE
        and median_shares[peak] - median_shares[neighbors].max() > _MIN_PEAK_RISE
    )
    return float(_BAND_COUNTS[peak]) if is_line else None


@cache
def _make_band_basis() -> tuple[Floats, Floats]:
    """Return orthonormal polynomials (rows, 4), and waves orthogonal to them (cycles, 2, rows)."""
    position = (np.arange(_PROFILE_ROWS) + 0.5) / _PROFILE_ROWS
    smooth = np.linalg.qr(np.vander(position, _SMOOTH_COEFFICIENTS))[0]
    pairs = np.stack(
        [wave(2 * np.pi * np.outer(_BAND_COUNTS, position)) for wave in (np.cos, np.sin)], -1
    )
    pairs -= smooth @ (smooth.T @ pairs)
    return smooth, np.linalg.qr(pairs)[0].swapaxes(1, 2)
