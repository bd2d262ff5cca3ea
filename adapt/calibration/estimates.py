"""Findings: from what each photo says to a number of the camera, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from sim2cam.adapt.calibration.camera_fit import ParameterEstimate

Floats = NDArray[np.float64]

MIN_CALIBRATION_PHOTOS = 3
"""Captures of one camera that numbers with an interval are told from."""
_MIN_BOOTSTRAP_PHOTOS = 6
"""Photos from which resampling them shows how far their median may be off; intervals of three would hold
it in 75 of 100 cases, of four in 87."""
MONTE_CARLO_SAMPLES = 1000
"""Of photos, and of what nobody knows."""


def estimate_parameter(
    name: str,
    values: Sequence[float] | Floats,
    rng: np.random.Generator,
    factor_samples: Floats | None = None,
    missing_note: str = "",
    scaled_values: Sequence[float] | Floats | None = None,
) -> ParameterEstimate:
    """Return the median of what photos say, each draw of it times a factor that nobody knows.

    Of fewer than ``_MIN_BOOTSTRAP_PHOTOS`` photos its interval is Student's of their mean, since resampling them would hardly
    move it.

    Args:
        name: of the finding.
        values: of each photo; NaN where it does not tell.
        rng: resamples the photos.
        factor_samples: draws (``DRAWS``,) of the factor; None for 1.
        missing_note: why no photo tells, where none does.
        scaled_values: of the values, that the factor multiplies; None for all of them.
    """
    is_known = np.isfinite(values)
    known = np.asarray(values)[is_known]
    scaled = known if scaled_values is None else np.asarray(scaled_values)[is_known]
    if len(known) < MIN_CALIBRATION_PHOTOS:
        return ParameterEstimate(
            name, None, note=format_too_few(len(known)) if len(known) else missing_note
        )
    times = np.ones(MONTE_CARLO_SAMPLES) if factor_samples is None else factor_samples
    if len(known) >= _MIN_BOOTSTRAP_PHOTOS:
        picks = rng.integers(len(known), size=(MONTE_CARLO_SAMPLES, len(known)))
        return estimate_from_samples(
            name, np.median(known[picks] + scaled[picks] * (times - 1)[:, None], axis=1)
        )
    shares = (rng.permutation(MONTE_CARLO_SAMPLES) + 0.5) / MONTE_CARLO_SAMPLES
    errors = t.ppf(shares, len(known) - 1) / np.sqrt(len(known))
    means, more = (n.mean() + errors * n.std(ddof=1) for n in (known, scaled))
    found = estimate_from_samples(name, means + more * (times - 1))
    middle = float(np.median(known + scaled * (np.median(times) - 1)))
    return replace(found, value=float(np.clip(middle, *found.ci95 or (middle, middle))))


def format_too_few(photos: int) -> str:
    """Return that more photos are needed than those few."""
    tell = "1 photo tells it" if photos == 1 else f"{photos} photos tell it"
    return f"{tell}, {MIN_CALIBRATION_PHOTOS} are needed. Take 10 photos or more."


def estimate_from_samples(name: str, samples: Floats) -> ParameterEstimate:
    """Return the median of draws of a number and the interval that holds 95 % of them."""
    low, middle, high = np.quantile(samples, (0.025, 0.5, 0.975)).tolist()
    return ParameterEstimate(name, middle, (low, high))


def compute_photo_std(values: Sequence[float] | Floats) -> float | None:
    """Return the standard deviation of those that are known; None of fewer than two."""
    known = np.asarray(values)[np.isfinite(values)]
    if len(known) < 2:
        return None
    return float(known.std(ddof=1)) if np.ptp(known) > 0 else 0.0  # not the rounding of the mean
