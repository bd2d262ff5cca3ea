"""Ranges of a domain: factors whose single range can be shifted and rescaled."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from sim2cam.errors import UsageError, suggest_name
from sim2cam.randomize.distributions import Integers, LogUniform, Normal, Uniform
from sim2cam.randomize.domain import Domain
from sim2cam.randomize.sampling_context import Value

RangeDistribution = Uniform | LogUniform | Normal | Integers

MAX_SHIFT = 1.0
"""Maximum extension of a range at either end, over its length."""

DEFAULT_FACTORS = (
    "light/sky_level", "light/warmth",
    "lamp/level", "lamp/elevation_rad", "lamp/warmth",
    "near_light/level", "sky/level",
    "table/value", "table/saturation", "table/contrast", "table/scale_m",
    "view/die_px", "view/object_px", "view/tilt_rad",
)  # fmt: skip
"""Factors of light, texture, size and pose that ``find_ranges`` selects by default, besides all
counts of the layout."""


@dataclass(frozen=True)
class FactorRange:
    """Factor that is sampled from one range.

    Positions run from 0 at the lower to 1 at the upper end, on a logarithmic scale for
    ``LogUniform``.

    Attributes:
        path: path of the factor, as ``light/warmth``.
        distribution: distribution of the factor.
        lower_bound, upper_bound: smallest and largest allowed value.
    """

    path: str
    distribution: RangeDistribution
    lower_bound: float
    upper_bound: float

    def to_position(self, value: float) -> float:
        """Return the position of a value."""
        low, high = (
            self._to_coordinate(self.distribution.low),
            self._to_coordinate(self.distribution.high),
        )
        return (self._to_coordinate(value) - low) / (high - low)

    def from_position(self, position: float) -> float:
        """Return the value at a position, within the bounds."""
        return min(max(self._interpolate(position), self.lower_bound), self.upper_bound)

    def compute_limits(self) -> tuple[float, float]:
        """Return the positions of the lowest and the highest allowed end."""
        low, high = self.to_position(self.lower_bound), self.to_position(self.upper_bound)
        return max(-MAX_SHIFT, low), min(1 + MAX_SHIFT, high)

    def rescale(self, low: float, high: float) -> RangeDistribution:
        """Return the distribution between two positions; integer ranges include both."""
        start, end = self.from_position(low), self.from_position(high)
        match self.distribution:
            case Integers():
                return Integers(math.floor(start + _ROUNDING), math.ceil(end - _ROUNDING))
            case Normal(mean, std):
                center = low + self.to_position(mean) * (high - low)
                return Normal(self._interpolate(center), std * (high - low), start, end)
            case _:
                return replace(self.distribution, low=start, high=end)

    def _interpolate(self, position: float) -> float:
        """Return the value at a position, also beyond the bounds."""
        low, high = (
            self._to_coordinate(self.distribution.low),
            self._to_coordinate(self.distribution.high),
        )
        between = low + position * (high - low)
        return math.exp(between) if isinstance(self.distribution, LogUniform) else between

    def _to_coordinate(self, value: float) -> float:
        if isinstance(self.distribution, LogUniform):
            return math.log(value) if value > 0 else -math.inf
        return value


_ROUNDING = 1e-6  # keeps rounding errors from adding a whole number at either end


def find_ranges(domain: Domain, names: Collection[str] = ()) -> tuple[FactorRange, ...]:
    """Return the factors of a domain that are sampled from one range, in domain order.

    Args:
        domain: domain with its distributions.
        names: groups and factors, as ``light`` and ``light/warmth``; default: ``DEFAULT_FACTORS``.

    Raises:
        UsageError: if a name leads to no range.
    """
    ranges = {factor.path: factor for factor in _iterate_ranges(domain)}
    if not names:
        return tuple(
            factor for path, factor in ranges.items() if path in DEFAULT_FACTORS or _is_count(path)
        )
    groups = {path.split("/")[0] for path in ranges}
    for name in names:
        if name not in ranges and name not in groups:
            raise UsageError(
                f"'{name}' is not a group or factor with a range. "
                f"{suggest_name(name, {*ranges, *groups})}"
            )
    return tuple(
        factor for path, factor in ranges.items() if {path, path.split("/")[0]} & set(names)
    )


def collect_values(path: str, values: Mapping[str, Value]) -> list[float]:
    """Return the sampled values of a factor in one scene, over all instances of its group."""
    group, factor = path.split("/")
    return [
        float(value)
        for instance_path, value in values.items()
        if instance_path.startswith(f"{group}/") and instance_path.endswith(f"/{factor}")
    ]


def _iterate_ranges(domain: Domain) -> Iterator[FactorRange]:
    for group, factor, distribution in domain.iterate_factors():
        path = f"{group}/{factor}"
        if (
            isinstance(distribution, RangeDistribution)
            and distribution.low < distribution.high
            and "." not in factor
        ):
            parameter = domain.get_parameter(path)
            yield FactorRange(path, distribution, parameter.low, parameter.high)


def _is_count(path: str) -> bool:
    return path.startswith("layout/") and path.endswith("_count")
