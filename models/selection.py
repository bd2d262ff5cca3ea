"""What a detector says of captures without labels, by which detectors may be chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.dataset.sample import Dataset
from sim2cam.images import read_rgb
from sim2cam.measure.selection import SelectionScores, selection_scores
from sim2cam.models.detector import Maps, is_peak
from sim2cam.models.prediction import AnyDetector, novelty_of, own_detector, strangeness_of
from sim2cam.models.pyramid import pyramid
from sim2cam.models.tiles import maps_of

SURE_HEAT = 0.5
"""Probability of an object's centre from which on a place counts, whatever lies there."""


@dataclass(frozen=True)
class WithoutLabels:
    """What a detector says of captures without labels.

    Attributes:
        selection: scores of its probabilities of categories; None where it found next to nothing.
        novelty: of each image, by its name, as ``Prediction`` has it; empty where not measured.
    """

    selection: SelectionScores | None
    novelty: dict[str, float]


def look_without_labels(
    detector: AnyDetector,
    captures: Dataset,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> WithoutLabels:
    """Returns what a detector says of captures, of which no labels are needed.

    Args:
        detector: from ``load_detector``.
        captures: at least one image; labels are not looked at.
        progress: is told how many images of how many are done.

    Raises:
        InputError: an image cannot be read.
        UsageError: it is a model of torchvision.
    """
    own = own_detector(detector, "scores without labels")
    votes, novelty = [], {}
    for done, sample in enumerate(captures.samples, 1):
        rgb = read_rgb(sample.rgb)
        levels = pyramid(own.card.magnification, own.card.sizes_px, max(rgb.shape[:2]))
        seen = [maps_of(own.folded, rgb, level.scale) for level in levels]
        maps, features = seen[0]
        votes.append(category_probabilities(maps))
        away = novelty_of(own.card, strangeness_of(own, features, [maps.heat for maps, _ in seen]))
        if away is not None:
            novelty[sample.name] = away
        if progress is not None:
            progress(done, len(captures.samples))
    return WithoutLabels(selection_scores(np.concatenate(votes)), novelty)


def category_probabilities(maps: Maps) -> NDArray[np.float64]:
    """Returns the probabilities (n, c) of categories at the sure peaks of one image."""
    heat = maps.heat[0].float().sigmoid()
    is_object = is_peak(heat) & (heat >= SURE_HEAT)
    probabilities: torch.Tensor = maps.classes[0].float().softmax(0)[:, is_object].T
    return probabilities.double().cpu().numpy()
