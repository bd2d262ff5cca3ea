"""Selection of the parameter-free transfer whose translations are nearest to real images, without labels."""

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
"""Largest number of renders that are translated for the comparison."""
MIN_ACCEPTED_FRACTION = 0.5
"""Least fraction of accepted translations for a distance to represent the method."""


@dataclass(frozen=True)
class TransferScore:
    """Score of one transfer.

    Attributes:
        method: name of the transfer.
        accepted: translations that keep all limits of the certificate.
        distance: sliced Wasserstein distance of their image statistics from the real images, in standard
            deviations; None if fewer than ``MIN_IMAGES`` or ``MIN_ACCEPTED_FRACTION`` are accepted.
    """

    method: ParameterFreeMethod
    accepted: int
    distance: float | None


@dataclass(frozen=True)
class TransferSelection:
    """Selected transfer with the scores of all transfers.

    Attributes:
        split: name of the split of the real images.
        capture_count, render_count: numbers of real images and renders.
        scores: scores of all transfers.
    """

    split: str
    capture_count: int
    render_count: int
    scores: tuple[TransferScore, ...]

    @property
    def method(self) -> ParameterFreeMethod | None:
        """The nearest transfer; None if no transfer has enough accepted translations."""
        scores = [
            (score.distance, score.method) for score in self.scores if score.distance is not None
        ]
        return min(scores)[1] if scores else None

    def describe(self) -> str:
        """Describe which transfer is selected and why, or why none is."""
        if self.method is None:
            return (
                f"no transfer is selected: for none, half of {self.render_count} translated renders and at least "
                f"{MIN_IMAGES} keep the limits of the certificate"
            )
        distances = ", ".join(
            f"{score.method} {score.distance:.3f}"
            for score in self.scores
            if score.distance is not None
        )
        return (
            f"The best transfer is {self.method}: its translations of {self.render_count} renders are nearest to "
            f"the {self.capture_count} {self.split} images. Distances: {distances}. No labels were used."
        )

    def to_json(self) -> dict[str, Any]:
        """Return the selection as JSON values."""
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
    """Score transfers and select the one whose translations are nearest to real images.

    All transfers use the same renders, random streams and projection directions.

    Args:
        renders: renders; the first ``MAX_RENDERS`` are translated.
        captures: at least ``MIN_IMAGES`` real images.

    Raises:
        InputError: an image cannot be read.
        UsageError: there are too few real images, or images are too small for image statistics.
    """
    indexed_samples = index_samples(renders.take(MAX_RENDERS).samples)
    real_statistics = np.array(
        [compute_image_statistics(read_rgb(sample.rgb)) for sample in captures]
    )
    scaler = fit_feature_scaler(
        real_statistics,
        np.array(
            [compute_image_statistics(read_rgb(indexed.sample.rgb)) for indexed in indexed_samples]
        ),
    )
    scores = []
    for method, transfer in transfers.items():
        statistics = [
            compute_image_statistics(translated.pair.after)
            for translated in translate_samples(
                transfer, indexed_samples, seed, "adapt", verification
            )
            if not translated.certificate.failed_measures
        ]
        distance = None
        if len(statistics) >= max(MIN_IMAGES, MIN_ACCEPTED_FRACTION * len(indexed_samples)):
            rng = derive_rng(seed, "adapt/directions")
            distance = compute_sliced_wasserstein(
                scaler.transform(real_statistics), scaler.transform(np.array(statistics)), rng
            )
        scores.append(TransferScore(method, len(statistics), distance))
    return TransferSelection(split, len(captures), len(indexed_samples), tuple(scores))
