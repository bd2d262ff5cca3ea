"""Where a detector fails: how many objects it gets right, by what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate
from sim2cam.metrics.error_analysis import DetectionOutcome
from sim2cam.metrics.resampling import ResamplingUnits

N_RESAMPLES = 1000

SIZE_EDGES_PX = (16, 32, 64, 128, 256)
"""Edges between sizes: of the longer side of a box."""

VISIBILITY_EDGES = (0.5, 0.8, 0.99)
"""Edges between visible fractions."""


class AttributeValue(NamedTuple):
    """What an object is like in one respect: its place in an order, and its name."""

    rank: float
    name: str


@dataclass(frozen=True)
class EvaluatedObject:
    """A labelled object, what became of it, and what it is like.

    Attributes:
        image_index: number of the image, from 0.
        outcome: on it.
        attributes: by what they are about; what is not known of it is left out.
    """

    image_index: int
    outcome: DetectionOutcome
    attributes: Mapping[str, AttributeValue]


@dataclass(frozen=True)
class Slice:
    """How the objects of one trait fare.

    Attributes:
        attribute: what they are told apart by, as ``size``.
        value: what they have in common, as ``16 to 32 px``.
        objects: how many there are.
        recall: share that was found with its category, with its 95 % interval.
        confusion_rate, localisation_rate, miss_rate: shares of the others.
    """

    attribute: str
    value: str
    objects: int
    recall: Estimate
    confusion_rate: float
    localisation_rate: float
    miss_rate: float

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return {
            "attribute": self.attribute,
            "value": self.value,
            "objects": self.objects,
            "recall": self.recall.to_json(),
            "confusion_rate": self.confusion_rate,
            "localisation_rate": self.localisation_rate,
            "miss_rate": self.miss_rate,
        }


def compute_slices(
    objects: Sequence[EvaluatedObject], units: ResamplingUnits, rng: np.random.Generator
) -> list[Slice]:
    """Return a slice for each value of each trait in which objects differ, in order.

    Args:
        objects: all objects.
        units: of all images.
        rng: draws the resamples.
    """
    counts = units.sample_image_counts(N_RESAMPLES, rng)
    found = []
    for about in dict.fromkeys(about for one in objects for about in one.attributes):
        values = sorted({one.attributes[about] for one in objects if about in one.attributes})
        for value in values if len(values) > 1 else ():
            alike = [one for one in objects if one.attributes.get(about) == value]
            found.append(_compute_slice(about, value.name, alike, counts))
    return found


def _compute_slice(
    attribute: str, value: str, objects: Sequence[EvaluatedObject], counts: NDArray[np.int64]
) -> Slice:
    totals, rights = np.zeros((2, counts.shape[1]))
    kinds = [one.outcome.kind for one in objects]
    for one in objects:
        totals[one.image_index] += 1
        rights[one.image_index] += one.outcome.kind == "true positive"
    with np.errstate(invalid="ignore"):
        resampled = (counts @ rights) / (counts @ totals)  # NaN where none of them was drawn
    return Slice(
        attribute,
        value,
        len(objects),
        bootstrap_estimate(kinds.count("true positive") / len(objects), resampled),
        kinds.count("confusion") / len(objects),
        kinds.count("localisation") / len(objects),
        kinds.count("missed") / len(objects),
    )
