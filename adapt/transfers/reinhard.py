"""Colour transfer by mean and standard deviation (Reinhard et al., 2001)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sim2cam.adapt.transfers.transfer import GBufferFrame, stack_style_statistics

# Reinhard et al. 2001, equations 4 and 6: RGB to cone responses, log responses to l-alpha-beta
_RGB_TO_LMS = np.array(
    [[0.3811, 0.5783, 0.0402], [0.1967, 0.7244, 0.0782], [0.0241, 0.1288, 0.8444]]
)
_LOG_LMS_TO_LAB = np.diag([3**-0.5, 6**-0.5, 2**-0.5]) @ np.array(
    [[1.0, 1.0, 1.0], [1.0, 1.0, -2.0], [1.0, -1.0, 0.0]]
)
_LMS_TO_RGB = np.linalg.inv(_RGB_TO_LMS)
_LAB_TO_LOG_LMS = np.linalg.inv(_LOG_LMS_TO_LAB)
_MAX_GAIN = 3.0  # limits the amplification of noise in flat images


@dataclass(frozen=True)
class ReinhardTransfer:
    """Transfer of the mean and standard deviation of colours from a set of style images.

    The target interpolates between the statistics of all style images and those of one image that is sampled
    for each frame, so that translations vary as real images do.

    Attributes:
        means, deviations: (n, 3), mean and standard deviation of each style image in Ruderman's l-alpha-beta.
        variety: 0 for the pooled statistics, 1 for those of the sampled image.
    """

    means: NDArray[np.float64]
    deviations: NDArray[np.float64]
    variety: float = 0.5

    @classmethod
    def fit(
        cls, style_images: Iterable[NDArray[np.uint8]], *, variety: float = 0.5
    ) -> ReinhardTransfer:
        """Fit the transfer to RGB style images of any sizes; raise ``Sim2CamError`` for none."""
        means, deviations = compute_style_statistics(style_images)
        return cls(means, deviations, variety)

    @property
    def pooled_statistics(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation (3,) over all style images, weighted equally."""
        mean = self.means.mean(axis=0)
        mean_square = (self.deviations**2 + self.means**2).mean(axis=0)
        return mean, np.sqrt(np.maximum(mean_square - mean**2, 0.0))

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the recoloured image, RGB of the size of ``frame``."""
        index = int(rng.integers(len(self.means)))
        mean, deviation = self.pooled_statistics
        mean = mean + self.variety * (self.means[index] - mean)
        deviation = deviation + self.variety * (self.deviations[index] - deviation)
        return match_colour_statistics(frame.rgb, mean, deviation)


def compute_style_statistics(style_images: Iterable[NDArray[np.uint8]]) -> NDArray[np.float64]:
    """Return the mean and standard deviation (2, n, 3) of each RGB image in Ruderman's l-alpha-beta."""
    statistics = stack_style_statistics(
        np.array(_compute_statistics(rgb_to_ruderman_lab(rgb))) for rgb in style_images
    )
    return statistics.transpose(1, 0, 2)


def match_colour_statistics(
    rgb: NDArray[np.uint8], mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Match the mean (3,) and standard deviation (3,) of an RGB image in l-alpha-beta.

    Contrast changes by at most a factor of ``_MAX_GAIN``.
    """
    lab = rgb_to_ruderman_lab(rgb)
    source_mean, source_deviation = _compute_statistics(lab)
    is_flat = source_deviation < 1e-6
    gain = np.where(is_flat, 1.0, deviation / np.where(is_flat, 1.0, source_deviation))
    gain = gain.clip(1.0 / _MAX_GAIN, _MAX_GAIN)
    return _ruderman_lab_to_rgb((lab - source_mean) * gain + mean)


def rgb_to_ruderman_lab(rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Convert gamma-encoded RGB to l-alpha-beta (height, width, 3).

    One grey level is added, so that black has a logarithm.
    """
    lms = (rgb.astype(np.float64) + 1.0) / 256.0 @ _RGB_TO_LMS.T
    return np.asarray(np.log10(lms) @ _LOG_LMS_TO_LAB.T)


def _compute_statistics(
    lab: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return lab.mean(axis=(0, 1)), lab.std(axis=(0, 1))


def _ruderman_lab_to_rgb(lab: NDArray[np.float64]) -> NDArray[np.uint8]:
    rgb = 10.0 ** (lab @ _LAB_TO_LOG_LMS.T) @ _LMS_TO_RGB.T * 256.0 - 1.0
    return np.asarray(np.rint(rgb).clip(0, 255), dtype=np.uint8)
