"""Ranges: what of a domain can be moved, widened and narrowed as a whole."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace

from sim2cam.errors import UsageError, did_you_mean
from sim2cam.randomize.distributions import Distribution, Integers, LogUniform, Normal, Uniform
from sim2cam.randomize.domain import Domain, factors_of
from sim2cam.randomize.limits import bounds_of
from sim2cam.randomize.sampling_context import Value

Movable = Uniform | LogUniform | Normal | Integers

FURTHEST = 1.0
"""Lengths of a range by which it may be moved or widened at either end."""

USUAL = (
    "light/sky_level", "light/warmth",
    "lamp/level", "lamp/elevation_rad", "lamp/warmth",
    "near_light/level", "sky/level",
    "table/value", "table/saturation", "table/contrast", "table/scale_m",
    "view/die_px", "view/object_px", "view/tilt_rad",
)  # fmt: skip
"""Factors of light, texture, size and pose that are looked at where a domain has them; with all counts
of its layout, which are how much lies there."""


@dataclass(frozen=True)
class Range:
    """A factor that is drawn from one range.

    Places count from 0 at its lower to 1 at its upper end: ratios alike where it is drawn so.

    Attributes:
        path: of the factor, as ``light/warmth``.
        asked: its distribution.
        least, most: what it may be at all.
    """

    path: str
    asked: Movable
    least: float
    most: float

    def place(self, value: float) -> float:
        """Returns the place of a value."""
        low, high = self._coordinate(self.asked.low), self._coordinate(self.asked.high)
        return (self._coordinate(value) - low) / (high - low)

    def value(self, place: float) -> float:
        """Returns the value at a place."""
        low, high = self._coordinate(self.asked.low), self._coordinate(self.asked.high)
        between = low + place * (high - low)
        value = math.exp(between) if isinstance(self.asked, LogUniform) else between
        return min(max(value, self.least), self.most)

    def reach(self) -> tuple[float, float]:
        """Returns the places of the lowest and the highest end that it may be given."""
        low, high = self.place(self.least), self.place(self.most)
        return max(-FURTHEST, low), min(1 + FURTHEST, high)

    def moved(self, low: float, high: float) -> Movable:
        """Returns the distribution from one place to another; whole numbers take in both."""
        least, most = self.value(low), self.value(high)
        match self.asked:
            case Integers():
                return Integers(math.floor(least + _ROUNDING), math.ceil(most - _ROUNDING))
            case Normal(mean, std):
                middle = low + self.place(mean) * (high - low)
                return Normal(self.value(middle), std * (high - low), least, most)
            case _:
                return replace(self.asked, low=least, high=most)

    def _coordinate(self, value: float) -> float:
        if isinstance(self.asked, LogUniform):
            return math.log(value) if value > 0 else -math.inf
        return value


_ROUNDING = 1e-6


def ranges_of(domain: Domain, names: Collection[str] = ()) -> tuple[Range, ...]:
    """Returns the factors of a domain that are drawn from one range, in its order.

    Args:
        domain: with its distributions.
        names: groups and factors, as ``light`` and ``light/warmth``; the ``USUAL`` ones without any.

    Raises:
        UsageError: one of the names leads to no range.
    """
    every = {one.path: one for one in _every(domain)}
    if not names:
        return tuple(one for path, one in every.items() if path in USUAL or _is_count(path))
    groups = {path.split("/")[0] for path in every}
    for name in names:
        if name not in every and name not in groups:
            raise UsageError(
                f"'{name}' is no group or factor that is drawn from a range. "
                f"{did_you_mean(name, {*every, *groups})}"
            )
    return tuple(one for path, one in every.items() if {path, path.split("/")[0]} & set(names))


def with_distributions(domain: Domain, changes: Mapping[str, Distribution]) -> Domain:
    """Returns a domain in which some factors, by their paths, are drawn from other distributions."""
    groups: dict[str, dict[str, Distribution]] = {}
    for path, distribution in changes.items():
        group, factor = path.split("/")
        groups.setdefault(group, {})[factor] = distribution
    changed = {name: replace(getattr(domain, name), **factors) for name, factors in groups.items()}
    return replace(domain, **changed)


def drawn_of(path: str, values: Mapping[str, Value]) -> list[float]:
    """Returns what one scene drew of a factor, over all instances of its group."""
    group, factor = path.split("/")
    return [
        float(value)
        for place, value in values.items()
        if place.startswith(f"{group}/") and place.endswith(f"/{factor}")
    ]


def _every(domain: Domain) -> Iterator[Range]:
    for group in fields(domain):
        for factor, distribution in factors_of(getattr(domain, group.name)):
            path = f"{group.name}/{factor}"
            if (
                isinstance(distribution, Movable)
                and distribution.low < distribution.high
                and "." not in factor
            ):
                yield Range(path, distribution, *bounds_of(path))


def _is_count(path: str) -> bool:
    return path.startswith("layout/") and path.endswith("_count")
