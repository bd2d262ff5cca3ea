"""Coverage: whether each picture of one set has near neighbours in another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sim2cam.errors import UsageError
from sim2cam.metrics.bootstrap import Estimate, estimate, resampled_counts

Floats = NDArray[np.float64]

NEIGHBOURS = 5
"""Neighbours within whose distance another picture is near."""

_RESAMPLES = 400


@dataclass(frozen=True, eq=False)
class Coverage:
    """How one set lies around another (Naeem et al. 2020, "Reliable fidelity and diversity metrics").

    Attributes:
        covered: (n,) whether any of the other set is as near to a picture as its ``NEIGHBOURS``-th
            neighbour in its own set.
        nearest: (n,) which of the other set is nearest.
        coverage: share of pictures that are covered.
        alike: that share, on average, if both sets were of one kind.
        density: how many neighbourhoods one of the other set lies in, over what a set of one kind
            has; above 1 where it crowds.
    """

    covered: NDArray[np.bool_]
    nearest: NDArray[np.intp]
    coverage: Estimate
    alike: float
    density: Estimate

    def to_json(self) -> dict[str, Any]:
        """Returns the shares as JSON values."""
        return {
            **self.coverage.to_json(),
            "alike": self.alike,
            "density": self.density.to_json(),
        }


def coverage_of(wanted: Floats, others: Floats, rng: np.random.Generator) -> Coverage:
    """Returns how well some vectors (m, d) cover others (n, d).

    Args:
        wanted: what is to be covered, as captures are.
        others: what should cover it, as renders should.
        rng: resamples pictures.

    Raises:
        UsageError: too few of one have any neighbours.
    """
    if len(wanted) <= NEIGHBOURS or not len(others):
        raise UsageError(
            f"{len(wanted)} pictures and {len(others)} others have no neighbourhoods: more than "
            f"{NEIGHBOURS} and one other are needed. Add pictures."
        )
    within = cdist(wanted, wanted)
    radii = np.sort(within, axis=1)[:, NEIGHBOURS]  # the first is the picture itself
    across = cdist(wanted, others)
    near = across <= radii[:, None]
    covered = near.any(axis=1)
    crowds = near.sum(axis=0) / NEIGHBOURS
    return Coverage(
        covered,
        across.argmin(axis=1),
        _mean(covered.astype(np.float64), rng),
        expected_coverage(len(wanted), len(others)),
        _mean(crowds, rng),
    )


def expected_coverage(n: int, m: int) -> float:
    """Returns the mean coverage of n pictures by m others of one kind.

    A picture is not covered when its nearest ``NEIGHBOURS`` among all are of its own set.
    """
    i = np.arange(NEIGHBOURS)
    return float(1 - np.prod((n - 1 - i) / (n + m - 1 - i)))


def _mean(values: Floats, rng: np.random.Generator) -> Estimate:
    resampled = resampled_counts(len(values), _RESAMPLES, rng) @ values / len(values)
    return estimate(float(values.mean()), resampled)
