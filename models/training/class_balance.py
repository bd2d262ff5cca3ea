"""Chances of pictures to be drawn: what few of them hold comes up as often as what many do."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.metrics.slices import SIZE_EDGES_PX, VISIBILITY_EDGES
from sim2cam.models.training.config import BalanceCriterion

BalanceBin = tuple[BalanceCriterion, str | int]
"""What an object has in common with others, and in which respect."""


def compute_image_probabilities(
    samples: Sequence[Sample], balance: Sequence[BalanceCriterion], min_visible: float
) -> NDArray[np.float64]:
    """Return the chance of each picture to be drawn (n,); they sum to 1.

    It is inverse to the number of pictures that hold what is rarest in this one, like the repeat factors of
    Gupta et al. (2019, "LVIS"), but without their root, so that pictures of one object each come up
    evenly. A picture in which nothing is learned counts as one that holds what all do.

    Args:
        samples: labelled.
        balance: by what objects are told apart.
        min_visible: objects less visible than this are not learned, so they do not count.
    """
    held = [set(_iter_sample_bins(sample, balance, min_visible)) for sample in samples]
    pictures = Counter(one for bins in held for one in bins)
    rarest = [min((pictures[one] for one in bins), default=len(samples)) for bins in held]
    weights = 1 / np.array(rarest, np.float64)
    return np.asarray(weights / weights.sum())


def _iter_sample_bins(
    sample: Sample, balance: Sequence[BalanceCriterion], min_visible: float
) -> Iterator[BalanceBin]:
    for label in sample.objects or ():
        visible = label.visible_fraction
        if not label.is_crowd and (visible is None or visible >= min_visible):
            yield from (one for one in _iter_object_bins(label) if one[0] in balance)


def _iter_object_bins(label: ObjectLabel) -> Iterator[BalanceBin]:
    x0, y0, x1, y1 = label.box_xyxy
    yield "category", label.category
    yield "size", bisect.bisect_right(SIZE_EDGES_PX, max(x1 - x0, y1 - y0))
    if label.visible_fraction is not None:
        yield "visible", bisect.bisect_right(VISIBILITY_EDGES, label.visible_fraction)
