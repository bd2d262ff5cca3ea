"""What a detector's own probabilities tell of it, without labels: scores by which detectors may be chosen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sim2cam.metrics.unsupervised import SelectionScores, selection_scores
from sim2cam.models.inference.detections import Prediction


def selection_of(seen: Iterable[Prediction]) -> SelectionScores | None:
    """Returns the scores of what a detector says of images, of which no labels are needed.

    Returns:
        None where it found next to nothing, knows one category, or is a model of torchvision.
    """
    votes = [one.votes for one in seen if one.votes is not None]
    return selection_scores(np.concatenate(votes)) if votes else None
