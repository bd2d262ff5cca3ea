"""Power law of a learning curve: error = a n^-b + c.

Mikami et al. 2021, "A Scaling Law for Synthetic-to-Real Transfer" (arXiv 2108.11018, equation 1), for the
error on real images after training on n synthetic images.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar, nnls

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, fields_to_json
from sim2cam.metrics.power import SIGNIFICANCE

Floats = NDArray[np.float64]

MIN_POINTS = 4
"""Points of a fit: one more than the law has parameters."""

_MIN_NOISE = 0.002  # standard deviation of an error; below, few seeds agree by chance
_ROUNDING_TOLERANCE = 1e-3  # of the sum of squared residuals over noise, for points without noise
_EXPONENTS = np.geomspace(0.02, 5.0, 16)  # twice the size: 1 % to 97 % less reducible error


@dataclass(frozen=True)
class PowerLaw:
    """Power law of an error.

    Attributes:
        a, b, c: Scale and exponent of the reducible error, and floor.
    """

    a: float
    b: float
    c: float

    def to_json(self) -> dict[str, float]:
        """Return the parameters by name."""
        return asdict(self)

    def predict_errors(self, sizes: Floats) -> Floats:
        """Return the errors at sizes (n,)."""
        return np.asarray(self.a * sizes**-self.b + self.c)


@dataclass(frozen=True)
class PowerLawFit:
    """Power law through the points of a learning curve.

    Attributes:
        law: Fitted law; its c is uncertain unless ``determines_floor``.
        error: Error of the law at the largest size.
        floor: c with its interval.
        gain: Reduction of the error by twice the largest size.
    """

    law: PowerLaw
    error: float
    floor: Estimate
    gain: Estimate

    @property
    def determines_floor(self) -> bool:
        """Whether the interval of the floor is at most half as wide as the error is high."""
        low, high = self.floor.ci95
        return high - low <= self.error / 2

    def to_json(self) -> dict[str, Any]:
        """Return the fields and ``determines_floor`` as JSON values."""
        return fields_to_json(self) | {"determines_floor": self.determines_floor}


@dataclass(frozen=True)
class UndeterminedFit:
    """Points that do not determine a power law, and why."""

    reason: str


def fit_power_law(sizes: Sequence[int], errors: Floats) -> PowerLawFit | UndeterminedFit:
    """Fit a power law by weighted least squares with a, c >= 0, with 95 % bootstrap intervals.

    Given b, the law is linear in a and c (variable projection, Golub and Pereyra 1973). The law is rejected
    if its residuals are significantly larger than those of the resamples around the points.

    Args:
        sizes: sizes of the training resource, ascending.
        errors: errors at each size (k, 1 + n_resamples): over all images and seeds, then over resamples;
            NaNs are left out.
    """
    if len(sizes) < MIN_POINTS:
        return UndeterminedFit(
            f"{len(sizes)} points are too few for a power law, which needs at least {MIN_POINTS}"
        )
    errors = errors[:, np.isfinite(errors).all(axis=0)]
    relative_sizes = np.asarray(sizes, np.float64) / sizes[-1]
    noise = np.maximum(errors[:, 1:].std(axis=1), _MIN_NOISE)
    parameters = np.array(
        [_fit_least_squares(relative_sizes, column, noise) for column in errors.T]
    ).T
    reducible, exponent, floor = parameters  # errors at the largest size, (1 + n_resamples,)
    fitted = reducible * relative_sizes[:, None] ** -exponent + floor
    if not _are_residuals_noise((errors - fitted) / noise[:, None]):
        return UndeterminedFit("the points do not follow a power law")
    gain = reducible * (1 - 2**-exponent)
    return PowerLawFit(
        PowerLaw(float(reducible[0] * sizes[-1] ** exponent[0]), float(exponent[0]), float(floor[0])),
        float(reducible[0] + floor[0]),
        bootstrap_estimate(float(floor[0]), floor[1:]),
        bootstrap_estimate(float(gain[0]), gain[1:]),
    )  # fmt: skip


def _fit_least_squares(
    relative_sizes: Floats, errors: Floats, noise: Floats
) -> tuple[float, float, float]:
    """Return the reducible error at size 1, its exponent, and the floor."""

    def solve(exponent: float) -> tuple[Floats, float]:
        design = np.stack([relative_sizes**-exponent, np.ones_like(errors)], axis=1)
        solution, residual_norm = nnls(design / noise[:, None], errors / noise)
        return np.asarray(solution), float(residual_norm)

    # Residuals can have several minima over the exponent.
    best = int(np.argmin([solve(exponent)[1] for exponent in _EXPONENTS]))
    bounds = _EXPONENTS[max(best - 1, 0)], _EXPONENTS[min(best + 1, len(_EXPONENTS) - 1)]
    exponent = minimize_scalar(lambda b: solve(b)[1], bounds=bounds, method="bounded").x
    (reducible, floor), _ = solve(exponent)
    return float(reducible), float(exponent), float(floor)


def _are_residuals_noise(residuals: Floats) -> bool:
    """Return whether residuals of the points are not significantly larger than those of the resamples.

    Args:
        residuals: residuals in standard deviations (k, 1 + n_resamples).
    """
    squares = (residuals[:, 0] ** 2).sum()
    resampled_squares = ((residuals[:, 1:] - residuals[:, :1]) ** 2).sum(axis=0)
    p_value = (resampled_squares + _ROUNDING_TOLERANCE >= squares).mean()
    return bool(p_value >= SIGNIFICANCE)
