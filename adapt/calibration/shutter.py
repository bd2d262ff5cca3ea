"""Shutters: how long rows gather light, how they are read, and how hands move meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sim2cam.adapt.calibration.camera_fit import ParameterEstimate
from sim2cam.adapt.calibration.camera_shake import sample_shake_px
from sim2cam.adapt.calibration.estimates import (
    MIN_CALIBRATION_PHOTOS,
    MONTE_CARLO_SAMPLES,
    compute_photo_std,
    estimate_from_samples,
    estimate_parameter,
)
from sim2cam.adapt.calibration.flicker import estimate_band_count
from sim2cam.adapt.calibration.lens import FittedLens
from sim2cam.adapt.calibration.photo_measurements import PhotoFile, PhotoMeasurements

_BOOTSTRAP_SAMPLES = 100  # of photos with bands
_FLICKER_HZ = (100.0, 120.0)  # of lamps on mains of 50 and of 60 Hz
_MAX_EXPOSURE_S = 60.0
_UNMEASURED_SHAKE_FACTOR = 1.5
"""By how much more, over the share of photos without clear edges, hands move than the others show: those
that moved most are among them. In renders of boards, of which half had none, it was a third."""
_NO_EXPOSURE_TIME_NOTE = (
    "the files do not say how long they were exposed. Take the files as the camera writes them."
)
_NO_BANDS_NOTE = (
    "photos of things at rest do not tell. Film a lamp that flickers at a known rate, and count the rows "
    "from one dark band to the next."
)
_BANDS_NOTE = "{:.1f} bands to a picture, taken for those of lamps on mains of 50 or 60 Hz; from the top, or up"
_FEW_EDGES_NOTE = (
    "too few photos have clear edges both ways. Take photos of print, or of a chessboard."
)
_SHAKE_NOTE = (
    "hands move the picture by {:.2g} px in an exposure, but {}. Take 15 photos of a chessboard, as the "
    "camera writes them."
)
_SPIN_NOTE = "standard deviation around x and around y, of all photos"


def estimate_shutter(
    photos: Sequence[PhotoMeasurements],
    captures: Sequence[PhotoFile],
    lens: FittedLens | None,
    rng: np.random.Generator,
) -> list[ParameterEstimate]:
    """Return exposure, reading of the rows, and spin of the camera.

    Args:
        photos: what is seen in those that are looked at closely.
        captures: all captures of the camera, whose files may say how long they were exposed.
        lens: of the camera; None where it is not known.
        rng: resamples photos.
    """
    said = [capture.header.exif.get("ExposureTime") for capture in captures]
    times = [t for t in said if isinstance(t, float) and 0 < t < _MAX_EXPOSURE_S]
    exposure = estimate_parameter(
        "shutter.exposure_s", times, rng, missing_note=_NO_EXPOSURE_TIME_NOTE
    )
    if exposure.ci95 is not None:
        low, high = exposure.ci95
        exposure = replace(exposure, ci95=(max(low, 0.0), high), photo_std=compute_photo_std(times))
    return [exposure, estimate_readout(photos, rng), estimate_spin(photos, exposure, lens, rng)]


def estimate_readout(
    photos: Sequence[PhotoMeasurements], rng: np.random.Generator
) -> ParameterEstimate:
    """Return how long it takes to read all rows, by bands of lamps, where there are any."""
    rows = np.array([photo.row_profile for photo in photos])
    count = estimate_band_count(rows) if len(rows) >= MIN_CALIBRATION_PHOTOS else None
    if count is None:
        return ParameterEstimate("shutter.readout_s", None, note=_NO_BANDS_NOTE)
    resampled = [
        estimate_band_count(rows[pick])
        for pick in rng.integers(len(rows), size=(_BOOTSTRAP_SAMPLES, len(rows)))
    ]
    counts = np.array([count, *(n for n in resampled if n is not None)])
    found = estimate_from_samples(
        "shutter.readout_s", np.concatenate([counts / hertz for hertz in _FLICKER_HZ])
    )
    return replace(found, note=_BANDS_NOTE.format(np.median(counts)))


def estimate_spin(
    photos: Sequence[PhotoMeasurements],
    exposure: ParameterEstimate,
    lens: FittedLens | None,
    rng: np.random.Generator,
) -> ParameterEstimate:
    """Return how fast hands turn the camera, as they blur edges one way."""
    smears = np.array([photo.sensor_features.blur_anisotropy for photo in photos])
    known = np.isfinite(smears).all(axis=1)
    if known.sum() < MIN_CALIBRATION_PHOTOS:
        return ParameterEstimate("twist.spin_rad_s", None, note=_FEW_EDGES_NOTE)
    moved = sample_shake_px(smears[known], rng, MONTE_CARLO_SAMPLES)
    moved *= rng.uniform(
        1, 1 + _UNMEASURED_SHAKE_FACTOR * float(np.mean(~known)), MONTE_CARLO_SAMPLES
    )
    if lens is None or not isinstance(exposure.value, float):
        missing = "no lens is known" if lens is None else "the files do not say how long it took"
        return ParameterEstimate(
            "twist.spin_rad_s", None, note=_SHAKE_NOTE.format(np.median(moved), missing)
        )
    found = estimate_from_samples(
        "twist.spin_rad_s", moved / (lens.to_lens().fx_px * exposure.value)
    )
    return replace(found, note=_SPIN_NOTE)
