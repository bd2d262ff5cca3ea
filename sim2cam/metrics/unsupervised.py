"""Model selection scores from predictions on unlabelled images."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, softmax

_TEMPERATURE = 0.05  # of similarities, as in the paper
_CHUNK_ROWS = 1000  # of the similarity matrix in memory at once

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SelectionScores:
    """Model selection scores from category probabilities on unlabelled images.

    They do not use the correctness of detections: they rank models of one kind, and can be wrong.

    Attributes:
        entropy: mean entropy of a detection's probabilities over its maximum, 0 to 1; lower is more
            confident.
        diversity: entropy of the mean probabilities over its maximum, 0 to 1; 0 if all detections
            have one category.
        neighbourhood_density: soft neighbourhood density (Saito et al. 2021, "Tune it the right
            way"), nats: entropy of similarities between detections; higher for dense clusters.
    """

    n_detections: int
    entropy: float
    diversity: float
    neighbourhood_density: float

    def to_json(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return asdict(self)


def score_probabilities(probabilities: Floats) -> SelectionScores | None:
    """Return the selection scores of category probabilities (n, c), which sum to 1.

    Returns:
        None with fewer than two detections or categories.
    """
    n, n_categories = probabilities.shape
    if n < 2 or n_categories < 2:
        return None
    max_entropy = np.log(n_categories)
    return SelectionScores(
        n,
        float(entr(probabilities).sum(axis=1).mean() / max_entropy),
        float(entr(probabilities.mean(axis=0)).sum() / max_entropy),
        _compute_neighbourhood_density(probabilities),
    )


def _compute_neighbourhood_density(probabilities: Floats) -> float:
    unit = probabilities / np.linalg.norm(probabilities, axis=1, keepdims=True)
    total = 0.0
    for start in range(0, len(unit), _CHUNK_ROWS):
        similarities = unit[start : start + _CHUNK_ROWS] @ unit.T / _TEMPERATURE
        rows = np.arange(len(similarities))
        similarities[rows, start + rows] = -np.inf  # no detection is its own neighbour
        total += float(entr(softmax(similarities, axis=1)).sum())
    return total / len(unit)
