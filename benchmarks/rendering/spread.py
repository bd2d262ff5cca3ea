"""Statistics of repeated measurements."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Statistics of repeated measurements.

    Attributes:
        value: median.
        p10, p90: 10th and 90th percentile.
        mean: mean, which is additive over steps.
        n: number of measurements.
    """

    value: float
    p10: float
    p90: float
    mean: float
    n: int


def compute_spread(values: Sequence[float]) -> Spread:
    """Return the statistics of repeated measurements.

    Raises:
        ValueError: there are no measurements.
    """
    if not values:
        raise ValueError("There are no measurements.")
    low, median, high = (float(v) for v in np.percentile(values, [10, 50, 90]))
    return Spread(median, low, high, float(np.mean(values)), len(values))


class Clock:
    """CPU and wall milliseconds of named steps, one entry per execution."""

    def __init__(self) -> None:
        self.cpu_ms: dict[str, list[float]] = defaultdict(list)
        self.wall_ms: dict[str, list[float]] = defaultdict(list)

    @contextmanager
    def __call__(self, step: str) -> Iterator[None]:
        """Measure the enclosed block as one entry of the step."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.cpu_ms[step].append(1e3 * (time.process_time() - cpu))
        self.wall_ms[step].append(1e3 * (time.perf_counter() - wall))
