"""What captures tell of a domain: the values of its factors, as far as renders show how those look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.randomize.domain_ranges import Range, drawn_of
from sim2cam.randomize.sampling_context import Value

Floats = NDArray[np.float64]

LEAST_SHARE = 0.2
"""Share of a factor's variance that looks must foretell, or captures do not tell it."""

_RIDGES = 10.0 ** np.arange(-1, 4)
_DRAWS = 200  # of each capture


@dataclass(frozen=True)
class Told:
    """What captures tell of a factor.

    Attributes:
        path: of the factor.
        share: of its variance that looks foretell in renders left out; below 0 they mislead.
        shown: places of its range between which 95 % of the captures lie, as far as they are sure;
            None where captures do not tell.
    """

    path: str
    share: float
    shown: tuple[float, float] | None


def told_by(
    wanted: Floats,
    looks: Floats,
    drawn: Sequence[Mapping[str, Value]],
    ranges: Sequence[Range],
    rng: np.random.Generator,
) -> tuple[Told, ...]:
    """Returns what captures tell of each range.

    Renders say how looks go with what was drawn (Bayesian linear regression, its ridge chosen by
    what it foretells of renders left out). A capture is then as sure as the renders around it: far
    from all of them its factors may be anything, and nothing is narrowed for its sake.

    Args:
        wanted: features (n, d) of captures.
        looks: features (m, d) of renders, on the same scale, about their mean.
        drawn: what was drawn of each render.
        ranges: that were drawn from.
        rng: draws what each capture may be.
    """
    return tuple(_told(wanted, looks, drawn, one, rng) for one in ranges)


def _told(
    wanted: Floats,
    looks: Floats,
    drawn: Sequence[Mapping[str, Value]],
    of: Range,
    rng: np.random.Generator,
) -> Told:
    found = [[of.place(value) for value in drawn_of(of.path, values)] for values in drawn]
    has = np.array([bool(places) for places in found])
    every = np.array([place for places in found for place in places])
    if has.sum() <= _LEAST_RENDERS or every.std() == 0:
        return Told(of.path, 0.0, None)
    means = np.array([np.mean(places) for places in found if places])
    fitted = _regressed(looks[has], means)
    if fitted.share < LEAST_SHARE:
        return Told(of.path, fitted.share, None)
    draws = fitted.draws(wanted, rng)
    # A scene's mean varies less than what it is the mean of, whose range is asked for.
    stretch = every.std() / means.std()
    low, high = np.quantile(draws, (0.025, 0.975))
    middle = float(np.median(draws))
    least, most = of.reach()
    ends = (middle + stretch * (low - middle), middle + stretch * (high - middle))
    a, b = (float(np.clip(end, least, most)) for end in ends)
    return Told(of.path, fitted.share, (a, b))


_LEAST_RENDERS = 20


@dataclass(frozen=True, eq=False)
class _Regression:
    """How a number goes with looks.

    Attributes:
        share: of its variance that is foretold of renders left out.
        center, mean: of looks (d,) and of the number.
        slopes: (d,).
        spread: how wrong what is foretold is, near the renders.
        inverse: (d, d) of the looks' squares, which says how far off a look is.
    """

    share: float
    center: Floats
    mean: float
    slopes: Floats
    spread: float
    inverse: Floats

    def draws(self, looks: Floats, rng: np.random.Generator) -> Floats:
        """Returns numbers (n, ``_DRAWS``) that looks (n, d) may have."""
        off = looks - self.center
        spread = self.spread * np.sqrt(1 + np.einsum("nd,de,ne->n", off, self.inverse, off))
        noise = rng.standard_normal((len(looks), _DRAWS))
        return np.asarray((self.mean + off @ self.slopes)[:, None] + spread[:, None] * noise)


def _regressed(looks: Floats, numbers: Floats) -> _Regression:
    center, mean = looks.mean(axis=0), float(numbers.mean())
    x, y = looks - center, numbers - mean
    return max((_ridge(x, y, center, mean, ridge) for ridge in _RIDGES), key=lambda r: r.share)


def _ridge(x: Floats, y: Floats, center: Floats, mean: float, ridge: float) -> _Regression:
    inverse = np.linalg.inv(x.T @ x + ridge * np.eye(x.shape[1]))
    slopes = inverse @ (x.T @ y)
    # what a regression without this render would have said of it (Allen 1974); 1/n for the mean
    leverage = np.einsum("nd,de,ne->n", x, inverse, x) + 1 / len(x)
    off = (y - x @ slopes) / (1 - leverage)
    share = 1 - float((off**2).sum() / (y**2).sum()) * ((len(y) - 1) / len(y)) ** 2
    spread = float(np.sqrt((off**2).mean()))
    return _Regression(share, center, mean, slopes, spread, np.asarray(inverse, np.float64))
