"""Detection outcomes of objects by attribute (slices), e.g. by size or visibility."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, bootstrap_estimate, fields_to_json
from sim2cam.metrics.error_analysis import DetectionOutcome
from sim2cam.metrics.resampling import N_RESAMPLES, ResamplingUnits

SIZE_EDGES_PX = (16, 32, 64, 128, 256)
"""Edges of size bins: longer side of the box."""

VISIBILITY_EDGES = (0.5, 0.8, 0.99)
"""Edges of bins of the visible fraction."""


class AttributeValue(NamedTuple):
    """Value of an attribute: rank for sorting, and name."""

    rank: float
    name: str


@dataclass(frozen=True)
class EvaluatedObject:
    """Labelled object with its outcome and attributes."""

    image_index: int
    outcome: DetectionOutcome
    attributes: Mapping[str, AttributeValue]


@dataclass(frozen=True)
class Slice:
    """Outcomes of the objects with one attribute value.

    Attributes:
        recall: fraction detected with the correct category, with its 95 % interval.
        confusion_rate, localisation_rate, miss_rate: fractions of the other outcomes.
    """

    attribute: str
    value: str
    objects: int
    recall: Estimate
    confusion_rate: float
    localisation_rate: float
    miss_rate: float

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return fields_to_json(self)


def compute_slices(
    objects: Sequence[EvaluatedObject], units: ResamplingUnits, rng: np.random.Generator
) -> list[Slice]:
    """Return a slice for each value of each attribute with several values, in order."""
    counts = units.sample_image_counts(N_RESAMPLES, rng)
    slices = []
    for attribute in dict.fromkeys(attribute for o in objects for attribute in o.attributes):
        values = sorted({o.attributes[attribute] for o in objects if attribute in o.attributes})
        for value in values if len(values) > 1 else ():
            members = [o for o in objects if o.attributes.get(attribute) == value]
            slices.append(_compute_slice(attribute, value.name, members, counts))
    return slices


def _compute_slice(
    attribute: str, value: str, objects: Sequence[EvaluatedObject], counts: NDArray[np.int64]
) -> Slice:
    object_counts, true_positives = np.zeros((2, counts.shape[1]))
    kinds = [o.outcome.kind for o in objects]
    for o in objects:
        object_counts[o.image_index] += 1
        true_positives[o.image_index] += o.outcome.kind == "true positive"
    with np.errstate(invalid="ignore"):
        # NaN without objects in the resample
        resampled = (counts @ true_positives) / (counts @ object_counts)
    return Slice(
        attribute,
        value,
        len(objects),
        bootstrap_estimate(kinds.count("true positive") / len(objects), resampled),
        kinds.count("confusion") / len(objects),
        kinds.count("localisation") / len(objects),
        kinds.count("missed") / len(objects),
    )
