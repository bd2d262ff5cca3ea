"""Ranges: what of a domain can be moved, widened and narrowed as a whole."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from sim2cam.errors import UsageError, suggest_name
from sim2cam.randomize.distributions import Distribution, Integers, LogUniform, Normal, Uniform
from sim2cam.randomize.domain import Domain, iterate_factors
from sim2cam.randomize.limits import get_bounds
from sim2cam.randomize.sampling_context import Value

RangeDistribution = Uniform | LogUniform | Normal | Integers

MAX_SHIFT = 1.0
"""Lengths of a range by which it may be moved or widened at either end."""

DEFAULT_FACTORS = (
    "light/sky_level", "light/warmth",
    "lamp/level", "lamp/elevation_rad", "lamp/warmth",
    "near_light/level", "sky/level",
    "table/value", "table/saturation", "table/contrast", "table/scale_m",
    "view/die_px", "view/object_px", "view/tilt_rad",
)  # fmt: skip
"""Factors of light, texture, size and pose that are looked at where a domain has them; with all counts
of its layout, which are how much lies there."""


@dataclass(frozen=True)
class FactorRange:
    """A factor that is drawn from one range.

    Places count from 0 at its lower to 1 at its upper end: ratios alike where it is drawn so.

    Attributes:
        path: of the factor, as ``light/warmth``.
        distribution: its distribution.
        lower_bound, upper_bound: what it may be at all.
    """

    path: str
    distribution: RangeDistribution
    lower_bound: float
    upper_bound: float

    def to_position(self, value: float) -> float:
        """Return the place of a value."""
        low, high = (
            self._to_coordinate(self.distribution.low),
            self._to_coordinate(self.distribution.high),
        )
        return (self._to_coordinate(value) - low) / (high - low)

    def from_position(self, position: float) -> float:
        """Return the value at a place."""
        low, high = (
            self._to_coordinate(self.distribution.low),
            self._to_coordinate(self.distribution.high),
        )
        between = low + position * (high - low)
        value = math.exp(between) if isinstance(self.distribution, LogUniform) else between
        return min(max(value, self.lower_bound), self.upper_bound)

    def compute_limits(self) -> tuple[float, float]:
        """Return the places of the lowest and the highest end that it may be given."""
        low, high = self.to_position(self.lower_bound), self.to_position(self.upper_bound)
        return max(-MAX_SHIFT, low), min(1 + MAX_SHIFT, high)

    def rescale(self, low: float, high: float) -> RangeDistribution:
        """Return the distribution from one place to another; whole numbers take in both."""
        least, most = self.from_position(low), self.from_position(high)
        match self.distribution:
            case Integers():
                return Integers(math.floor(least + _ROUNDING), math.ceil(most - _ROUNDING))
            case Normal(mean, std):
                middle = low + self.to_position(mean) * (high - low)
                return Normal(self.from_position(middle), std * (high - low), least, most)
            case _:
                return replace(self.distribution, low=least, high=most)

    def _to_coordinate(self, value: float) -> float:
        if isinstance(self.distribution, LogUniform):
            return math.log(value) if value > 0 else -math.inf
        return value


_ROUNDING = 1e-6


def find_ranges(domain: Domain, names: Collection[str] = ()) -> tuple[FactorRange, ...]:
    """Return the factors of a domain that are drawn from one range, in its order.

    Args:
        domain: with its distributions.
        names: groups and factors, as ``light`` and ``light/warmth``; the ``DEFAULT_FACTORS`` ones without any.

    Raises:
        UsageError: one of the names leads to no range.
    """
    every = {one.path: one for one in _iterate_ranges(domain)}
    if not names:
        return tuple(
            one for path, one in every.items() if path in DEFAULT_FACTORS or _is_count(path)
        )
    groups = {path.split("/")[0] for path in every}
    for name in names:
        if name not in every and name not in groups:
            raise UsageError(
                f"'{name}' is no group or factor that is drawn from a range. "
                f"{suggest_name(name, {*every, *groups})}"
            )
    return tuple(one for path, one in every.items() if {path, path.split("/")[0]} & set(names))


def replace_distributions(domain: Domain, distributions: Mapping[str, Distribution]) -> Domain:
    """Return a domain in which some factors, by their paths, are drawn from other distributions."""
    groups: dict[str, dict[str, Distribution]] = {}
    for path, distribution in distributions.items():
        group, factor = path.split("/")
        groups.setdefault(group, {})[factor] = distribution
    changed = {name: replace(getattr(domain, name), **factors) for name, factors in groups.items()}
    return replace(domain, **changed)


def collect_values(path: str, values: Mapping[str, Value]) -> list[float]:
    """Return what one scene drew of a factor, over all instances of its group."""
    group, factor = path.split("/")
    return [
        float(value)
        for place, value in values.items()
        if place.startswith(f"{group}/") and place.endswith(f"/{factor}")
    ]


def _iterate_ranges(domain: Domain) -> Iterator[FactorRange]:
    for group in fields(domain):
        for factor, distribution in iterate_factors(getattr(domain, group.name)):
            path = f"{group.name}/{factor}"
            if (
                isinstance(distribution, RangeDistribution)
                and distribution.low < distribution.high
                and "." not in factor
            ):
                yield FactorRange(path, distribution, *get_bounds(path))


def _is_count(path: str) -> bool:
    return path.startswith("layout/") and path.endswith("_count")
