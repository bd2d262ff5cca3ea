"""Coverage and density of one feature set by another (Naeem et al. 2020)."""

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
"""Number of neighbours whose distance is the radius of a neighbourhood."""

_N_RESAMPLES = 400


@dataclass(frozen=True, eq=False)
class Coverage:
    """Coverage of reference images by candidate images (Naeem et al. 2020, "Reliable fidelity and diversity metrics").

    Attributes:
        is_covered: (n,) whether a candidate lies within the distance of the ``N_NEIGHBOURS``-th
            reference neighbour.
        nearest_indices: (n,) index of the nearest candidate.
        coverage: fraction of covered reference images.
        null_mean: expected coverage of two sets from one distribution.
        density: mean number of neighbourhoods around a candidate, over the expected number for one
            distribution.
    """

    is_covered: NDArray[np.bool_]
    nearest_indices: NDArray[np.intp]
    coverage: Estimate
    null_mean: float
    density: Estimate

    def to_json(self) -> dict[str, Any]:
        """Return coverage, null mean and density as JSON values."""
        return {
            **self.coverage.to_json(),
            "null_mean": self.null_mean,
            "density": self.density.to_json(),
        }


def measure_coverage(reference: Floats, candidates: Floats, rng: np.random.Generator) -> Coverage:
    """Return the coverage of reference vectors (n, d) by candidate vectors (m, d).

    Args:
        reference: vectors to cover, e.g. of real images.
        candidates: vectors that cover them, e.g. of renders.

    Raises:
        UsageError: a set is too small.
    """
    if len(reference) <= N_NEIGHBOURS or not len(candidates):
        raise UsageError(
            f"coverage needs more than {N_NEIGHBOURS} reference images and one candidate, got "
            f"{len(reference)} and {len(candidates)}. Add images."
        )
    reference_distances = cdist(reference, reference)
    radii = np.sort(reference_distances, axis=1)[:, N_NEIGHBOURS]  # index 0 is the image itself
    distances = cdist(reference, candidates)
    is_near = distances <= radii[:, None]
    is_covered = is_near.any(axis=1)
    densities = is_near.sum(axis=0) / N_NEIGHBOURS
    return Coverage(
        is_covered,
        distances.argmin(axis=1),
        _bootstrap_mean(is_covered.astype(np.float64), rng),
        compute_null_coverage(len(reference), len(candidates)),
        _bootstrap_mean(densities, rng),
    )


def compute_null_coverage(n: int, m: int) -> float:
    """Return the expected coverage of n images by m images from the same distribution.

    An image is uncovered if its ``N_NEIGHBOURS`` nearest images are all from its own set.
    """
    i = np.arange(N_NEIGHBOURS)
    return float(1 - np.prod((n - 1 - i) / (n + m - 1 - i)))


def _bootstrap_mean(values: Floats, rng: np.random.Generator) -> Estimate:
    resampled = sample_bootstrap_counts(len(values), _N_RESAMPLES, rng) @ values / len(values)
    return bootstrap_estimate(float(values.mean()), resampled)
