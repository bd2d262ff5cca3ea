"""Distributions as values: what a factor may be, written in a recipe and drawn by a generator."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scipy.stats import truncnorm

Value = float | int | str | bool


@dataclass(frozen=True)
class Constant:
    """Always the same value."""

    value: Value
    kind: Literal["constant"] = "constant"

    def draw(self, rng: np.random.Generator) -> Value:
        """Returns the value."""
        return self.value


@dataclass(frozen=True)
class Uniform:
    """Every number from low to high alike."""

    low: float
    high: float
    kind: Literal["uniform"] = "uniform"

    def __post_init__(self) -> None:
        _require(self.low <= self.high, f"uniform needs low <= high, not {self.low} > {self.high}")

    def draw(self, rng: np.random.Generator) -> float:
        """Returns a number in [low, high)."""
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True)
class LogUniform:
    """Every ratio alike, from low to high, both above 0."""

    low: float
    high: float
    kind: Literal["log_uniform"] = "log_uniform"

    def __post_init__(self) -> None:
        _require(
            0 < self.low <= self.high,
            f"log_uniform needs 0 < low <= high, not {self.low}, {self.high}",
        )

    def draw(self, rng: np.random.Generator) -> float:
        """Returns a number in [low, high)."""
        return float(math.exp(rng.uniform(math.log(self.low), math.log(self.high))))


@dataclass(frozen=True)
class Normal:
    """A normal distribution cut off at low and high."""

    mean: float
    std: float
    low: float
    high: float
    kind: Literal["normal"] = "normal"

    def __post_init__(self) -> None:
        _require(self.std > 0, f"normal needs std > 0, not {self.std}")
        _require(self.low < self.high, f"normal needs low < high, not {self.low} >= {self.high}")

    def draw(self, rng: np.random.Generator) -> float:
        """Returns a number in [low, high]."""
        low, high = (self.low - self.mean) / self.std, (self.high - self.mean) / self.std
        return float(truncnorm.rvs(low, high, self.mean, self.std, random_state=rng))


@dataclass(frozen=True)
class Integers:
    """Every whole number from low to high, both included, alike."""

    low: int
    high: int
    kind: Literal["integers"] = "integers"

    def __post_init__(self) -> None:
        _require(self.low <= self.high, f"integers needs low <= high, not {self.low} > {self.high}")

    def draw(self, rng: np.random.Generator) -> int:
        """Returns a whole number in [low, high]."""
        return int(rng.integers(self.low, self.high, endpoint=True))


@dataclass(frozen=True)
class Choice:
    """One of several values, by weight; without weights all alike."""

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

    def draw(self, rng: np.random.Generator) -> Value:
        """Returns one of the options."""
        if not self.weights:
            return self.options[int(rng.integers(len(self.options)))]
        shares = np.cumsum(self.weights) / sum(self.weights)
        return self.options[int(np.searchsorted(shares, rng.random(), side="right"))]


Distribution = Annotated[
    Constant | Uniform | LogUniform | Normal | Integers | Choice, Field(discriminator="kind")
]


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ValueError(problem)
