"""Linear optimal transport of colours (Monge-Kantorovich linear; Pitié & Kokaram, 2007)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics

Floats = NDArray[np.float64]

_MIN_VARIANCE = 1.0  # squared levels; limits the amplification of noise in flat images
_MAX_GAIN = 3.0


@dataclass(frozen=True)
class MklTransfer:
    """Transfer of the mean and covariance of RGB colours from a set of style images.

    The linear map is the one that moves colours least. The target interpolates between the statistics of all
    style images and those of one image that is sampled for each frame.

    Attributes:
        means: (n, 3), mean RGB levels of each style image.
        covariances: (n, 3, 3), their covariances.
        variety: 0 for the pooled statistics, 1 for those of the sampled image.
    """

    means: Floats
    covariances: Floats
    variety: float = 0.5

    @classmethod
    def fit(cls, style_images: Iterable[NDArray[np.uint8]], *, variety: float = 0.5) -> MklTransfer:
        """Fit the transfer to RGB style images of any sizes; raise ``Sim2CamError`` for none."""
        statistics = stack_style_statistics(
            np.vstack(_compute_statistics(rgb)) for rgb in style_images
        )  # (n, 4, 3)
        return cls(statistics[:, 0], statistics[:, 1:], variety)

    @property
    def pooled_statistics(self) -> tuple[Floats, Floats]:
        """Mean (3,) and covariance (3, 3) over all style images, weighted equally."""
        mean = self.means.mean(axis=0)
        centred = self.means - mean
        return mean, self.covariances.mean(axis=0) + centred.T @ centred / len(centred)

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        index = int(rng.integers(len(self.means)))
        mean, covariance = self.pooled_statistics
        mean = mean + self.variety * (self.means[index] - mean)
        covariance = covariance + self.variety * (self.covariances[index] - covariance)
        source_mean, source_covariance = _compute_statistics(frame.rgb)
        moved = (frame.rgb - source_mean) @ compute_transport_map(
            source_covariance, covariance
        ) + mean
        return np.asarray(np.rint(moved).clip(0, 255), np.uint8)


def compute_transport_map(source_covariance: Floats, target_covariance: Floats) -> Floats:
    """Return the symmetric optimal transport map (3, 3) between two covariances (3, 3).

    Its gains are limited to ``_MAX_GAIN``.
    """
    source_covariance = source_covariance + _MIN_VARIANCE * np.eye(3)
    root = _matrix_power(source_covariance, 0.5)
    inverse_root = _matrix_power(source_covariance, -0.5)
    matrix = (
        inverse_root
        @ _matrix_power(root @ (target_covariance + _MIN_VARIANCE * np.eye(3)) @ root, 0.5)
        @ inverse_root
    )
    gains, directions = np.linalg.eigh(matrix)
    return np.asarray((directions * gains.clip(max=_MAX_GAIN)) @ directions.T)


def _matrix_power(matrix: Floats, exponent: float) -> Floats:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * values.clip(min=1e-9) ** exponent) @ vectors.T)


def _compute_statistics(rgb: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    pixels = rgb.reshape(-1, 3).astype(np.float64)
    centred = pixels - pixels.mean(axis=0)
    return pixels.mean(axis=0), centred.T @ centred / len(centred)
