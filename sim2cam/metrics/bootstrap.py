"""Bootstrap confidence intervals, paired differences and Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE_LEVEL = 0.95
DETECTABLE_SIGMAS = 2.8  # standard errors; detected with 80 % power
_ROUNDING_TOLERANCE = 1e-12  # smaller differences are floating-point noise


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval."""

    value: float
    ci95: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return ``{"value": v, "ci95": [low, high]}``."""
        return fields_to_json(self)


@dataclass(frozen=True)
class PairedDifference:
    """Difference of two runs on the same images."""

    value: float
    ci95: tuple[float, float]
    p_value: float
    standard_error: float

    @property
    def min_detectable_effect(self) -> float | None:
        """The smallest difference that this number of images shows with 80 % power.

        None if the runs agree in every resample: the standard error is then unknown.
        """
        return (
            DETECTABLE_SIGMAS * self.standard_error
            if self.standard_error > _ROUNDING_TOLERANCE
            else None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the fields and ``min_detectable_effect`` as JSON values."""
        return {
            "value": self.value,
            "ci95": list(self.ci95),
            "p_value": self.p_value,
            "min_detectable_effect": self.min_detectable_effect,
        }


def sample_bootstrap_counts(
    n: int, n_resamples: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the count of each of n images in each resample (n_resamples, n); rows sum to n."""
    return rng.multinomial(n, np.full(n, 1 / n), size=n_resamples)


def bootstrap_estimate(value: float, bootstrap_values: NDArray[np.float64]) -> Estimate:
    """Return a value with the percentile interval of its bootstrap values (n_resamples,).

    NaNs are left out.
    """
    return Estimate(value, _compute_percentile_interval(bootstrap_values))


def fields_to_json(record: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON values; nested records by their ``to_json``."""
    return {field.name: _value_to_json(getattr(record, field.name)) for field in fields(record)}


def _value_to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _value_to_json(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return value.to_json() if hasattr(value, "to_json") else value


def basic_bootstrap_estimate(value: float, bootstrap_values: NDArray[np.float64]) -> Estimate:
    """Return a non-negative value with its basic bootstrap interval (Davison and Hinkley 1997).

    Suits distances, which noise biases upwards: resamples (n_resamples,) are biased once more, so
    the interval extends as far below the value as they lie above it. NaNs are left out.
    """
    low, high = _compute_percentile_interval(bootstrap_values)
    return Estimate(value, (max(0.0, min(value, 2 * value - high)), max(value, 2 * value - low)))


def compute_paired_difference(
    first: float,
    second: float,
    first_bootstrap_values: NDArray[np.float64],
    second_bootstrap_values: NDArray[np.float64],
) -> PairedDifference:
    """Return the paired difference of two values.

    Args:
        first_bootstrap_values, second_bootstrap_values: values on the same resamples
            (n_resamples,).
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
    """Return the mean score over runs, then its bootstrap values over runs (1 + n_resamples,).

    Each resample takes one run fewer than there are; otherwise the variance is too small, for three
    runs by a third (Rao and Wu 1988, "Resampling inference with complex survey data"). A single run
    has no spread over seeds.

    Args:
        scores: scores of each run (runs, 1 + n_resamples): over all images, then over resamples of
            images.
    """
    runs, columns = scores.shape
    n_sampled = max(1, runs - 1)
    counts = rng.multinomial(n_sampled, np.full(runs, 1 / runs), size=columns - 1).T
    resampled = (counts * scores[:, 1:]).sum(axis=0) / n_sampled
    return np.concatenate([scores[:, :1].mean(axis=0), resampled])


def apply_holm_correction(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return p-values corrected for multiple comparisons (Holm 1979), in the given order."""
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
