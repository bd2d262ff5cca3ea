"""Coverage: whether each picture of one set has near neighbours in another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sim2cam.errors import UsageError
from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, sample_bootstrap_counts

Floats = NDArray[np.float64]

N_NEIGHBOURS = 5
"""Neighbours within whose distance another picture is near."""

_N_RESAMPLES = 400


@dataclass(frozen=True, eq=False)
class Coverage:
    """How one set lies around another (Naeem et al. 2020, "Reliable fidelity and diversity metrics").

    Attributes:
        is_covered: (n,) whether any of the other set is as near to a picture as its ``N_NEIGHBOURS``-th
            neighbour in its own set.
        nearest_indices: (n,) which of the other set is nearest.
        coverage: share of pictures that are covered.
        null_mean: that share, on average, if both sets were of one kind.
        density: how many neighbourhoods one of the other set lies in, over what a set of one kind
            has; above 1 where it crowds.
    """

    is_covered: NDArray[np.bool_]
    nearest_indices: NDArray[np.intp]
    coverage: Estimate
    null_mean: float
    density: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return the shares as JSON values."""
        return {
            **self.coverage.to_json(),
            "null_mean": self.null_mean,
            "density": self.density.to_json(),
        }


def measure_coverage(reference: Floats, candidates: Floats, rng: np.random.Generator) -> Coverage:
    """Return how well some vectors (m, d) cover others (n, d).

    Args:
        reference: what is to be covered, as captures are.
        candidates: what should cover it, as renders should.
        rng: resamples pictures.

    Raises:
        UsageError: too few of one have any neighbours.
    """
    if len(reference) <= N_NEIGHBOURS or not len(candidates):
        raise UsageError(
            f"{len(reference)} pictures and {len(candidates)} others have no neighbourhoods: more than "
            f"{N_NEIGHBOURS} and one other are needed. Add pictures."
        )
    within = cdist(reference, reference)
    radii = np.sort(within, axis=1)[:, N_NEIGHBOURS]  # the first is the picture itself
    across = cdist(reference, candidates)
    near = across <= radii[:, None]
    covered = near.any(axis=1)
    crowds = near.sum(axis=0) / N_NEIGHBOURS
    return Coverage(
        covered,
        across.argmin(axis=1),
        _bootstrap_mean(covered.astype(np.float64), rng),
        compute_null_coverage(len(reference), len(candidates)),
        _bootstrap_mean(crowds, rng),
    )


def compute_null_coverage(n: int, m: int) -> float:
    """Return the mean coverage of n pictures by m others of one kind.

    A picture is not covered when its nearest ``N_NEIGHBOURS`` among all are of its own set.
    """
    i = np.arange(N_NEIGHBOURS)
    return float(1 - np.prod((n - 1 - i) / (n + m - 1 - i)))


def _bootstrap_mean(values: Floats, rng: np.random.Generator) -> Estimate:
    resampled = sample_bootstrap_counts(len(values), _N_RESAMPLES, rng) @ values / len(values)
    return bootstrap_estimate(float(values.mean()), resampled)
