"""What predictions without labels tell of a model: scores by which models can be chosen."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, softmax

_TEMPERATURE = 0.05  # of similarities, as published
_CHUNK_ROWS = 1000  # of similarities in memory at once

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SelectionScores:
    """What the probabilities of categories tell of a model on captures without labels.

    None of them sees whether a detection is right: they rank models of one kind, and can be wrong.

    Attributes:
        n_detections: that they are of.
        entropy: mean entropy of a detection's probabilities, 0 to 1 of what is possible; lower is
            surer.
        diversity: entropy of the mean probabilities, 0 to 1 of what is possible; 0 where all is
            called the same.
        neighbourhood_density: soft neighbourhood density (Saito and others 2021, "Tune it the right way"), nats:
            entropy of how alike detections are; higher where they lie in dense groups.
    """

    n_detections: int
    entropy: float
    diversity: float
    neighbourhood_density: float

    def to_json(self) -> dict[str, Any]:
        """Return the scores as JSON values."""
        return asdict(self)


def score_probabilities(probabilities: Floats) -> SelectionScores | None:
    """Return the scores of detections' probabilities (n, c) of categories, which add up to 1.

    Returns:
        None with fewer than two detections, or two categories.
    """
    n, categories = probabilities.shape
    if n < 2 or categories < 2:
        return None
    most = np.log(categories)
    return SelectionScores(
        n,
        float(entr(probabilities).sum(axis=1).mean() / most),
        float(entr(probabilities.mean(axis=0)).sum() / most),
        _compute_neighbourhood_density(probabilities),
    )


def _compute_neighbourhood_density(probabilities: Floats) -> float:
    unit = probabilities / np.linalg.norm(probabilities, axis=1, keepdims=True)
    total = 0.0
    for start in range(0, len(unit), _CHUNK_ROWS):
        likeness = unit[start : start + _CHUNK_ROWS] @ unit.T / _TEMPERATURE
        rows = np.arange(len(likeness))
        likeness[rows, start + rows] = -np.inf  # nothing is its own neighbour
        total += float(entr(softmax(likeness, axis=1)).sum())
    return total / len(unit)
