"""Candidates against each other, by renders and captures that none of them was trained on."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

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
    """A training between two steps, by what it would ship."""

    def build_transfer(self) -> Transfer:
        """Return what would ship."""
        ...


class CheckpointSelector:
    """Judges candidates; the same pictures, directions and draws for each.

    Args:
        split: what is kept aside.
        verification: that translations are judged by.
        seed: of the training.
    """

    def __init__(self, split: TrainingSplit, verification: Verification, seed: int) -> None:
        self.split = split
        self.verification = verification
        self.seed = seed

    def evaluate(self, step: int, model: CandidateModel) -> CandidateScores:
        """Return what the weights after a step are worth.

        Raises:
            InputError: a picture cannot be read.
            Sim2CamError: a render lacks a buffer that the others have.
        """
        transfer = model.build_transfer()
        looks, certificates = [], []
        aside = index_samples(self.split.sim_held_out.samples)
        for translated in translate_samples(
            transfer, aside, self.seed, "adapt/aside", self.verification
        ):
            looks.append(compute_image_statistics(translated.pair.after))
            certificates.append(translated.certificate)
        certificate = DatasetCertificate(
            self.verification.limits, self.verification.verifier_digests, tuple(certificates)
        )
        return CandidateScores(
            step,
            certificate.accepted_count,
            certificate.violations,
            self._distance(np.array(looks), self._captures),
        )

    @cached_property
    def source_distance(self) -> float:
        """The distance of the renders from the captures, written as translations are."""
        return self._distance(self._renders, self._captures)

    def _distance(self, looks: Floats, captures: Floats) -> float:
        rng = derive_rng(self.seed, "adapt/directions")
        return compute_sliced_wasserstein(
            self._scale.transform(captures), self._scale.transform(looks), rng
        )

    @cached_property
    def _scale(self) -> FeatureScaler:
        return fit_feature_scaler(self._captures, self._renders)

    @cached_property
    def _captures(self) -> Floats:
        return np.array(
            [
                compute_image_statistics(read_rgb(sample.rgb))
                for sample in self.split.real_held_out.samples
            ]
        )

    @cached_property
    def _renders(self) -> Floats:
        paths = [sample.rgb for sample in self.split.sim_held_out.samples]
        return np.array(
            [
                compute_image_statistics(decode_image(encode_like(path, read_rgb(path))))
                for path in paths
            ]
        )
