"""Shutters: how long rows gather light, how they are read, and how hands move meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.adapt.calibration.camera_fit import Finding
from sim2cam.adapt.calibration.camera_shake import shake_px
from sim2cam.adapt.calibration.estimates import DRAWS, LEAST_CAPTURES, of_draws, spread, told
from sim2cam.adapt.calibration.flicker import bands
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.adapt.calibration.photo_measurements import Capture, Photo

_DRAWS = 100  # of photos with bands
_FLICKER_HZ = (100.0, 120.0)  # of lamps on mains of 50 and of 60 Hz
_LONGEST_S = 60.0
_HIDDEN = 1.5
"""By how much more, over the share of photos without clear edges, hands move than the others show: those
that moved most are among them. In renders of boards, of which half had none, it was a third."""
_UNTIMED = (
    "the files do not say how long they were exposed. Take the files as the camera writes them."
)
_AT_REST = (
    "photos of things at rest do not tell. Film a lamp that flickers at a known rate, and count the rows "
    "from one dark band to the next."
)
_BANDS = "{:.1f} bands to a picture, taken for those of lamps on mains of 50 or 60 Hz; from the top, or up"
_ONE_WAY = "too few photos have clear edges both ways. Take photos of print, or of a chessboard."
_MOVED = (
    "hands move the picture by {:.2g} px in an exposure, but {}. Take 15 photos of a chessboard, as the "
    "camera writes them."
)
_BOTH_WAYS = "standard deviation around x and around y, of all photos"


def shutter_findings(
    photos: Sequence[Photo],
    own: Sequence[Capture],
    lens: FittedLens | None,
    rng: np.random.Generator,
) -> list[Finding]:
    """Returns exposure, reading of the rows, and spin of the camera.

    Args:
        photos: what is seen in those that are looked at closely.
        own: all captures of the camera, whose files may say how long they were exposed.
        lens: of the camera; None where it is not known.
        rng: resamples photos.
    """
    said = [capture.header.exif.get("ExposureTime") for capture in own]
    times = [t for t in said if isinstance(t, float) and 0 < t < _LONGEST_S]
    exposure = told("shutter.exposure_s", times, rng, missing=_UNTIMED)
    if exposure.ci95 is not None:
        low, high = exposure.ci95
        exposure = replace(exposure, ci95=(max(low, 0.0), high), spread=spread(times))
    return [exposure, readout(photos, rng), spin(photos, exposure, lens, rng)]


def readout(photos: Sequence[Photo], rng: np.random.Generator) -> Finding:
    """Returns how long it takes to read all rows, by bands of lamps, where there are any."""
    rows = np.array([photo.rows for photo in photos])
    count = bands(rows) if len(rows) >= LEAST_CAPTURES else None
    if count is None:
        return Finding("shutter.readout_s", None, note=_AT_REST)
    resampled = [bands(rows[pick]) for pick in rng.integers(len(rows), size=(_DRAWS, len(rows)))]
    counts = np.array([count, *(n for n in resampled if n is not None)])
    found = of_draws("shutter.readout_s", np.concatenate([counts / hertz for hertz in _FLICKER_HZ]))
    return replace(found, note=_BANDS.format(np.median(counts)))


def spin(
    photos: Sequence[Photo], exposure: Finding, lens: FittedLens | None, rng: np.random.Generator
) -> Finding:
    """Returns how fast hands turn the camera, as they blur edges one way."""
    smears = np.array([photo.marks.smear for photo in photos])
    known = np.isfinite(smears).all(axis=1)
    if known.sum() < LEAST_CAPTURES:
        return Finding("twist.spin_rad_s", None, note=_ONE_WAY)
    moved = shake_px(smears[known], rng, DRAWS)
    moved *= rng.uniform(1, 1 + _HIDDEN * float(np.mean(~known)), DRAWS)
    if lens is None or not isinstance(exposure.value, float):
        missing = "no lens is known" if lens is None else "the files do not say how long it took"
        return Finding("twist.spin_rad_s", None, note=_MOVED.format(np.median(moved), missing))
    found = of_draws("twist.spin_rad_s", moved / (lens.best().fx_px * exposure.value))
    return replace(found, note=_BOTH_WAYS)
