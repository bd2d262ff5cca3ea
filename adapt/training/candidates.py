"""Candidates against each other, by renders and captures that none of them was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.stats import mannwhitneyu

from sim2cam.adapt.certificate.certificate import SetCertificate
from sim2cam.adapt.training.checkpoint_selection import Candidate, Parts
from sim2cam.adapt.training.linear_probe import Probe
from sim2cam.adapt.transfers.transfer import Transfer
from sim2cam.adapt.translation import Jury, encode_as, numbered, translate_all
from sim2cam.images import decode_picture, read_rgb
from sim2cam.metrics.image_statistics import look
from sim2cam.metrics.two_sample import Scale, scale_of, sliced_value
from sim2cam.seeds import stream

Floats = NDArray[np.float64]

_RESAMPLES = 200
_MIDDLE_PX = 512  # of captures that a discriminator is shown, which may be of any size


class Contestant(Protocol):
    """A training between two steps, by what it would ship."""

    def transfer(self) -> Transfer:
        """Returns what would ship."""
        ...

    def verdict(self, rgb: NDArray[np.uint8]) -> float:
        """Returns how captured a picture (h, w, 3) looks to the discriminator; more is surer."""
        ...


class Contest:
    """Judges candidates; the same pictures, directions and draws for each.

    Args:
        parts: what is kept aside.
        jury: that translations are judged by.
        seed: of the training.
    """

    def __init__(self, parts: Parts, jury: Jury, seed: int) -> None:
        self.parts = parts
        self.jury = jury
        self.seed = seed

    def judge(self, step: int, contestant: Contestant) -> Candidate:
        """Returns what the weights after a step are worth.

        Raises:
            InputError: a picture cannot be read.
            Sim2CamError: a render lacks a buffer that the others have.
        """
        transfer = contestant.transfer()
        looks, certificates, made = [], [], []
        aside = numbered(self.parts.sim_aside.samples)
        for translated in translate_all(transfer, aside, self.seed, "adapt/aside", self.jury):
            looks.append(look(translated.pair.after))
            certificates.append(translated.certificate)
            made.append(translated.pair.after)
        certificate = SetCertificate(self.jury.limits, self.jury.digests, tuple(certificates))
        known, strange = (
            [contestant.verdict(_middle(read_rgb(sample.rgb))) for sample in captures.samples]
            for captures in (self.parts.real_known, self.parts.real_aside)
        )
        statistic, p_value = mannwhitneyu(known, strange, alternative="greater")
        return Candidate(
            step,
            certificate.kept,
            certificate.faults,
            self._distance(np.array(looks), self._captures),
            float(statistic) / (len(known) * len(strange)),
            float(p_value),
            self._probed(made),
            self._resampled(np.array(looks)),
        )

    def _probed(self, translated: Sequence[NDArray[np.uint8]]) -> float | None:
        """Returns the score of the probe by translations; None without one."""
        if self._probe is None:
            return None
        labels = [sample.objects or () for sample in self.parts.sim_aside.samples]
        return self._probe.score(zip(translated, labels, strict=True))

    @cached_property
    def _probe(self) -> Probe | None:
        return None if self.jury.dev is None else Probe(self.jury.dev, self.seed)

    def _resampled(self, looks: Floats) -> tuple[float, ...]:
        """Returns distances from captures that are drawn again, the same for all; none without a probe."""
        if self.jury.dev is None:
            return ()
        count = len(self._captures)
        drawn = stream(self.seed, "adapt/resampled").integers(count, size=(_RESAMPLES, count))
        return tuple(self._distance(looks, self._captures[indices]) for indices in drawn)

    @cached_property
    def untouched(self) -> float:
        """The distance of the renders from the captures, written as translations are."""
        return self._distance(self._renders, self._captures)

    def _distance(self, looks: Floats, captures: Floats) -> float:
        rng = stream(self.seed, "adapt/directions")
        return sliced_value(self._scale.of(captures), self._scale.of(looks), rng)

    @cached_property
    def _scale(self) -> Scale:
        return scale_of(self._captures, self._renders)

    @cached_property
    def _captures(self) -> Floats:
        return np.array([look(read_rgb(sample.rgb)) for sample in self.parts.real_aside.samples])

    @cached_property
    def _renders(self) -> Floats:
        paths = [sample.rgb for sample in self.parts.sim_aside.samples]
        return np.array([look(decode_picture(encode_as(path, read_rgb(path)))) for path in paths])


def _middle(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    top, left = (max(0, (side - _MIDDLE_PX) // 2) for side in rgb.shape[:2])
    return rgb[top : top + _MIDDLE_PX, left : left + _MIDDLE_PX]
