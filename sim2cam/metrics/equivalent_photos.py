"""Equivalent number of labelled images: how many labelled photos train as well as synthetic data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from sim2cam.metrics.bootstrap import (
    CONFIDENCE_LEVEL,
    apply_holm_correction,
    compute_paired_difference,
)
from sim2cam.metrics.power import SIGNIFICANCE

Floats = NDArray[np.float64]

_ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True)
class EquivalentImageCount:
    """Number of labelled photos with the same score.

    Attributes:
        images: smallest equivalent number; 0 below the measured range, infinite above it.
        ci95: lower and upper end of the 95 % interval, in the same form.
        measured_range: smallest and largest number of photos of the learning curve.
        decreases: neighbouring numbers of photos between which the score falls significantly.
    """

    images: float
    ci95: tuple[float, float]
    measured_range: tuple[int, int]
    decreases: tuple[tuple[int, int], ...] = ()

    def describe(self) -> str:
        """Return a summary, e.g. ``worth 40 [25, > 200] real photos``."""
        low, high = (self._format_bound(end) for end in self.ci95)
        if self.images == 0:
            value = f"fewer than {self.measured_range[0]}"
        elif math.isinf(self.images):
            value = f"more than {self.measured_range[1]}"
        else:
            value = f"{self.images:.0f}"
        decreases = " and ".join(f"from {few} to {more} photos" for few, more in self.decreases)
        warning = ""
        if decreases:
            warning = f"; unreliable, as the learning curve falls {decreases}"
        return f"worth {value} [{low}, {high}] real photos{warning}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values: 0 below the measured range, null above it."""
        images, low, high = (
            None if math.isinf(number) else number for number in (self.images, *self.ci95)
        )
        return {
            "images": images,
            "ci95": [low, high],
            "measured_range": list(self.measured_range),
            "decreases": [list(pair) for pair in self.decreases],
            "summary": self.describe(),
        }

    def _format_bound(self, bound: float) -> str:
        if bound == 0:
            return f"< {self.measured_range[0]}"
        return f"> {self.measured_range[1]}" if math.isinf(bound) else f"{bound:.0f}"


def estimate_equivalent_images(
    image_counts: Sequence[int], curve: Floats, score: Floats
) -> EquivalentImageCount:
    """Return the number of labelled photos with the same score.

    Between measured numbers of photos the curve is linear in their logarithm, after isotonic
    regression (Barlow et al., Statistical inference under order restrictions, 1972). A power law
    would extrapolate, and learning curves often do not follow one (Viering and Loog, The shape of
    learning curves, 2023).

    Args:
        image_counts: two or more numbers of photos, ascending.
        curve: score with each number (k, 1 + n_resamples): over all images, then over resamples.
        score: score to compare (1 + n_resamples,), on the same resamples; NaNs are left out.
    """
    is_finite = np.isfinite(curve).all(axis=0) & np.isfinite(score)
    curve, score = curve[:, is_finite], score[is_finite]
    fitted = np.column_stack([isotonic_regression(column).x for column in curve.T])
    crossings = _find_first_crossing(np.asarray(image_counts, np.float64), fitted, score)
    quantiles = [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2]
    # values may be infinite, which interpolation does not allow
    low, high = np.quantile(crossings[1:], quantiles, method="inverted_cdf")
    return EquivalentImageCount(
        float(crossings[0]),
        (float(low), float(high)),
        (image_counts[0], image_counts[-1]),
        _find_decreases(image_counts, curve),
    )


def _find_first_crossing(image_counts: Floats, curve: Floats, score: Floats) -> Floats:
    """Return the smallest number of photos (n,) at which non-falling curves (k, n) reach scores (n,)."""
    is_reached = curve >= score - _ROUNDING_TOLERANCE  # equal scores may differ by rounding
    last = len(image_counts) - 1
    after = np.where(is_reached.any(axis=0), is_reached.argmax(axis=0), last)
    before = np.maximum(after - 1, 0)
    columns = np.arange(len(score))
    low, high = curve[before, columns], curve[after, columns]
    step = np.where(high > low, high - low, 1.0)
    fraction = np.where(high > low, (score - low) / step, 1.0).clip(0, 1)
    logs = np.log(image_counts)
    crossings = np.exp(logs[before] + fraction * (logs[after] - logs[before]))
    crossings = np.where(curve[0] > score + _ROUNDING_TOLERANCE, 0.0, crossings)
    return np.asarray(np.where(is_reached.any(axis=0), crossings, np.inf))


def _find_decreases(image_counts: Sequence[int], curve: Floats) -> tuple[tuple[int, int], ...]:
    """Return neighbouring numbers of photos between which the score falls, after Holm's correction."""
    differences = [
        compute_paired_difference(float(more[0]), float(few[0]), more[1:], few[1:])
        for few, more in itertools.pairwise(curve)
    ]
    p_values = apply_holm_correction([difference.p_value for difference in differences])
    return tuple(
        (image_counts[i], image_counts[i + 1])
        for i, (difference, p) in enumerate(zip(differences, p_values, strict=True))
        if difference.value < 0 and p < SIGNIFICANCE
    )
