"""Real equivalents: how many labelled photos train as well as data without a real label."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import CONFIDENCE, difference, holm
from sim2cam.metrics.power import SIGNIFICANCE

Floats = NDArray[np.float64]

_ROUNDING = 1e-9


@dataclass(frozen=True)
class RealEquivalent:
    """How many labelled photos score as high.

    Attributes:
        photos: the fewest that do; 0 for fewer than were measured, infinite for more.
        ci95: lower and upper end of the 95 % interval, likewise.
        measured: the fewest and the most photos of the learning curve.
        falls: neighbours on the curve of which more photos score lower, more than chance explains.
    """

    photos: float
    ci95: tuple[float, float]
    measured: tuple[int, int]
    falls: tuple[tuple[int, int], ...] = ()

    def words(self) -> str:
        """Returns it as people say it: ``worth 40 [25, > 200] real photos``."""
        low, high = (self._end(end) for end in self.ci95)
        if self.photos == 0:
            value = f"fewer than {self.measured[0]}"
        elif math.isinf(self.photos):
            value = f"more than {self.measured[1]}"
        else:
            value = f"{self.photos:.0f}"
        doubt = " and ".join(f"from {few} to {more} photos" for few, more in self.falls)
        rest = f"; the curve is not monotone, it falls {doubt}: do not rely on it" if doubt else ""
        return f"worth {value} [{low}, {high}] real photos{rest}"

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values: 0 for fewer than measured, null for more."""
        photos, low, high = (
            None if math.isinf(number) else number for number in (self.photos, *self.ci95)
        )
        return {
            "photos": photos,
            "ci95": [low, high],
            "measured": list(self.measured),
            "falls": [list(pair) for pair in self.falls],
            "words": self.words(),
        }

    def _end(self, end: float) -> str:
        if end == 0:
            return f"< {self.measured[0]}"
        return f"> {self.measured[1]}" if math.isinf(end) else f"{end:.0f}"


def real_equivalent(photos: Sequence[int], curve: Floats, score: Floats) -> RealEquivalent:
    """Returns how many photos score as high as something else does.

    Between measured numbers of photos the curve is a straight line over their logarithm, after
    isotonic regression: the nearest curve that never falls (Barlow and others, Statistical inference
    under order restrictions, 1972). A power law would say more than was measured: learning curves often
    are not one (Viering and Loog, The shape of learning curves, 2023), and it would go on where nothing
    was measured.

    Args:
        photos: numbers of them, 2 or more, rising.
        curve: scores of training on each (k, 1 + draws): of all images, then of resamples.
        score: of what is compared (1 + draws,), of the same resamples; those without a score are
            left out.
    """
    known = np.isfinite(curve).all(axis=0) & np.isfinite(score)
    curve, score = curve[:, known], score[known]
    found = _first_reached(np.asarray(photos, np.float64), never_falling(curve), score)
    ends = [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]
    low, high = np.quantile(found[1:], ends, method="inverted_cdf")  # ends may be infinite
    return RealEquivalent(
        float(found[0]),
        (float(low), float(high)),
        (photos[0], photos[-1]),
        _falls(photos, curve),
    )


def never_falling(curve: Floats) -> Floats:
    """Returns the nearest curves (k, n), in least squares, that never fall along the first axis.

    It is the greatest mean that begins at or before a point, of the least ones that end at or after
    it (the max-min formula of isotonic regression).
    """
    k = len(curve)
    sums = np.concatenate([np.zeros_like(curve[:1]), np.cumsum(curve, axis=0)])
    found = np.full_like(curve, -np.inf)
    for start in range(k):
        counts = np.arange(1, k - start + 1)[:, None]
        means = (sums[start + 1 :] - sums[start]) / counts  # that end at start, start + 1, ...
        least = np.minimum.accumulate(means[::-1], axis=0)[::-1]
        found[start:] = np.maximum(found[start:], least)
    return found


def _first_reached(photos: Floats, curve: Floats, score: Floats) -> Floats:
    """Returns the fewest photos (n,) with which curves (k, n) that never fall reach scores (n,)."""
    reached = curve >= score - _ROUNDING  # detectors without an error are all equal
    last = len(photos) - 1
    after = np.where(reached.any(axis=0), reached.argmax(axis=0), last)
    before = np.maximum(after - 1, 0)
    columns = np.arange(len(score))
    low, high = curve[before, columns], curve[after, columns]
    step = np.where(high > low, high - low, 1.0)
    share = np.where(high > low, (score - low) / step, 1.0).clip(0, 1)
    logs = np.log(photos)
    found = np.exp(logs[before] + share * (logs[after] - logs[before]))
    found = np.where(curve[0] > score + _ROUNDING, 0.0, found)
    return np.asarray(np.where(reached.any(axis=0), found, np.inf))


def _falls(photos: Sequence[int], curve: Floats) -> tuple[tuple[int, int], ...]:
    """Returns the neighbours of which the second scores lower, as sure as Holm's correction asks."""
    steps = [
        difference(float(more[0]), float(few[0]), more[1:], few[1:])
        for few, more in itertools.pairwise(curve)
    ]
    p_values = holm([step.p_value for step in steps])
    return tuple(
        (photos[i], photos[i + 1])
        for i, (step, p) in enumerate(zip(steps, p_values, strict=True))
        if step.value < 0 and p < SIGNIFICANCE
    )
