"""Label-free scores of a detector from its own probabilities, for checkpoint selection."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sim2cam.metrics.unsupervised import SelectionScores, score_probabilities
from sim2cam.models.inference.detections import Prediction


def compute_selection_scores(predictions: Iterable[Prediction]) -> SelectionScores | None:
    """Return label-free selection scores of a detector.

    Returns:
        None if there are hardly any detections, only one category, or a torchvision model.
    """
    probabilities = [
        prediction.category_probabilities
        for prediction in predictions
        if prediction.category_probabilities is not None
    ]
    return score_probabilities(np.concatenate(probabilities)) if probabilities else None
