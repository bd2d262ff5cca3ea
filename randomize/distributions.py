"""Distributions of factors, as values that recipes contain.

Distributions support arithmetic, ``Uniform(0, 1) * 2 + Normal(...)``, refer to other factors, share
samples and change with the scene index. A plain number, string or boolean is a constant. The
extremes of a distribution are the values between which, or among which, all its samples lie; they
are ``int`` if all samples are whole.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, TypeAdapter
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from sim2cam.errors import suggest_name
from sim2cam.randomize.sampling_context import SamplingContext, Value

Values = tuple[Value, ...]
ExtremesLookup = Callable[[str], Values]
"""Function from the path of another factor to its extremes."""


class DistributionBase:
    """Arithmetic of distributions: sums, products and powers, also with numbers."""

    def __add__(self, other: Any) -> Sum:
        return Sum((_to_distribution(self), _to_distribution(other)))

    def __radd__(self, other: Any) -> Sum:
        return Sum((_to_distribution(other), _to_distribution(self)))

    def __mul__(self, other: Any) -> Product:
        return Product((_to_distribution(self), _to_distribution(other)))

    def __rmul__(self, other: Any) -> Product:
        return Product((_to_distribution(other), _to_distribution(self)))

    def __neg__(self) -> Product:
        return Product((Constant(-1), _to_distribution(self)))

    def __sub__(self, other: Any) -> Sum:
        return self + Product((Constant(-1), _to_distribution(other)))

    def __rsub__(self, other: Any) -> Sum:
        return Sum((_to_distribution(other), -self))

    def __pow__(self, exponent: float) -> Power:
        return Power(_to_distribution(self), exponent)

    def __truediv__(self, other: Any) -> Product:
        return self * Power(_to_distribution(other), -1)

    def __rtruediv__(self, other: Any) -> Product:
        return Product((_to_distribution(other), self**-1))


@dataclass(frozen=True)
class Constant(DistributionBase):
    """Single value.

    Attributes:
        value: The value; recipes may write it without a table.
    """

    value: Value
    kind: Literal["constant"] = "constant"

    def sample(self, context: SamplingContext) -> Value:
        """Return the value."""
        return self.value

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the value."""
        return (self.value,)


@dataclass(frozen=True)
class Uniform(DistributionBase):
    """Uniform distribution in [low, high).

    Attributes:
        low, high: Ends of the range.
    """

    low: float
    high: float
    kind: Literal["uniform"] = "uniform"

    def __post_init__(self) -> None:
        _require(self.low <= self.high, f"uniform needs low <= high, not {self.low} > {self.high}")

    def sample(self, context: SamplingContext) -> float:
        """Return a number in [low, high)."""
        return float(context.rng.uniform(self.low, self.high))

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return both ends of the range."""
        return float(self.low), float(self.high)


@dataclass(frozen=True)
class LogUniform(DistributionBase):
    """Distribution with a uniform logarithm in [low, high), where 0 < low <= high.

    Attributes:
        low, high: Ends of the range.
    """

    low: float
    high: float
    kind: Literal["log_uniform"] = "log_uniform"

    def __post_init__(self) -> None:
        _require(
            0 < self.low <= self.high,
            f"log_uniform needs 0 < low <= high, not {self.low}, {self.high}",
        )

    def sample(self, context: SamplingContext) -> float:
        """Return a number in [low, high)."""
        return float(math.exp(context.rng.uniform(math.log(self.low), math.log(self.high))))

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return both ends of the range."""
        return float(self.low), float(self.high)


@dataclass(frozen=True)
class Normal(DistributionBase):
    """Normal distribution truncated to [low, high].

    Attributes:
        mean, std: Mean and standard deviation before truncation.
        low, high: Ends of the range.
    """

    mean: float
    std: float
    low: float
    high: float
    kind: Literal["normal"] = "normal"

    def __post_init__(self) -> None:
        _require(self.std > 0, f"normal needs std > 0, not {self.std}")
        _require(self.low < self.high, f"normal needs low < high, not {self.low} >= {self.high}")

    def sample(self, context: SamplingContext) -> float:
        """Return a number in [low, high]."""
        low, high = (self.low - self.mean) / self.std, (self.high - self.mean) / self.std
        share = context.rng.random()
        if low > 0:  # mirrored: the CDF keeps its precision only in the lower tail
            deviation = -_invert_truncated_normal(-high, -low, 1 - share)
        else:
            deviation = _invert_truncated_normal(low, high, share)
        return min(max(self.mean + self.std * deviation, self.low), self.high)

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return both ends of the range."""
        return float(self.low), float(self.high)


@dataclass(frozen=True)
class Curve(DistributionBase):
    """Piecewise linear density through points of value and weight.

    Attributes:
        points: Value and weight of each point; values rise.
    """

    points: tuple[tuple[float, float], ...]
    kind: Literal["curve"] = "curve"

    def __post_init__(self) -> None:
        positions, weights = self.get_positions(), self.get_weights()
        _require(
            len(positions) > 1 and bool((np.diff(positions) > 0).all()),
            f"curve needs two points or more with rising values, not {positions.tolist()}",
        )
        _require(
            bool((weights >= 0).all()) and weights.sum() > 0,
            f"curve needs weights of 0 or more with a positive sum, not {weights.tolist()}",
        )

    def get_positions(self) -> np.ndarray:
        """Return the values (n,) of the points."""
        return np.array([position for position, _ in self.points])

    def get_weights(self) -> np.ndarray:
        """Return the weights (n,) of the points."""
        return np.array([weight for _, weight in self.points])

    def sample(self, context: SamplingContext) -> float:
        """Return a number between the first and the last value by inverse transform sampling."""
        x, y = self.get_positions(), self.get_weights()
        areas = np.cumsum(np.diff(x) * (y[1:] + y[:-1]) / 2)
        below = context.rng.random() * areas[-1]
        i = int(np.searchsorted(areas, below, side="right"))
        rest = below - (areas[i - 1] if i else 0.0)
        slope = (y[i + 1] - y[i]) / (x[i + 1] - x[i])
        # 2 r / (y + sqrt(y^2 + 2 s r)) solves y t + s t^2 / 2 = r without cancellation
        root = math.sqrt(max(0.0, y[i] ** 2 + 2 * slope * rest))
        step = 2 * rest / (y[i] + root) if rest else 0.0
        return float(min(x[i] + step, x[i + 1]))

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the first and the last value."""
        return float(self.points[0][0]), float(self.points[-1][0])


@dataclass(frozen=True)
class Integers(DistributionBase):
    """Discrete uniform distribution over the integers in [low, high].

    Attributes:
        low, high: Smallest and largest integer.
    """

    low: int
    high: int
    kind: Literal["integers"] = "integers"

    def __post_init__(self) -> None:
        _require(self.low <= self.high, f"integers needs low <= high, not {self.low} > {self.high}")

    def sample(self, context: SamplingContext) -> int:
        """Return an integer in [low, high]."""
        return int(context.rng.integers(self.low, self.high, endpoint=True))

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return both ends of the range."""
        return self.low, self.high


@dataclass(frozen=True)
class Choice(DistributionBase):
    """Categorical distribution; without weights all options are equally likely.

    Attributes:
        options: Numbers, texts or booleans.
        weights: Relative probability of each option.
    """

    options: tuple[Value, ...]
    weights: tuple[float, ...] = ()
    kind: Literal["choice"] = "choice"

    def __post_init__(self) -> None:
        _require(len(self.options) > 0, "choice needs at least one option")
        if self.weights:
            _require(
                len(self.weights) == len(self.options),
                f"choice has {len(self.options)} options but {len(self.weights)} weights",
            )
            _require(
                min(self.weights) >= 0 and sum(self.weights) > 0,
                f"choice needs weights of 0 or more with a positive sum, not {self.weights}",
            )

    def sample(self, context: SamplingContext) -> Value:
        """Return one of the options."""
        if not self.weights:
            return self.options[int(context.rng.integers(len(self.options)))]
        shares = np.cumsum(self.weights) / sum(self.weights)
        return self.options[int(np.searchsorted(shares, context.rng.random(), side="right"))]

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the options."""
        return self.options


@dataclass(frozen=True)
class Sum(DistributionBase):
    """Sum of independent distributions.

    Attributes:
        of: The summands.
    """

    of: tuple[Distribution, ...]
    kind: Literal["sum"] = "sum"

    def sample(self, context: SamplingContext) -> float:
        """Return the sum of one sample of each."""
        return sum(_require_numbers(self.kind, (part.sample(context) for part in self.of)))

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the smallest and the largest sum."""
        parts = [_require_numbers(self.kind, part.compute_extremes(lookup)) for part in self.of]
        return sum(map(min, parts)), sum(map(max, parts))


@dataclass(frozen=True)
class Product(DistributionBase):
    """Product of independent distributions.

    Attributes:
        of: The factors of the product.
    """

    of: tuple[Distribution, ...]
    kind: Literal["product"] = "product"

    def sample(self, context: SamplingContext) -> float:
        """Return the product of one sample of each."""
        return math.prod(_require_numbers(self.kind, (part.sample(context) for part in self.of)))

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the smallest and the largest product."""
        ends: Values = (1, 1)
        for part in self.of:
            factors = _require_numbers(self.kind, part.compute_extremes(lookup))
            products = [
                a * b
                for a in _require_numbers(self.kind, ends)
                for b in (min(factors), max(factors))
            ]
            ends = min(products), max(products)
        return ends


@dataclass(frozen=True)
class Power(DistributionBase):
    """Distribution raised to a fixed exponent.

    Attributes:
        of: Distribution of the base.
        exponent: Exponent.
    """

    of: Distribution
    exponent: float
    kind: Literal["power"] = "power"

    def sample(self, context: SamplingContext) -> float:
        """Return a sample raised to the exponent."""
        (base,) = _require_numbers(self.kind, [self.of.sample(context)])
        return float(base**self.exponent)

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the powers of both ends.

        Raises:
            ValueError: if the power is undefined for a base in the range.
        """
        bases = _require_numbers(self.kind, self.of.compute_extremes(lookup))
        low, high = min(bases), max(bases)
        allowed = "above 0" if self.exponent < 0 else "0 or more"
        _require(
            low > 0 or (low == 0 and self.exponent >= 0),
            f"power {self.exponent:g} needs numbers {allowed}, not {low:g}",
        )
        return float(low**self.exponent), float(high**self.exponent)


@dataclass(frozen=True)
class Clip(DistributionBase):
    """Distribution clamped to [low, high].

    Attributes:
        of: Distribution that is clamped.
        low, high: Ends of the range.
    """

    of: Distribution
    low: float
    high: float
    kind: Literal["clip"] = "clip"

    def __post_init__(self) -> None:
        _require(self.low <= self.high, f"clip needs low <= high, not {self.low} > {self.high}")

    def sample(self, context: SamplingContext) -> float:
        """Return a sample clamped to [low, high]."""
        return self._clamp(*_require_numbers(self.kind, [self.of.sample(context)]))

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return both ends, clamped."""
        ends = _require_numbers(self.kind, self.of.compute_extremes(lookup))
        return self._clamp(min(ends)), self._clamp(max(ends))

    def _clamp(self, value: float) -> float:
        """Return the clamped value; an ``int`` stays one if its bound is whole."""
        clamped = min(max(value, self.low), self.high)
        is_whole = isinstance(value, int) and float(clamped).is_integer()
        return int(clamped) if is_whole else clamped


@dataclass(frozen=True)
class Rounded(DistributionBase):
    """Distribution rounded to the nearest integer, half to even.

    Attributes:
        of: Distribution that is rounded.
    """

    of: Distribution
    kind: Literal["rounded"] = "rounded"

    def sample(self, context: SamplingContext) -> int:
        """Return a sample rounded to an integer."""
        return round(_require_numbers(self.kind, [self.of.sample(context)])[0])

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return both ends, rounded."""
        ends = _require_numbers(self.kind, self.of.compute_extremes(lookup))
        return round(min(ends)), round(max(ends))


@dataclass(frozen=True)
class Same(DistributionBase):
    """Value of another factor.

    Attributes:
        factor: path of the other factor, as ``light/warmth`` or ``view/0/tilt_rad``;
            ``die/*/edge_m`` refers to the instance with the same number.
    """

    factor: str
    kind: Literal["same"] = "same"

    def sample(self, context: SamplingContext) -> Value:
        """Return the value of the other factor."""
        return context.get_value(self.factor)

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the extremes of the other factor."""
        return lookup(self.factor)


@dataclass(frozen=True)
class Shared(DistributionBase):
    """One sample for all instances of a group, such as one exposure for all cameras.

    Attributes:
        of: Distribution of the sample.
    """

    of: Distribution
    kind: Literal["shared"] = "shared"

    def sample(self, context: SamplingContext) -> Value:
        """Return the sample of all instances."""
        return self.of.sample(context.shared)

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the extremes of the shared distribution."""
        return self.of.compute_extremes(lookup)


@dataclass(frozen=True)
class Given(DistributionBase):
    """Conditional distribution: one for each value of another factor.

    Attributes:
        factor: path of the other factor, as in ``Same``.
        cases: distributions by value, written as in JSON: ``wood``, ``3`` (also for 3.0), ``true``.
        otherwise: distribution for all other values.
    """

    factor: str
    cases: Mapping[str, Distribution]
    otherwise: Distribution | None = None
    kind: Literal["given"] = "given"

    def sample(self, context: SamplingContext) -> Value:
        """Return a sample of the case that applies."""
        case = self.cases.get(format_case(context.get_value(self.factor)), self.otherwise)
        assert case is not None  # compute_extremes refuses values without a case
        return case.sample(context)

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the extremes of all possible cases.

        Raises:
            ValueError: if a value of the other factor has no case.
        """
        values = lookup(self.factor)
        _require(
            _is_categorical(values) or self.otherwise is not None,
            f"given needs otherwise, because '{self.factor}' is a number",
        )
        for value in values if self.otherwise is None else ():
            name = format_case(value)
            _require(name in self.cases, f"given has no case for '{self.factor}' = {name}")
        parts = [case for name, case in self.cases.items() if _is_possible_case(name, values)]
        parts += [self.otherwise] if self.otherwise else []
        return tuple(value for part in parts for value in part.compute_extremes(lookup))

    def check_cases(self, extremes: Values) -> None:
        """Raise ``ValueError`` if a case cannot occur.

        Args:
            extremes: extremes of the other factor.

        Raises:
            ValueError: with the case and the possible values.
        """
        for name in self.cases:
            if _is_possible_case(name, extremes):
                continue
            hint = suggest_name(name, map(format_case, extremes))
            if not _is_categorical(extremes):
                numbers = _select_numbers(extremes)
                ends = f"{format_case(min(numbers))} to {format_case(max(numbers))}"
                hint = f"Allowed: {ends}, as 2 or 0.5"
            raise ValueError(f"given: '{self.factor}' is never '{name}'. {hint}")


@dataclass(frozen=True)
class Each(DistributionBase):
    """One distribution per instance of a group; the last one applies to all further instances.

    Attributes:
        of: Distribution of each instance.
    """

    of: tuple[Distribution, ...]
    kind: Literal["each"] = "each"

    def __post_init__(self) -> None:
        _require(len(self.of) > 0, "each needs at least one instance")

    def sample(self, context: SamplingContext) -> Value:
        """Return a sample of the distribution of this instance."""
        number = int(context.instance or 0)
        return self.of[min(number, len(self.of) - 1)].sample(context)

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the extremes of all instances."""
        return tuple(value for part in self.of for value in part.compute_extremes(lookup))


@dataclass(frozen=True)
class Column(DistributionBase):
    """Column of a table whose rows are sampled jointly, such as the parameters of measured cameras.

    All columns of a table, in any factors, use the same row: one per scene, or one per instance of
    a group with several instances.

    Attributes:
        table: Name of the table.
        values: Value in each row.
    """

    table: str
    values: tuple[Value, ...]
    kind: Literal["column"] = "column"

    def __post_init__(self) -> None:
        _require(len(self.values) > 0, "column needs at least one value")

    def sample(self, context: SamplingContext) -> Value:
        """Return the value in the sampled row."""
        return self.values[context.sample_row(self.table, len(self.values))]

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return all values."""
        return self.values


@dataclass(frozen=True)
class Quota(DistributionBase):
    """Stratified distribution: each stratum has an exact share of the scenes, in seeded blocks.

    Attributes:
        of: distribution of each stratum.
        shares: scenes of each stratum in a block of ``sum(shares)`` scenes; default 1 each.
    """

    of: tuple[Distribution, ...]
    shares: tuple[int, ...] = ()
    kind: Literal["quota"] = "quota"

    def __post_init__(self) -> None:
        _require(len(self.of) > 0, "quota needs at least one stratum")
        check_shares(self.kind, self.shares, len(self.of))

    def sample(self, context: SamplingContext) -> Value:
        """Return a sample of the stratum of this scene."""
        return self.of[context.assign_stratum(self.shares or (1,) * len(self.of))].sample(context)

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the extremes of all strata."""
        return tuple(value for part in self.of for value in part.compute_extremes(lookup))


@dataclass(frozen=True)
class Schedule(DistributionBase):
    """Distributions at given scene indices, interpolated in between.

    Numbers are interpolated linearly between samples of both distributions from the same random
    state. Strings and booleans switch with linearly increasing probability.

    Attributes:
        over: Scene index and distribution of each point; indices rise.
    """

    over: tuple[tuple[int, Distribution], ...]
    kind: Literal["schedule"] = "schedule"

    def __post_init__(self) -> None:
        starts = [start for start, _ in self.over]
        _require(
            bool(starts) and starts[0] >= 0 and sorted(set(starts)) == starts,
            f"schedule needs rising scene indices of 0 or more, not {starts}",
        )

    def sample(self, context: SamplingContext) -> Value:
        """Return a sample at the index of the scene."""
        later = next((i for i, (start, _) in enumerate(self.over) if start > context.index), None)
        if later in (0, None):
            return self.over[0 if later == 0 else -1][1].sample(context)
        (start, before), (end, after) = self.over[later - 1 : later + 1]
        earlier = before.sample(context.clone())
        return _interpolate(
            earlier, after.sample(context), (context.index - start) / (end - start), context
        )

    def compute_extremes(self, lookup: ExtremesLookup) -> Values:
        """Return the extremes of all distributions."""
        return tuple(value for _, part in self.over for value in part.compute_extremes(lookup))


def as_distribution(value: Any) -> Any:
    """Return a plain number, string or boolean as a constant, and other values unchanged."""
    return Constant(value) if isinstance(value, bool | int | float | str) else value


Distribution = Annotated[
    Constant | Uniform | LogUniform | Normal | Curve | Integers | Choice
    | Sum | Product | Power | Clip | Rounded
    | Same | Shared | Given | Each | Column | Quota | Schedule,
    Field(discriminator="kind"),
    BeforeValidator(as_distribution),
]  # fmt: skip


def iterate_parts(distribution: Distribution) -> Iterator[Distribution]:
    """Yield a distribution and all distributions nested in it."""
    yield distribution
    for entry in fields(distribution):
        for part in _iterate_distributions(getattr(distribution, entry.name)):
            yield from iterate_parts(part)


def to_toml(distribution: Distribution) -> str:
    """Return a distribution in recipe syntax, on one line."""
    if isinstance(distribution, Constant):
        return _format_toml(distribution.value)
    return _format_toml(_ADAPTER.dump_python(distribution, exclude_none=True))


_ADAPTER: TypeAdapter[Distribution] = TypeAdapter(Distribution)


def format_case(value: Value) -> str:
    """Return the key of a value in ``given``: ``wood``, ``true``, ``3`` (also for 3.0)."""
    if isinstance(value, bool):
        return str(value).lower()
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if is_whole else str(value)


def _is_categorical(extremes: Values) -> bool:
    """Return whether the extremes of a factor are all its possible values."""
    return all(isinstance(value, bool | str) for value in extremes)


def _select_numbers(extremes: Values) -> list[float]:
    return [value for value in extremes if not isinstance(value, bool | str)]


def _is_possible_case(name: str, extremes: Values) -> bool:
    """Return whether a factor with these extremes can take the value of a case."""
    return name in map(format_case, extremes) or _is_number_within(name, _select_numbers(extremes))


def _is_number_within(name: str, numbers: Sequence[float]) -> bool:
    """Return whether a case is a number in the range of ``numbers`` in canonical form."""
    try:
        value = float(name)
    except ValueError:
        return False
    are_whole = all(isinstance(number, int) for number in numbers)
    is_inside = bool(numbers) and min(numbers) <= value <= max(numbers)
    return is_inside and name == format_case(value) and (value.is_integer() or not are_whole)


def check_shares(kind: str, shares: tuple[int, ...], count: int) -> None:
    """Raise ``ValueError`` if shares do not match the number of strata or are too large.

    Args:
        kind: kind of distribution, for the message.
        shares: scenes of each stratum in a block; empty for 1 each.
        count: number of strata.
    """
    if shares:
        _require(len(shares) == count, f"{kind} has {count} strata but {len(shares)} shares")
        _require(
            min(shares) >= 1 and sum(shares) <= _MAX_BLOCK,
            f"{kind} needs whole shares of 1 or more, {_MAX_BLOCK} in all, not {shares}",
        )


_MAX_BLOCK = 10_000


def _iterate_distributions(value: object) -> Iterator[Any]:
    match value:
        case DistributionBase():
            yield value
        case tuple() | list():
            yield from itertools.chain.from_iterable(map(_iterate_distributions, value))
        case Mapping():
            yield from itertools.chain.from_iterable(map(_iterate_distributions, value.values()))


def _format_toml(value: Any) -> str:
    match value:
        case Mapping():
            if value.get("kind") == "constant":
                return _format_toml(value["value"])
            entries = [
                f"{_format_key(name)} = {_format_toml(inner)}"
                for name, inner in _order_kind_first(value)
            ]
            return f"{{ {', '.join(entries)} }}" if entries else "{}"
        case tuple() | list():
            return f"[{', '.join(map(_format_toml, value))}]"
        case bool() | str():
            return json.dumps(value)
        case _:
            return repr(value)


def _order_kind_first(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    entries = [(name, value) for name, value in table.items() if value != ()]
    return sorted(entries, key=lambda entry: entry[0] != "kind")


def _format_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _interpolate(before: Value, after: Value, share: float, context: SamplingContext) -> Value:
    if isinstance(before, bool | str) or isinstance(after, bool | str):
        return after if context.rng.random() < share else before
    value = before + share * (after - before)
    return round(value) if isinstance(before, int) and isinstance(after, int) else value


def _to_distribution(value: Any) -> Distribution:
    distribution: Distribution = as_distribution(value)
    if not isinstance(distribution, DistributionBase):
        raise TypeError(f"{type(value).__name__} is neither a distribution nor a number")
    return distribution


def _require_numbers(kind: str, values: Any) -> list[float]:
    numbers = list(values)
    for number in numbers:
        _require(not isinstance(number, bool | str), f"{kind} needs numbers, not {number!r}")
    return numbers


def _invert_truncated_normal(low: float, high: float, quantile: float) -> float:
    """Return the quantile of the standard normal distribution truncated to [low, high], low <= 0.

    Far in the lower tail, logarithms keep the precision that the probabilities lose.
    """
    if high < _TAIL_LIMIT:
        above_low = quantile + (1 - quantile) * math.exp(log_ndtr(low) - log_ndtr(high))
        return float(ndtri_exp(log_ndtr(high) + math.log(above_low))) if above_low else low
    below = ndtr(low)
    return float(ndtri(below + quantile * (ndtr(high) - below)))


_TAIL_LIMIT = -37.0  # standard deviations; below, the CDF is a subnormal float


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
