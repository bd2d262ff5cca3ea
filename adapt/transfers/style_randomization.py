"""Style randomization: colour statistics sampled around those of style images.

Statistics are sampled from a normal distribution fitted to the style images, as Li et al. (2022, "Uncertainty
Modeling for Out-of-Distribution Generalization") do for features, here for the colours of Reinhard et al. (2001).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.reinhard import compute_style_statistics, match_colour_statistics
from sim2cam.adapt.transfers.transfer import GBufferFrame


@dataclass(frozen=True)
class StyleRandomization:
    """Colour transfer to statistics sampled around those of a set of style images.

    Attributes:
        means, deviations: (n, 3), mean and standard deviation of each style image in Ruderman's l-alpha-beta.
        spread: standard deviation of the sampled statistics relative to that of the style images.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    spread: float = 1.5

    @classmethod
    def fit(
        cls, style_images: Iterable[NDArray[np.uint8]], *, spread: float = 1.5
    ) -> StyleRandomization:
        """Fit the transfer to RGB style images of any sizes; raise ``Sim2CamError`` for none."""
        means, deviations = compute_style_statistics(style_images)
        return cls(means, deviations, spread)

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        return match_colour_statistics(frame.rgb, *self.sample_statistics(rng))

    def sample_statistics(
        self, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Sample a mean and standard deviation (3,) in l-alpha-beta."""
        log_statistics = np.hstack([self.means, np.log(self.deviations + _LOG_OFFSET)])  # (n, 6)
        mean = log_statistics.mean(axis=0)
        # a random mixture of deviations from the mean has their covariance
        mixture = rng.standard_normal(len(log_statistics)) / np.sqrt(len(log_statistics))
        statistics = mean + self.spread * mixture @ (log_statistics - mean)
        return statistics[:3], np.exp(statistics[3:]) - _LOG_OFFSET


_LOG_OFFSET = 1e-3  # so that an image without contrast has a logarithm
