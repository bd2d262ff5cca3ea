"""How sure a number is: resampled images, paired differences, many comparisons at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE_LEVEL = 0.95
DETECTABLE_SIGMAS = 2.8  # a difference of this many standard errors is found with 80 % power
_ROUNDING_TOLERANCE = 1e-12  # differences that floating point alone makes are smaller


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval.

    Attributes:
        value: of all images.
        ci95: lower and upper end.
    """

    value: float
    ci95: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return ``{"value": v, "ci95": [low, high]}``."""
        return {"value": self.value, "ci95": list(self.ci95)}


@dataclass(frozen=True)
class PairedDifference:
    """How much better one run is than another on the same images.

    Attributes:
        value: first minus second.
        ci95: lower and upper end of the 95 % interval.
        p_value: two-sided, of there being no difference.
        standard_error: of the value.
    """

    value: float
    ci95: tuple[float, float]
    p_value: float
    standard_error: float

    @property
    def min_detectable_effect(self) -> float | None:
        """The smallest difference that as many images show in four of five repetitions.

        None where no resample told the runs apart: how differences spread is then unknown.
        """
        return (
            DETECTABLE_SIGMAS * self.standard_error
            if self.standard_error > _ROUNDING_TOLERANCE
            else None
        )

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            "value": self.value,
            "ci95": list(self.ci95),
            "p_value": self.p_value,
            "min_detectable_effect": self.min_detectable_effect,
        }


def sample_bootstrap_counts(
    n: int, n_resamples: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return how often each of n images is in each resample (draws, n); rows sum to n."""
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)


def bootstrap_estimate(value: float, bootstrap_values: NDArray[np.float64]) -> Estimate:
    """Return a value with the percentile interval of its resamples (draws,); NaNs are left out."""
    return Estimate(value, _compute_percentile_interval(bootstrap_values))


def estimates_to_json(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """Return numbers by their names as JSON values, each as ``{"value": v, "ci95": [low, high]}``."""
    return {name: one.to_json() for name, one in estimates.items()}


def basic_bootstrap_estimate(value: float, bootstrap_values: NDArray[np.float64]) -> Estimate:
    """Return a number that is 0 or more with the basic bootstrap interval (Davison and Hinkley 1997).

    For what noise makes larger, as distances are: it makes resamples (draws,) larger again, so the
    interval reaches as far below the value as they lie above it. NaNs are left out.
    """
    low, high = _compute_percentile_interval(bootstrap_values)
    return Estimate(value, (max(0.0, min(value, 2 * value - high)), max(value, 2 * value - low)))


def compute_paired_difference(
    first: float,
    second: float,
    first_bootstrap_values: NDArray[np.float64],
    second_bootstrap_values: NDArray[np.float64],
) -> PairedDifference:
    """Return the paired difference of two numbers.

    Args:
        first, second: of all images.
        first_bootstrap_values, second_bootstrap_values: of the same resamples of images (draws,).
    """
    differences = first_bootstrap_values - second_bootstrap_values
    differences = differences[np.isfinite(differences)]
    n = len(differences)
    tail = min(int((differences <= 0).sum()), int((differences >= 0).sum()))
    return PairedDifference(
        value=first - second,
        ci95=_compute_percentile_interval(differences),
        p_value=min(1.0, 2 * (tail + 1) / (n + 1)),
        standard_error=float(differences.std(ddof=1)) if n > 1 else float("nan"),
    )


def average_over_seeds(
    scores: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the mean (1 + draws,) over runs: of all of them, then of runs that are drawn again.

    Each draw takes one run fewer than there are: as many would spread too little, of three runs by a fifth
    (Rao and Wu 1988, "Resampling inference with complex survey data"). A single run shows no spread.

    Args:
        scores: of each run (runs, 1 + draws): of all images, then of resamples.
        rng: draws the runs.
    """
    runs, columns = scores.shape
    taken = max(1, runs - 1)
    counts = rng.multinomial(taken, np.full(runs, 1 / runs), size=columns - 1).T
    drawn = (counts * scores[:, 1:]).sum(axis=0) / taken
    return np.concatenate([scores[:, :1].mean(axis=0), drawn])


def apply_holm_correction(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values that hold for all comparisons together (Holm 1979), in the given order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return tuple(adjusted)


def _compute_percentile_interval(bootstrap_values: NDArray[np.float64]) -> tuple[float, float]:
    finite = bootstrap_values[np.isfinite(bootstrap_values)]
    if not len(finite):
        return float("nan"), float("nan")
    low, high = np.quantile(finite, [(1 - CONFIDENCE_LEVEL) / 2, (1 + CONFIDENCE_LEVEL) / 2])
    return float(low), float(high)
