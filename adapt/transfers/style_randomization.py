"""Style randomization: looks that the style images could have had.

The statistics of a look vary as those of the style images do: a normal distribution of them, as Li
et al. 2022 ("Uncertainty Modeling for Out-of-Distribution Generalization") draw those of features,
here of colours as Reinhard et al. 2001 take them.
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
    """Gives every image a look of its own, drawn around those of a set of style images.

    Attributes:
        means, deviations: (n, 3), of each style image in Ruderman's l-alpha-beta.
        spread: standard deviation of what is drawn, over that of the style images.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    spread: float = 1.5

    @classmethod
    def fit(
        cls, style_images: Iterable[NDArray[np.uint8]], *, spread: float = 1.5
    ) -> StyleRandomization:
        """Return the transfer to looks around those of these RGB images, of any sizes.

        Raises:
            Sim2CamError: there is no style image.
        """
        means, deviations = compute_style_statistics(style_images)
        return cls(means, deviations, spread)

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        return match_colour_statistics(frame.rgb, *self.sample_statistics(rng))

    def sample_statistics(
        self, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean and standard deviation (3,) of a look in l-alpha-beta."""
        looks = np.hstack([self.means, np.log(self.deviations + _LOG_OFFSET)])  # (n, 6)
        middle = looks.mean(axis=0)
        # a random mixture of the deviations has their covariance
        mixture = rng.standard_normal(len(looks)) / np.sqrt(len(looks))
        look = middle + self.spread * mixture @ (looks - middle)
        return look[:3], np.exp(look[3:]) - _LOG_OFFSET


_LOG_OFFSET = 1e-3  # so that an image without any contrast has a logarithm
