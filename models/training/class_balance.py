"""Chances of pictures to be drawn: what few of them hold comes up as often as what many do."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sim2cam.data.sample import ObjectLabel, Sample
from sim2cam.metrics.slices import SIDES_PX, VISIBLE
from sim2cam.models.training.config import Balance

Bin = tuple[Balance, str | int]
"""What an object has in common with others, and in which respect."""


def picture_chances(
    samples: Sequence[Sample], balance: Sequence[Balance], min_visible: float
) -> NDArray[np.float64]:
    """Returns the chance of each picture to be drawn (n,); they sum to 1.

    It is inverse to the number of pictures that hold what is rarest in this one, like the repeat factors of
    Gupta et al. (2019, "LVIS"), but without their root, so that pictures of one object each come up
    evenly. A picture in which nothing is learned counts as one that holds what all do.

    Args:
        samples: labelled.
        balance: by what objects are told apart.
        min_visible: objects less visible than this are not learned, so they do not count.
    """
    held = [set(_bins_in(sample, balance, min_visible)) for sample in samples]
    pictures = Counter(one for bins in held for one in bins)
    rarest = [min((pictures[one] for one in bins), default=len(samples)) for bins in held]
    weights = 1 / np.array(rarest, np.float64)
    return np.asarray(weights / weights.sum())


def _bins_in(sample: Sample, balance: Sequence[Balance], min_visible: float) -> Iterator[Bin]:
    for label in sample.objects or ():
        visible = label.visible_fraction
        if not label.is_crowd and (visible is None or visible >= min_visible):
            yield from (one for one in _bins_of(label) if one[0] in balance)


def _bins_of(label: ObjectLabel) -> Iterator[Bin]:
    x0, y0, x1, y1 = label.box_xyxy
    yield "category", label.category
    yield "size", bisect.bisect_right(SIDES_PX, max(x1 - x0, y1 - y0))
    if label.visible_fraction is not None:
        yield "visible", bisect.bisect_right(VISIBLE, label.visible_fraction)
