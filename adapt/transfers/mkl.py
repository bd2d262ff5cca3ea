"""Linear optimal transport of colours (Monge-Kantorovitch; Pitie & Kokaram 2007)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics

Floats = NDArray[np.float64]

_MIN_VARIANCE = 1.0  # of a level squared: a flat image would otherwise become noise
_MAX_GAIN = 3.0


@dataclass(frozen=True)
class MklTransfer:
    """Gives an image the mean and covariance of the colours of a set of style images.

    Of all linear maps that do so it moves the colours least. The target lies between the statistics
    of the whole set and those of one image of it, drawn for every frame.

    Attributes:
        means: (n, 3), of each style image's RGB levels.
        covariances: (n, 3, 3), of the same.
        variety: 0 aims at the whole set, 1 at the drawn image.
    """

    means: Floats
    covariances: Floats
    variety: float = 0.5

    @classmethod
    def fit(cls, style_images: Iterable[NDArray[np.uint8]], *, variety: float = 0.5) -> MklTransfer:
        """Return the transfer towards these RGB images, of any sizes.

        Raises:
            Sim2CamError: there is no style image.
        """
        found = stack_style_statistics(
            np.vstack(_compute_statistics(rgb)) for rgb in style_images
        )  # (n, 4, 3)
        return cls(found[:, 0], found[:, 1:], variety)

    @property
    def pooled_statistics(self) -> tuple[Floats, Floats]:
        """Mean (3,) and covariance (3, 3) over the pixels of all images, each image equal."""
        mean = self.means.mean(axis=0)
        apart = self.means - mean
        return mean, self.covariances.mean(axis=0) + apart.T @ apart / len(apart)

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        index = int(rng.integers(len(self.means)))
        mean, covariance = self.pooled_statistics
        mean = mean + self.variety * (self.means[index] - mean)
        covariance = covariance + self.variety * (self.covariances[index] - covariance)
        own_mean, own_covariance = _compute_statistics(frame.rgb)
        moved = (frame.rgb - own_mean) @ compute_transport_map(own_covariance, covariance) + mean
        return np.asarray(np.rint(moved).clip(0, 255), np.uint8)


def compute_transport_map(source_covariance: Floats, target_covariance: Floats) -> Floats:
    """Return the symmetric matrix (3, 3) that moves one covariance (3, 3) to another, least.

    It stretches no direction more than three times.
    """
    source_covariance = source_covariance + _MIN_VARIANCE * np.eye(3)
    root = _matrix_power(source_covariance, 0.5)
    back = _matrix_power(source_covariance, -0.5)
    matrix = (
        back
        @ _matrix_power(root @ (target_covariance + _MIN_VARIANCE * np.eye(3)) @ root, 0.5)
        @ back
    )
    gains, directions = np.linalg.eigh(matrix)
    return np.asarray((directions * gains.clip(max=_MAX_GAIN)) @ directions.T)


def _matrix_power(matrix: Floats, exponent: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * values.clip(min=1e-9) ** exponent) @ vectors.T)


def _compute_statistics(rgb: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    pixels = rgb.reshape(-1, 3).astype(np.float64)
    apart = pixels - pixels.mean(axis=0)
    return pixels.mean(axis=0), apart.T @ apart / len(apart)
