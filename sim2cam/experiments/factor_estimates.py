"""Estimates of a domain's factors from real images, by regression on renders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.randomize.range_rescaling import FactorRange, collect_values
from sim2cam.randomize.sampling_context import Value

Floats = NDArray[np.float64]

MIN_R2 = 0.2
"""Smallest leave-one-out R² of a factor that counts as estimated."""

_RIDGE_STRENGTHS = 10.0 ** np.arange(-1, 4)
_POSTERIOR_SAMPLES = 200  # per real image
_MIN_RENDERS = 20


@dataclass(frozen=True)
class FactorEstimate:
    """Estimate of a factor.

    Attributes:
        loo_r2: leave-one-out R² of the regression; negative if it is worse than the mean.
        interval: 95 % interval of the factor over the real images, as positions in its range (0 to
            1); None if the factor cannot be estimated.
    """

    path: str
    loo_r2: float
    interval: tuple[float, float] | None


def estimate_factors(
    real_features: Floats,
    render_features: Floats,
    sampled_values: Sequence[Mapping[str, Value]],
    ranges: Sequence[FactorRange],
    rng: np.random.Generator,
) -> tuple[FactorEstimate, ...]:
    """Estimate each factor of real images.

    A Bayesian linear regression on renders predicts the factor from features; its ridge strength
    maximizes the leave-one-out R². Predictions far from all renders are uncertain, so that such
    images narrow no range.

    Args:
        real_features: features (n, d) of real images.
        render_features: features (m, d) of renders, on the same scale.
    """
    return tuple(
        _estimate_factor(real_features, render_features, sampled_values, factor_range, rng)
        for factor_range in ranges
    )


def _estimate_factor(
    real_features: Floats,
    render_features: Floats,
    sampled_values: Sequence[Mapping[str, Value]],
    factor_range: FactorRange,
    rng: np.random.Generator,
) -> FactorEstimate:
    positions = [
        [factor_range.to_position(value) for value in collect_values(factor_range.path, values)]
        for values in sampled_values
    ]
    has_factor = np.array([bool(scene_positions) for scene_positions in positions])
    all_positions = np.array([p for scene_positions in positions for p in scene_positions])
    if has_factor.sum() <= _MIN_RENDERS or all_positions.std() == 0:
        return FactorEstimate(factor_range.path, 0.0, None)
    means = np.array([np.mean(scene_positions) for scene_positions in positions if scene_positions])
    regression = _fit_regression(render_features[has_factor], means)
    if regression.loo_r2 < MIN_R2:
        return FactorEstimate(factor_range.path, regression.loo_r2, None)
    samples = regression.sample(real_features, rng)
    # The mean over a scene varies less than the values, whose range is estimated.
    stretch = all_positions.std() / means.std()
    low, high = np.quantile(samples, (0.025, 0.975))
    median = float(np.median(samples))
    limits = factor_range.compute_limits()
    ends = (median + stretch * (low - median), median + stretch * (high - median))
    lower, upper = (float(np.clip(end, *limits)) for end in ends)
    return FactorEstimate(factor_range.path, regression.loo_r2, (lower, upper))


@dataclass(frozen=True, eq=False)
class _Regression:
    """Bayesian linear regression of a factor on features.

    Attributes:
        center, mean: mean of the features (d,) and of the factor.
        spread: standard deviation of the leave-one-out errors.
        inverse_gram: inverse of the regularized Gram matrix (d, d), for the predictive variance.
    """

    loo_r2: float
    center: Floats
    mean: float
    coefficients: Floats
    spread: float
    inverse_gram: Floats

    def sample(self, features: Floats, rng: np.random.Generator) -> Floats:
        """Return posterior samples (n, ``_POSTERIOR_SAMPLES``) of the factor at features (n, d)."""
        offsets = features - self.center
        spread = self.spread * np.sqrt(
            1 + np.einsum("nd,de,ne->n", offsets, self.inverse_gram, offsets)
        )
        noise = rng.standard_normal((len(features), _POSTERIOR_SAMPLES))
        return np.asarray(
            (self.mean + offsets @ self.coefficients)[:, None] + spread[:, None] * noise
        )


def _fit_regression(features: Floats, targets: Floats) -> _Regression:
    center, mean = features.mean(axis=0), float(targets.mean())
    x, y = features - center, targets - mean
    return max(
        (_fit_ridge(x, y, center, mean, ridge) for ridge in _RIDGE_STRENGTHS),
        key=lambda regression: regression.loo_r2,
    )


def _fit_ridge(x: Floats, y: Floats, center: Floats, mean: float, strength: float) -> _Regression:
    inverse = np.linalg.inv(x.T @ x + strength * np.eye(x.shape[1]))
    coefficients = inverse @ (x.T @ y)
    # Leave-one-out residuals (PRESS, Allen 1974); 1/n for the fitted mean.
    leverage = np.einsum("nd,de,ne->n", x, inverse, x) + 1 / len(x)
    residuals = (y - x @ coefficients) / (1 - leverage)
    loo_r2 = 1 - float((residuals**2).sum() / (y**2).sum()) * ((len(y) - 1) / len(y)) ** 2
    spread = float(np.sqrt((residuals**2).mean()))
    return _Regression(loo_r2, center, mean, coefficients, spread, np.asarray(inverse, np.float64))
