"""Sampling probabilities of images that balance rare and frequent objects."""

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
"""Bin of an object: the criterion and its value."""


def compute_image_probabilities(
    samples: Sequence[Sample], balance: Sequence[BalanceCriterion], min_visible: float
) -> NDArray[np.float64]:
    """Return the sampling probability of each image (n,); the sum is 1.

    It is inverse to the number of images that share the image's rarest bin, as the repeat factors of Gupta et
    al. (2019, "LVIS") but without the square root. An image without learned objects has the weight of a bin
    that is in all images.

    Args:
        samples: labelled samples.
        balance: criteria that define the bins of objects.
        min_visible: objects with a lower visible fraction are not learned and do not count.
    """
    bins_by_image = [set(_iter_sample_bins(sample, balance, min_visible)) for sample in samples]
    image_counts = Counter(bin_ for bins in bins_by_image for bin_ in bins)
    rarest = [
        min((image_counts[bin_] for bin_ in bins), default=len(samples)) for bins in bins_by_image
    ]
    weights = 1 / np.array(rarest, np.float64)
    return np.asarray(weights / weights.sum())


def _iter_sample_bins(
    sample: Sample, balance: Sequence[BalanceCriterion], min_visible: float
) -> Iterator[BalanceBin]:
    for label in sample.objects or ():
        visible = label.visible_fraction
        if not label.is_crowd and (visible is None or visible >= min_visible):
            yield from (bin_ for bin_ in _iter_object_bins(label) if bin_[0] in balance)


def _iter_object_bins(label: ObjectLabel) -> Iterator[BalanceBin]:
    x0, y0, x1, y1 = label.box_xyxy
    yield "category", label.category
    yield "size", bisect.bisect_right(SIZE_EDGES_PX, max(x1 - x0, y1 - y0))
    if label.visible_fraction is not None:
        yield "visible", bisect.bisect_right(VISIBILITY_EDGES, label.visible_fraction)
