"""Which transfer without a network comes nearest to captures, told by looks and no label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim2cam.adapt.store import PlainMethod
from sim2cam.adapt.transfers.transfer import Transfer
from sim2cam.adapt.translation import Jury, numbered, translate_all
from sim2cam.data.sample import Dataset, Sample
from sim2cam.images import read_rgb
from sim2cam.metrics.image_statistics import look
from sim2cam.metrics.two_sample import LEAST_PICTURES, scale_of, sliced_value
from sim2cam.seeds import stream

MOST_RENDERS = 40
"""That are translated to tell; the others of a data set are of the same kind."""
LEAST_KEPT = 0.5
"""Share of the translations that have to keep to every limit: of a few that do, the look is not the method's."""


@dataclass(frozen=True)
class Tried:
    """What a transfer did to renders.

    Attributes:
        method: its name.
        kept: translations that keep to every limit of the certificate.
        distance: of their looks from those of the captures, the sliced Wasserstein distance in standard
            deviations; None where fewer than ``LEAST_PICTURES`` or ``LEAST_KEPT`` of them are kept.
    """

    method: PlainMethod
    kept: int
    distance: float | None


@dataclass(frozen=True)
class Choice:
    """The transfer that is taken, and what it was chosen by.

    Attributes:
        part: of the captures, whose looks the translations were held against.
        captures, renders: how many there were of each.
        tried: all transfers.
    """

    part: str
    captures: int
    renders: int
    tried: tuple[Tried, ...]

    @property
    def method(self) -> PlainMethod | None:
        """The nearest; None where of none enough translations are kept."""
        told = [(one.distance, one.method) for one in self.tried if one.distance is not None]
        return min(told)[1] if told else None

    def words(self) -> str:
        """Returns which transfer is taken and why, or why none is."""
        if self.method is None:
            return (
                f"no transfer is chosen: none keeps half of the translations of {self.renders} renders, and "
                f"{LEAST_PICTURES}, within the certificate's limits"
            )
        far = ", ".join(
            f"{t.method} {t.distance:.3f}" for t in self.tried if t.distance is not None
        )
        return (
            f"The best transfer is {self.method}: its translations of {self.renders} renders look most like "
            f"the {self.captures} {self.part} captures. Distances: {far}. No label was read."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns all of it as JSON values."""
        return asdict(self)


def choose_transfer(
    transfers: Mapping[PlainMethod, Transfer],
    renders: Dataset,
    captures: Sequence[Sample],
    part: str,
    *,
    jury: Jury,
    seed: int,
) -> Choice:
    """Returns the transfer whose translations look most like captures; the same renders, draws and
    directions for each.

    Args:
        transfers: by their names.
        renders: what is translated; of more than ``MOST_RENDERS`` the first.
        captures: at least ``LEAST_PICTURES``.
        part: what these are called.
        jury: what translations have to pass.
        seed: of the draws.

    Raises:
        InputError: a picture cannot be read.
        UsageError: fewer captures, or pictures too small to have a look.
    """
    some = numbered(renders.take(MOST_RENDERS).samples)
    wanted = np.array([look(read_rgb(sample.rgb)) for sample in captures])
    scale = scale_of(wanted, np.array([look(read_rgb(one.sample.rgb)) for one in some]))
    tried = []
    for method, transfer in transfers.items():
        looks = [
            look(made.pair.after)
            for made in translate_all(transfer, some, seed, "adapt", jury)
            if not made.certificate.failed
        ]
        distance = None
        if len(looks) >= max(LEAST_PICTURES, LEAST_KEPT * len(some)):
            rng = stream(seed, "adapt/directions")
            distance = sliced_value(scale.of(wanted), scale.of(np.array(looks)), rng)
        tried.append(Tried(method, len(looks), distance))
    return Choice(part, len(captures), len(some), tuple(tried))
