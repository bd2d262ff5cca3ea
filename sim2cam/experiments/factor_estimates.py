"""What captures tell of a domain: the values of its factors, as far as renders show how those look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.randomize.domain_ranges import FactorRange, collect_values
from sim2cam.randomize.sampling_context import Value

Floats = NDArray[np.float64]

MIN_R2 = 0.2
"""Share of a factor's variance that looks must foretell, or captures do not tell it."""

_RIDGE_STRENGTHS = 10.0 ** np.arange(-1, 4)
_POSTERIOR_SAMPLES = 200  # of each capture


@dataclass(frozen=True)
class FactorEstimate:
    """What captures tell of a factor.

    Attributes:
        path: of the factor.
        loo_r2: of its variance that looks foretell in renders left out; below 0 they mislead.
        interval: places of its range between which 95 % of the captures lie, as far as they are sure;
            None where captures do not tell.
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
    """Return what captures tell of each range.

    Renders say how looks go with what was drawn (Bayesian linear regression, its ridge chosen by
    what it foretells of renders left out). A capture is then as sure as the renders around it: far
    from all of them its factors may be anything, and nothing is narrowed for its sake.

    Args:
        real_features: features (n, d) of captures.
        render_features: features (m, d) of renders, on the same scale, about their mean.
        sampled_values: what was drawn of each render.
        ranges: that were drawn from.
        rng: draws what each capture may be.
    """
    return tuple(
        _estimate_factor(real_features, render_features, sampled_values, one, rng) for one in ranges
    )


def _estimate_factor(
    real_features: Floats,
    render_features: Floats,
    sampled_values: Sequence[Mapping[str, Value]],
    factor_range: FactorRange,
    rng: np.random.Generator,
) -> FactorEstimate:
    found = [
        [factor_range.to_position(value) for value in collect_values(factor_range.path, values)]
        for values in sampled_values
    ]
    has = np.array([bool(places) for places in found])
    every = np.array([place for places in found for place in places])
    if has.sum() <= _MIN_RENDERS or every.std() == 0:
        return FactorEstimate(factor_range.path, 0.0, None)
    means = np.array([np.mean(places) for places in found if places])
    fitted = _fit_regression(render_features[has], means)
    if fitted.loo_r2 < MIN_R2:
        return FactorEstimate(factor_range.path, fitted.loo_r2, None)
    draws = fitted.sample(real_features, rng)
    # A scene's mean varies less than what it is the mean of, whose range is asked for.
    stretch = every.std() / means.std()
    low, high = np.quantile(draws, (0.025, 0.975))
    middle = float(np.median(draws))
    least, most = factor_range.compute_limits()
    ends = (middle + stretch * (low - middle), middle + stretch * (high - middle))
    a, b = (float(np.clip(end, least, most)) for end in ends)
    return FactorEstimate(factor_range.path, fitted.loo_r2, (a, b))


_MIN_RENDERS = 20


@dataclass(frozen=True, eq=False)
class _Regression:
    """How a number goes with looks.

    Attributes:
        loo_r2: of its variance that is foretold of renders left out.
        center, mean: of looks (d,) and of the number.
        coefficients: (d,).
        spread: how wrong what is foretold is, near the renders.
        inverse_gram: (d, d) of the looks' squares, which says how far off a look is.
    """

    loo_r2: float
    center: Floats
    mean: float
    coefficients: Floats
    spread: float
    inverse_gram: Floats

    def sample(self, features: Floats, rng: np.random.Generator) -> Floats:
        """Return numbers (n, ``_DRAWS``) that looks (n, d) may have."""
        off = features - self.center
        spread = self.spread * np.sqrt(1 + np.einsum("nd,de,ne->n", off, self.inverse_gram, off))
        noise = rng.standard_normal((len(features), _POSTERIOR_SAMPLES))
        return np.asarray((self.mean + off @ self.coefficients)[:, None] + spread[:, None] * noise)


def _fit_regression(features: Floats, targets: Floats) -> _Regression:
    center, mean = features.mean(axis=0), float(targets.mean())
    x, y = features - center, targets - mean
    return max(
        (_fit_ridge(x, y, center, mean, ridge) for ridge in _RIDGE_STRENGTHS),
        key=lambda r: r.loo_r2,
    )


def _fit_ridge(x: Floats, y: Floats, center: Floats, mean: float, strength: float) -> _Regression:
    inverse = np.linalg.inv(x.T @ x + strength * np.eye(x.shape[1]))
    slopes = inverse @ (x.T @ y)
    # what a regression without this render would have said of it (Allen 1974); 1/n for the mean
    leverage = np.einsum("nd,de,ne->n", x, inverse, x) + 1 / len(x)
    off = (y - x @ slopes) / (1 - leverage)
    share = 1 - float((off**2).sum() / (y**2).sum()) * ((len(y) - 1) / len(y)) ** 2
    spread = float(np.sqrt((off**2).mean()))
    return _Regression(share, center, mean, slopes, spread, np.asarray(inverse, np.float64))
