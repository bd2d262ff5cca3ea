"""Where a detector fails: how many objects it gets right, by what they have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim2cam.metrics.bootstrap import Estimate, estimate
from sim2cam.metrics.error_analysis import Verdict
from sim2cam.metrics.resampling import Units

DRAWS = 1000

SIDES_PX = (16, 32, 64, 128, 256)
"""Edges between sizes: of the longer side of a box."""

VISIBLE = (0.5, 0.8, 0.99)
"""Edges between visible fractions."""


class Trait(NamedTuple):
    """What an object is like in one respect: its place in an order, and its name."""

    rank: float
    name: str


@dataclass(frozen=True)
class Judged:
    """A labelled object, what became of it, and what it is like.

    Attributes:
        image: number of the image, from 0.
        verdict: on it.
        traits: by what they are about; what is not known of it is left out.
    """

    image: int
    verdict: Verdict
    traits: Mapping[str, Trait]


@dataclass(frozen=True)
class Slice:
    """How the objects of one trait fare.

    Attributes:
        about: what they are told apart by, as ``size``.
        value: what they have in common, as ``16 to 32 px``.
        objects: how many there are.
        right: share that was found with its category, with its 95 % interval.
        wrong_category, misplaced, missed: shares of the others.
    """

    about: str
    value: str
    objects: int
    right: Estimate
    wrong_category: float
    misplaced: float
    missed: float

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        return {
            "about": self.about,
            "value": self.value,
            "objects": self.objects,
            "right": self.right.to_json(),
            "wrong_category": self.wrong_category,
            "misplaced": self.misplaced,
            "missed": self.missed,
        }


def slices_of(judged: Sequence[Judged], units: Units, rng: np.random.Generator) -> list[Slice]:
    """Returns a slice for each value of each trait in which objects differ, in order.

    Args:
        judged: all objects.
        units: of all images.
        rng: draws the resamples.
    """
    counts = units.resampled(DRAWS, rng)
    found = []
    for about in dict.fromkeys(about for one in judged for about in one.traits):
        values = sorted({one.traits[about] for one in judged if about in one.traits})
        for value in values if len(values) > 1 else ():
            alike = [one for one in judged if one.traits.get(about) == value]
            found.append(_slice(about, value.name, alike, counts))
    return found


def _slice(about: str, value: str, alike: Sequence[Judged], counts: NDArray[np.int64]) -> Slice:
    totals, rights = np.zeros((2, counts.shape[1]))
    kinds = [one.verdict.kind for one in alike]
    for one in alike:
        totals[one.image] += 1
        rights[one.image] += one.verdict.kind == "right"
    with np.errstate(invalid="ignore"):
        resampled = (counts @ rights) / (counts @ totals)  # NaN where none of them was drawn
    return Slice(
        about,
        value,
        len(alike),
        estimate(kinds.count("right") / len(alike), resampled),
        kinds.count("wrong category") / len(alike),
        kinds.count("poorly placed") / len(alike),
        kinds.count("missed") / len(alike),
    )
