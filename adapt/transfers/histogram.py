"""Histogram matching: every channel takes the distribution of levels of the style images."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics

QUANTILES = 256


@dataclass(frozen=True)
class HistogramTransfer:
    """Gives every channel of an image the distribution of levels of a set of style images.

    The target lies between the distribution of the whole set and that of one image of it, drawn for
    every frame; quantiles are what is averaged, so it is a distribution too (the Wasserstein mean).

    Attributes:
        quantiles: (n, 3, QUANTILES), evenly spaced ones of each style image's channels, levels.
        variety: 0 aims at the whole set, 1 at the drawn image.
    """

    quantiles: NDArray[np.float64]
    variety: float = 0.5

    @classmethod
    def fit(
        cls, style_images: Iterable[NDArray[np.uint8]], *, variety: float = 0.5
    ) -> HistogramTransfer:
        """Return the transfer towards these RGB images, of any sizes.

        Raises:
            Sim2CamError: there is no style image.
        """
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
    places = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return np.quantile(rgb.reshape(-1, 3), places, axis=0, method="inverted_cdf").T.astype(float)


def _build_lookup_table(
    channel: NDArray[np.uint8], target: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Return what each level (256,) becomes: the mean of the target over its share of the pixels."""
    ends = np.concatenate([[0.0], np.bincount(channel.ravel(), minlength=256).cumsum()])
    ends /= ends[-1]
    area = np.concatenate([[0.0], target.cumsum()]) / len(target)
    below = np.interp(ends, np.linspace(0.0, 1.0, len(area)), area)
    share = np.diff(ends)
    level = np.divide(np.diff(below), share, out=np.zeros(256), where=share > 0)
    # equal levels must not differ by the last bit of a sum, or rounding could swap them
    return np.asarray(np.rint(level.round(6)).clip(0, 255), np.uint8)
