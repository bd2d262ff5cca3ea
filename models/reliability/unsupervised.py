"""What a detector's own probabilities tell of it, without labels: scores by which detectors may be chosen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sim2cam.metrics.unsupervised import SelectionScores, score_probabilities
from sim2cam.models.inference.detections import Prediction


def compute_selection_scores(predictions: Iterable[Prediction]) -> SelectionScores | None:
    """Return the scores of what a detector says of images, of which no labels are needed.

    Returns:
        None where it found next to nothing, knows one category, or is a model of torchvision.
    """
    votes = [
        one.category_probabilities for one in predictions if one.category_probabilities is not None
    ]
    return score_probabilities(np.concatenate(votes)) if votes else None
