"""Which transfer without a network comes nearest to captures, told by looks and no label."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim2cam.adapt.store import ParameterFreeMethod
from sim2cam.adapt.transfers.transfer import Transfer
from sim2cam.adapt.translation import Verification, index_samples, translate_samples
from sim2cam.data.sample import Dataset, Sample
from sim2cam.images import read_rgb
from sim2cam.metrics.image_statistics import compute_image_statistics
from sim2cam.metrics.two_sample import MIN_IMAGES, compute_sliced_wasserstein, fit_feature_scaler
from sim2cam.seeds import derive_rng

MAX_RENDERS = 40
"""That are translated to tell; the others of a data set are of the same kind."""
MIN_ACCEPTED_FRACTION = 0.5
"""Share of the translations that have to keep to every limit: of a few that do, the look is not the method's."""


@dataclass(frozen=True)
class TransferScore:
    """What a transfer did to renders.

    Attributes:
        method: its name.
        accepted: translations that keep to every limit of the certificate.
        distance: of their looks from those of the captures, the sliced Wasserstein distance in standard
            deviations; None where fewer than ``MIN_IMAGES`` or ``MIN_ACCEPTED_FRACTION`` of them are kept.
    """

    method: ParameterFreeMethod
    accepted: int
    distance: float | None


@dataclass(frozen=True)
class TransferSelection:
    """The transfer that is taken, and what it was chosen by.

    Attributes:
        split: of the captures, whose looks the translations were held against.
        capture_count, render_count: how many there were of each.
        scores: all transfers.
    """

    split: str
    capture_count: int
    render_count: int
    scores: tuple[TransferScore, ...]

    @property
    def method(self) -> ParameterFreeMethod | None:
        """The nearest; None where of none enough translations are kept."""
        told = [(one.distance, one.method) for one in self.scores if one.distance is not None]
        return min(told)[1] if told else None

    def describe(self) -> str:
        """Return which transfer is taken and why, or why none is."""
        if self.method is None:
            return (
                f"no transfer is chosen: none keeps half of the translations of {self.render_count} renders, and "
                f"{MIN_IMAGES}, within the certificate's limits"
            )
        far = ", ".join(
            f"{t.method} {t.distance:.3f}" for t in self.scores if t.distance is not None
        )
        return (
            f"The best transfer is {self.method}: its translations of {self.render_count} renders look most like "
            f"the {self.capture_count} {self.split} captures. Distances: {far}. No label was read."
        )

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON values."""
        return asdict(self)


def select_transfer(
    transfers: Mapping[ParameterFreeMethod, Transfer],
    renders: Dataset,
    captures: Sequence[Sample],
    split: str,
    *,
    verification: Verification,
    seed: int,
) -> TransferSelection:
    """Return the transfer whose translations look most like captures; the same renders, draws and
    directions for each.

    Args:
        transfers: by their names.
        renders: what is translated; of more than ``MAX_RENDERS`` the first.
        captures: at least ``MIN_IMAGES``.
        split: what these are called.
        verification: what translations have to pass.
        seed: of the draws.

    Raises:
        InputError: a picture cannot be read.
        UsageError: fewer captures, or pictures too small to have a look.
    """
    some = index_samples(renders.take(MAX_RENDERS).samples)
    wanted = np.array([compute_image_statistics(read_rgb(sample.rgb)) for sample in captures])
    scale = fit_feature_scaler(
        wanted, np.array([compute_image_statistics(read_rgb(one.sample.rgb)) for one in some])
    )
    tried = []
    for method, transfer in transfers.items():
        looks = [
            compute_image_statistics(made.pair.after)
            for made in translate_samples(transfer, some, seed, "adapt", verification)
            if not made.certificate.failed_measures
        ]
        distance = None
        if len(looks) >= max(MIN_IMAGES, MIN_ACCEPTED_FRACTION * len(some)):
            rng = derive_rng(seed, "adapt/directions")
            distance = compute_sliced_wasserstein(
                scale.transform(wanted), scale.transform(np.array(looks)), rng
            )
        tried.append(TransferScore(method, len(looks), distance))
    return TransferSelection(split, len(captures), len(some), tuple(tried))
