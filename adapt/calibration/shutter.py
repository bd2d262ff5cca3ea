"""Exposure time, rolling-shutter readout time and camera shake from photos."""

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

_BOOTSTRAP_SAMPLES = 100  # of photos with flicker bands
_FLICKER_HZ = (100.0, 120.0)  # of lamps on 50 and 60 Hz mains
_MAX_EXPOSURE_S = 60.0
_UNMEASURED_SHAKE_FACTOR = 1.5
"""Maximum relative increase of the shake over the share of photos without clear edges, which
include the most shaken ones. In renders of boards, half of them without edges, it was a third."""
_NO_EXPOSURE_TIME_NOTE = (
    "the files contain no exposure time. Use the files as the camera writes them."
)
_NO_BANDS_NOTE = (
    "no flicker bands. Film a lamp that flickers at a known rate, and count the rows from one dark "
    "band to the next."
)
_BANDS_NOTE = (
    "{:.1f} bands per image, attributed to lamps on 50 or 60 Hz mains; readout may be up or down"
)
_FEW_EDGES_NOTE = (
    "too few photos have clear edges in both directions. Take photos of print or of a chessboard."
)
_SHAKE_NOTE = (
    "shake moves the image by {:.2g} px per exposure, but {}. Take 15 photos of a chessboard, with "
    "the files as the camera writes them."
)
_SPIN_NOTE = "standard deviation around x and y over all photos"


def estimate_shutter(
    photos: Sequence[PhotoMeasurements],
    captures: Sequence[PhotoFile],
    lens: FittedLens | None,
    rng: np.random.Generator,
) -> list[ParameterEstimate]:
    """Estimate exposure time, readout time and angular velocity of the camera.

    Args:
        captures: all photo files of the camera, with exposure times in their EXIF data.
        lens: lens of the camera; None if unknown.
    """
    exif_times = [capture.header.exif.get("ExposureTime") for capture in captures]
    times = [t for t in exif_times if isinstance(t, float) and 0 < t < _MAX_EXPOSURE_S]
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
    """Estimate the readout time of all rows from flicker bands, if there are any."""
    rows = np.array([photo.row_profile for photo in photos])
    count = estimate_band_count(rows) if len(rows) >= MIN_CALIBRATION_PHOTOS else None
    if count is None:
        return ParameterEstimate("shutter.readout_s", None, note=_NO_BANDS_NOTE)
    resampled = [
        estimate_band_count(rows[indices])
        for indices in rng.integers(len(rows), size=(_BOOTSTRAP_SAMPLES, len(rows)))
    ]
    counts = np.array([count, *(n for n in resampled if n is not None)])
    estimate = estimate_from_samples(
        "shutter.readout_s", np.concatenate([counts / frequency_hz for frequency_hz in _FLICKER_HZ])
    )
    return replace(estimate, note=_BANDS_NOTE.format(np.median(counts)))


def estimate_spin(
    photos: Sequence[PhotoMeasurements],
    exposure: ParameterEstimate,
    lens: FittedLens | None,
    rng: np.random.Generator,
) -> ParameterEstimate:
    """Estimate the angular velocity of a hand-held camera from directional blur of edges."""
    anisotropies = np.array([photo.sensor_features.blur_anisotropy for photo in photos])
    known = np.isfinite(anisotropies).all(axis=1)
    if known.sum() < MIN_CALIBRATION_PHOTOS:
        return ParameterEstimate("twist.spin_rad_s", None, note=_FEW_EDGES_NOTE)
    shake_px = sample_shake_px(anisotropies[known], rng, MONTE_CARLO_SAMPLES)
    shake_px *= rng.uniform(
        1, 1 + _UNMEASURED_SHAKE_FACTOR * float(np.mean(~known)), MONTE_CARLO_SAMPLES
    )
    if lens is None or not isinstance(exposure.value, float):
        reason = "the lens is unknown" if lens is None else "the exposure time is unknown"
        return ParameterEstimate(
            "twist.spin_rad_s", None, note=_SHAKE_NOTE.format(np.median(shake_px), reason)
        )
    estimate = estimate_from_samples(
        "twist.spin_rad_s", shake_px / (lens.to_lens().fx_px * exposure.value)
    )
    return replace(estimate, note=_SPIN_NOTE)
