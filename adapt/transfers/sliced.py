"""Sliced optimal transport of colours (Pitié et al., 2007; Bonneel et al., 2015)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics

COLOURS_PER_IMAGE = 1024
ITERATIONS = 12
QUANTILES = 64


@dataclass(frozen=True)
class SlicedTransfer:
    """Transfer of the full colour distribution of a set of style images.

    Each iteration projects colours on a random orthonormal basis and matches the quantiles along each axis. The
    target mixes colours of all style images and of one image that is sampled for each frame.

    Attributes:
        colours: (n, COLOURS_PER_IMAGE, 3), RGB levels of evenly spaced pixels of each style image.
        variety: fraction of the target's colours that come from the sampled image.
    """

    colours: NDArray[np.float64]
    variety: float = 0.5

    @classmethod
    def fit(
        cls, style_images: Iterable[NDArray[np.uint8]], *, variety: float = 0.5
    ) -> SlicedTransfer:
        """Fit the transfer to RGB style images of any sizes; raise ``Sim2CamError`` for none."""
        return cls(
            stack_style_statistics(_subsample_rows(rgb.reshape(-1, 3)) for rgb in style_images),
            variety,
        )

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        target = self._sample_target(rng)
        probabilities = (np.arange(QUANTILES) + 0.5) / QUANTILES
        colours = frame.rgb.reshape(-1, 3).astype(np.float64)
        for _ in range(ITERATIONS):
            directions = Rotation.random(rng=rng).as_matrix()
            projections = colours @ directions
            source_quantiles = np.quantile(_subsample_rows(projections), probabilities, axis=0)
            target_quantiles = np.quantile(target @ directions, probabilities, axis=0)
            for axis in range(3):
                displacement = target_quantiles[:, axis] - source_quantiles[:, axis]
                projections[:, axis] += np.interp(
                    projections[:, axis], source_quantiles[:, axis], displacement
                )
            colours = projections @ directions.T
        rgb = np.rint(colours).clip(0, 255).reshape(frame.rgb.shape)
        return np.asarray(rgb, np.uint8)

    def _sample_target(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return target colours (COLOURS_PER_IMAGE, 3), each from the sampled image or from any image."""
        count = len(self.colours)
        is_sampled_image = rng.random(COLOURS_PER_IMAGE) < self.variety
        indices = np.where(
            is_sampled_image, rng.integers(count), rng.integers(count, size=COLOURS_PER_IMAGE)
        )
        return np.asarray(self.colours[indices, np.arange(COLOURS_PER_IMAGE)])


def _subsample_rows(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``COLOURS_PER_IMAGE`` evenly spaced rows of pixels (n, 3)."""
    rows = np.rint(np.linspace(0, len(pixels) - 1, COLOURS_PER_IMAGE)).astype(int)
    return np.asarray(pixels[rows], np.float64)
