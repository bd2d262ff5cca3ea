"""Sliced optimal transport of colours (Pitie et al. 2007; Bonneel et al. 2015)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics

COLOURS_PER_IMAGE = 1024  # of each style image
ITERATIONS = 12
QUANTILES = 64


@dataclass(frozen=True)
class SlicedTransfer:
    """Gives an image the whole distribution of colours of a set of style images.

    In every round colours are seen along three perpendicular directions, drawn anew, and moved along
    each so that their quantiles become the target's. The target is made of colours of the whole set
    and of one image of it, drawn for every frame.

    Attributes:
        colours: (n, COLOURS, 3), RGB levels of evenly spaced pixels of each style image.
        variety: share of the target's colours that are of the drawn image.
    """

    colours: NDArray[np.float64]
    variety: float = 0.5

    @classmethod
    def fit(
        cls, style_images: Iterable[NDArray[np.uint8]], *, variety: float = 0.5
    ) -> SlicedTransfer:
        """Return the transfer towards these RGB images, of any sizes.

        Raises:
            Sim2CamError: there is no style image.
        """
        return cls(
            stack_style_statistics(_subsample_rows(rgb.reshape(-1, 3)) for rgb in style_images),
            variety,
        )

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        target = self._sample_target(rng)
        places = (np.arange(QUANTILES) + 0.5) / QUANTILES
        moved = frame.rgb.reshape(-1, 3).astype(np.float64)
        for _ in range(ITERATIONS):
            directions = Rotation.random(rng=rng).as_matrix()
            along = moved @ directions
            own = np.quantile(_subsample_rows(along), places, axis=0)
            aims = np.quantile(target @ directions, places, axis=0)
            for axis in range(3):
                way = aims[:, axis] - own[:, axis]
                along[:, axis] += np.interp(along[:, axis], own[:, axis], way)
            moved = along @ directions.T
        rgb = np.rint(moved).clip(0, 255).reshape(frame.rgb.shape)
        return np.asarray(rgb, np.uint8)

    def _sample_target(self, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return colours (COLOURS, 3), each of the drawn image or of any one."""
        n = len(self.colours)
        of_drawn = rng.random(COLOURS_PER_IMAGE) < self.variety
        image = np.where(of_drawn, rng.integers(n), rng.integers(n, size=COLOURS_PER_IMAGE))
        return np.asarray(self.colours[image, np.arange(COLOURS_PER_IMAGE)])


def _subsample_rows(pixels: NDArray[Any]) -> NDArray[np.float64]:
    """Return COLOURS evenly spaced rows of pixels (n, 3)."""
    rows = np.rint(np.linspace(0, len(pixels) - 1, COLOURS_PER_IMAGE)).astype(int)
    return np.asarray(pixels[rows], np.float64)
