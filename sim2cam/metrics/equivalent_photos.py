"""Real equivalents: how many labelled photos train as well as data without a real label."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """How many labelled photos score as high.

    Attributes:
        images: the fewest that do; 0 for fewer than were measured, infinite for more.
        ci95: lower and upper end of the 95 % interval, likewise.
        measured_range: the fewest and the most photos of the learning curve.
        decreases: neighbours on the curve of which more photos score lower, more than chance explains.
    """

    images: float
    ci95: tuple[float, float]
    measured_range: tuple[int, int]
    decreases: tuple[tuple[int, int], ...] = ()

    def describe(self) -> str:
        """Return it as people say it: ``worth 40 [25, > 200] real photos``."""
        low, high = (self._format_bound(end) for end in self.ci95)
        if self.images == 0:
            value = f"fewer than {self.measured_range[0]}"
        elif math.isinf(self.images):
            value = f"more than {self.measured_range[1]}"
        else:
            value = f"{self.images:.0f}"
        doubt = " and ".join(f"from {few} to {more} photos" for few, more in self.decreases)
        rest = f"; the curve is not monotone, it falls {doubt}: do not rely on it" if doubt else ""
        return f"worth {value} [{low}, {high}] real photos{rest}"

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values: 0 for fewer than measured, null for more."""
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
    """Return how many photos score as high as something else does.

    Between measured numbers of photos the curve is a straight line over their logarithm, after
    isotonic regression: the nearest curve that never falls (Barlow and others, Statistical inference
    under order restrictions, 1972). A power law would say more than was measured: learning curves often
    are not one (Viering and Loog, The shape of learning curves, 2023), and it would go on where nothing
    was measured.

    Args:
        image_counts: numbers of them, 2 or more, rising.
        curve: scores of training on each (k, 1 + draws): of all images, then of resamples.
        score: of what is compared (1 + draws,), of the same resamples; those without a score are
            left out.
    """
    known = np.isfinite(curve).all(axis=0) & np.isfinite(score)
    curve, score = curve[:, known], score[known]
    found = _find_first_crossing(
        np.asarray(image_counts, np.float64), fit_isotonic_curve(curve), score
    )
    ends = [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2]
    low, high = np.quantile(found[1:], ends, method="inverted_cdf")  # ends may be infinite
    return EquivalentImageCount(
        float(found[0]),
        (float(low), float(high)),
        (image_counts[0], image_counts[-1]),
        _find_decreases(image_counts, curve),
    )


def fit_isotonic_curve(curve: Floats) -> Floats:
    """Return the nearest curves (k, n), in least squares, that never fall along the first axis.

    It is the greatest mean that begins at or before a point, of the least ones that end at or after
    it (the max-min formula of isotonic regression).
    """
    k = len(curve)
    sums = np.concatenate([np.zeros_like(curve[:1]), np.cumsum(curve, axis=0)])
    found = np.full_like(curve, -np.inf)
    for start in range(k):
        counts = np.arange(1, k - start + 1)[:, None]
        means = (sums[start + 1 :] - sums[start]) / counts  # that end at start, start + 1, ...
        least = np.minimum.accumulate(means[::-1], axis=0)[::-1]
        found[start:] = np.maximum(found[start:], least)
    return found


def _find_first_crossing(image_counts: Floats, curve: Floats, score: Floats) -> Floats:
    """Return the fewest photos (n,) with which curves (k, n) that never fall reach scores (n,)."""
    reached = curve >= score - _ROUNDING_TOLERANCE  # detectors without an error are all equal
    last = len(image_counts) - 1
    after = np.where(reached.any(axis=0), reached.argmax(axis=0), last)
    before = np.maximum(after - 1, 0)
    columns = np.arange(len(score))
    low, high = curve[before, columns], curve[after, columns]
    step = np.where(high > low, high - low, 1.0)
    share = np.where(high > low, (score - low) / step, 1.0).clip(0, 1)
    logs = np.log(image_counts)
    found = np.exp(logs[before] + share * (logs[after] - logs[before]))
    found = np.where(curve[0] > score + _ROUNDING_TOLERANCE, 0.0, found)
    return np.asarray(np.where(reached.any(axis=0), found, np.inf))


def _find_decreases(image_counts: Sequence[int], curve: Floats) -> tuple[tuple[int, int], ...]:
    """Return the neighbours of which the second scores lower, as sure as Holm's correction asks."""
    steps = [
        compute_paired_difference(float(more[0]), float(few[0]), more[1:], few[1:])
        for few, more in itertools.pairwise(curve)
    ]
    p_values = apply_holm_correction([step.p_value for step in steps])
    return tuple(
        (image_counts[i], image_counts[i + 1])
        for i, (step, p) in enumerate(zip(steps, p_values, strict=True))
        if step.value < 0 and p < SIGNIFICANCE
    )
