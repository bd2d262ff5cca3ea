"""Evaluation of candidate checkpoints on held-out renders and real images."""

from __future__ import annotations

from dataclasses import asdict
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.certificate.certificate import DatasetCertificate
from sim2cam.adapt.training.checkpoint_selection import CandidateScores, TrainingSplit
from sim2cam.adapt.transfers.transfer import Transfer
from sim2cam.adapt.translation import Verification, encode_like, index_samples, translate_samples
from sim2cam.images import decode_image, read_rgb
from sim2cam.metrics.image_statistics import compute_image_statistics
from sim2cam.metrics.two_sample import FeatureScaler, compute_sliced_wasserstein, fit_feature_scaler
from sim2cam.seeds import derive_rng

Floats = NDArray[np.float64]


class CandidateModel(Protocol):
    """A model in training that can be evaluated as it would ship."""

    def build_transfer(self) -> Transfer:
        """Return the current model as it would ship."""
        ...


class CheckpointSelector:
    """Scores candidates with the same images, directions and random streams for each.

    Args:
        split: training and held-out images.
        verification: limits and verifiers of the translations.
        seed: seed of the training.
    """

    def __init__(self, split: TrainingSplit, verification: Verification, seed: int) -> None:
        self.split = split
        self.verification = verification
        self.seed = seed

    @property
    def identity(self) -> dict[str, Any]:
        """Values that decide the selection, as JSON; empty without candidates."""
        if not self.split.candidate_steps:
            return {}
        limits, verifiers = self.verification.limits, dict(self.verification.verifier_digests)
        return {"certificate": {"limits": asdict(limits), "verifiers": verifiers}}

    def evaluate(self, step: int, model: CandidateModel) -> CandidateScores:
        """Return the scores of the model after a step.

        Raises:
            InputError: an image cannot be read.
            Sim2CamError: a render lacks a buffer that the other renders have.
        """
        statistics, certificates = [], []
        for translated in translate_samples(
            model.build_transfer(),
            index_samples(self.split.sim_held_out.samples),
            self.seed,
            "adapt/aside",
            self.verification,
        ):
            statistics.append(compute_image_statistics(translated.pair.after))
            certificates.append(translated.certificate)
        certificate = DatasetCertificate(
            self.verification.limits, self.verification.verifier_digests, tuple(certificates)
        )
        return CandidateScores(
            step,
            certificate.accepted_count,
            certificate.violations,
            self._compute_distance(np.array(statistics)),
        )

    @cached_property
    def source_distance(self) -> float:
        """Distance of the untranslated renders, encoded like translations, from the real images."""
        return self._compute_distance(self._render_statistics)

    def _compute_distance(self, statistics: Floats) -> float:
        """Return the sliced Wasserstein distance of image statistics (n, d) from the real images."""
        return compute_sliced_wasserstein(
            self._scaler.transform(self._real_statistics),
            self._scaler.transform(statistics),
            derive_rng(self.seed, "adapt/directions"),
        )

    @cached_property
    def _scaler(self) -> FeatureScaler:
        return fit_feature_scaler(self._real_statistics, self._render_statistics)

    @cached_property
    def _real_statistics(self) -> Floats:
        paths = [sample.rgb for sample in self.split.real_held_out.samples]
        return np.array([compute_image_statistics(read_rgb(path)) for path in paths])

    @cached_property
    def _render_statistics(self) -> Floats:
        paths = [sample.rgb for sample in self.split.sim_held_out.samples]
        images = (decode_image(encode_like(path, read_rgb(path))) for path in paths)
        return np.array([compute_image_statistics(image) for image in images])
