"""Histogram matching of each channel to style images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics

QUANTILES = 256


@dataclass(frozen=True)
class HistogramTransfer:
    """Histogram matching to a set of style images.

    The target interpolates between the Wasserstein mean of all style images and one image that is sampled for
    each frame. Quantiles are averaged, so the target is a distribution.

    Attributes:
        quantiles: (n, 3, QUANTILES), evenly spaced quantiles of each style image's channels, in levels.
        variety: 0 for the mean of all style images, 1 for the sampled image.
    """

    quantiles: NDArray[np.float64]
    variety: float = 0.5

    @classmethod
    def fit(
        cls, style_images: Iterable[NDArray[np.uint8]], *, variety: float = 0.5
    ) -> HistogramTransfer:
        """Fit the transfer to RGB style images of any sizes; raise ``Sim2CamError`` for none."""
        return cls(
            stack_style_statistics(_compute_channel_quantiles(rgb) for rgb in style_images), variety
        )

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        index = int(rng.integers(len(self.quantiles)))
        pooled = self.quantiles.mean(axis=0)
        target = pooled + self.variety * (self.quantiles[index] - pooled)
        tables = [_build_lookup_table(frame.rgb[:, :, i], target[i]) for i in range(3)]
        return np.stack([tables[i][frame.rgb[:, :, i]] for i in range(3)], axis=2)


def _compute_channel_quantiles(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    probabilities = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.quantile(rgb.reshape(-1, 3), probabilities, axis=0, method="inverted_cdf").T.astype(
        float
    )


def _build_lookup_table(
    channel: NDArray[np.uint8], target: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Return the lookup table (256,): for each level, the mean of the target over its quantile range."""
    cdf = np.concatenate([[0.0], np.bincount(channel.ravel(), minlength=256).cumsum()])
    cdf /= cdf[-1]
    target_integral = np.concatenate([[0.0], target.cumsum()]) / len(target)
    integral_at_cdf = np.interp(cdf, np.linspace(0.0, 1.0, len(target_integral)), target_integral)
    frequencies = np.diff(cdf)
    levels = np.divide(
        np.diff(integral_at_cdf), frequencies, out=np.zeros(256), where=frequencies > 0
    )
    # rounding errors of the sums must not reorder levels
    return np.asarray(np.rint(levels.round(6)).clip(0, 255), np.uint8)
