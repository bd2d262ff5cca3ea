"""What a detector's own probabilities tell of it, without labels: scores by which detectors may be chosen."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.measure.selection import SelectionScores, selection_scores
from sim2cam.models.detector import Maps, is_peak
from sim2cam.models.seen import Prediction

SURE_HEAT = 0.5
"""Probability of an object's centre from which on a place counts, whatever lies there."""


def selection_of(seen: Iterable[Prediction]) -> SelectionScores | None:
    """Returns the scores of what a detector says of images, of which no labels are needed.

    Returns:
        None where it found next to nothing, knows one category, or is a model of torchvision.
    """
    votes = [one.votes for one in seen if one.votes is not None]
    return selection_scores(np.concatenate(votes)) if votes else None


def category_probabilities(maps: Maps) -> NDArray[np.float64]:
    """Returns the probabilities (n, c) of categories at the sure peaks of one image."""
    heat = maps.heat[0].float().sigmoid()
    is_object = is_peak(heat) & (heat >= SURE_HEAT)
    probabilities: torch.Tensor = maps.classes[0].float().softmax(0)[:, is_object].T
    return probabilities.double().cpu().numpy()
