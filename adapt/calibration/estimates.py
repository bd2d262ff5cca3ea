"""Parameter estimates with 95 % intervals from one value per photo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from sim2cam.adapt.calibration.camera_fit import ParameterEstimate

Floats = NDArray[np.float64]

MIN_CALIBRATION_PHOTOS = 3
"""Minimum number of photos for an estimate with an interval."""
_MIN_BOOTSTRAP_PHOTOS = 6
"""Minimum number of photos for bootstrap intervals: 95 % intervals of three photos would cover the
median in 75 % of cases, of four in 87 %."""
MONTE_CARLO_SAMPLES = 1000
"""Samples of the bootstrap and of unknown factors."""


def estimate_parameter(
    name: str,
    values: Sequence[float] | Floats,
    rng: np.random.Generator,
    factor_samples: Floats | None = None,
    missing_note: str = "",
    scaled_values: Sequence[float] | Floats | None = None,
) -> ParameterEstimate:
    """Return the median over photos, with unknown factors marginalized out.

    With fewer than ``_MIN_BOOTSTRAP_PHOTOS`` photos the interval is Student's t of the mean.

    Args:
        values: value of each photo; NaN where unknown.
        factor_samples: samples (``MONTE_CARLO_SAMPLES``,) of a factor on the values; default 1.
        missing_note: note of the estimate if no photo has a value.
        scaled_values: part of each value that the factor multiplies; default: all of it.
    """
    is_known = np.isfinite(values)
    known = np.asarray(values)[is_known]
    scaled = known if scaled_values is None else np.asarray(scaled_values)[is_known]
    if len(known) < MIN_CALIBRATION_PHOTOS:
        return ParameterEstimate(
            name, None, note=format_too_few(len(known)) if len(known) else missing_note
        )
    factors = np.ones(MONTE_CARLO_SAMPLES) if factor_samples is None else factor_samples
    if len(known) >= _MIN_BOOTSTRAP_PHOTOS:
        indices = rng.integers(len(known), size=(MONTE_CARLO_SAMPLES, len(known)))
        return estimate_from_samples(
            name, np.median(known[indices] + scaled[indices] * (factors - 1)[:, None], axis=1)
        )
    quantiles = (rng.permutation(MONTE_CARLO_SAMPLES) + 0.5) / MONTE_CARLO_SAMPLES
    errors = t.ppf(quantiles, len(known) - 1) / np.sqrt(len(known))
    means, scaled_means = (n.mean() + errors * n.std(ddof=1) for n in (known, scaled))
    estimate = estimate_from_samples(name, means + scaled_means * (factors - 1))
    median = float(np.median(known + scaled * (np.median(factors) - 1)))
    return replace(estimate, value=float(np.clip(median, *estimate.ci95 or (median, median))))


def format_too_few(photos: int) -> str:
    """Return a note that more photos are required."""
    usable = "1 usable photo" if photos == 1 else f"{photos} usable photos"
    return f"{usable}, {MIN_CALIBRATION_PHOTOS} are required. Take 10 photos or more."


def estimate_from_samples(name: str, samples: Floats) -> ParameterEstimate:
    """Return the median of samples with the interval between their 2.5 % and 97.5 % quantiles."""
    low, median, high = np.quantile(samples, (0.025, 0.5, 0.975)).tolist()
    return ParameterEstimate(name, median, (low, high))


def compute_photo_std(values: Sequence[float] | Floats) -> float | None:
    """Return the standard deviation of finite values; None for fewer than two."""
    known = np.asarray(values)[np.isfinite(values)]
    if len(known) < 2:
        return None
    return float(known.std(ddof=1)) if np.ptp(known) > 0 else 0.0  # no rounding error of the mean
