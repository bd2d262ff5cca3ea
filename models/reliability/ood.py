"""Out-of-distribution statistics of images.

Two statistics: the Mahalanobis distance of average-pooled features to the training crops (Lee et al. 2018, "A simple
unified framework for detecting out-of-distribution samples and adversarial attacks"), without classes, and the
uncertainty of the most confident object (Hendrycks and Gimpel 2017, "A baseline for detecting misclassified and
out-of-distribution examples in neural networks").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from sim2cam.errors import CheckpointError
from sim2cam.learn.weight_file import COPY_AGAIN
from sim2cam.models.network.detector import STRIDE_PX, DetectorNetwork

MAX_FALSE_POSITIVE_RATE = 0.05
"""Target share of in-distribution images that count as OOD."""

MIN_CALIBRATION_IMAGES = math.ceil(1 / MAX_FALSE_POSITIVE_RATE) - 1
"""Smallest number of images for which each threshold can keep ``MAX_FALSE_POSITIVE_RATE``.

Both thresholds together need twice as many.
"""

DISTANCE_SLACK = 1.1
"""Factor on the distance threshold, because distances of one camera drift over hours."""

_RIDGE = 0.01  # of the mean variance, for channels that are always 0
_PREFIX = "feature_distribution."


@dataclass(frozen=True)
class OodStatistics:
    """OOD statistics of an image.

    Attributes:
        distance: result of ``compute_feature_distance``.
        uncertainty: result of ``compute_uncertainty``.
    """

    distance: float
    uncertainty: float


@dataclass(frozen=True, eq=False)
class FeatureDistribution:
    """Normal distribution of the features of training crops.

    Attributes:
        mean: mean feature (c,).
        whitening: matrix that maps differences from the mean to unit covariance (c, c).
    """

    mean: Tensor
    whitening: Tensor

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the distribution by their names in a weights file."""
        return {f"{_PREFIX}mean": self.mean, f"{_PREFIX}whitening": self.whitening}


def split_feature_distribution(
    path: Path, tensors: Mapping[str, Tensor], channels: int
) -> tuple[dict[str, Tensor], FeatureDistribution]:
    """Split the tensors of a weights file into network and feature distribution.

    Args:
        channels: channels of the features.

    Raises:
        CheckpointError: if a tensor is missing, not finite or of another shape.
    """
    network_tensors = dict(tensors)
    expected = FeatureDistribution(
        torch.zeros(channels), torch.zeros(channels, channels)
    ).to_tensors()
    for name, template in expected.items():
        if name not in network_tensors:
            raise CheckpointError(
                path, f"tensor {name} is missing, but the card requires it. {COPY_AGAIN}"
            )
        tensor = network_tensors.pop(name)
        if tensor.shape != template.shape:
            raise CheckpointError(
                path,
                f"tensor {name} has the shape {tuple(tensor.shape)}, but the card requires "
                f"{tuple(template.shape)}. {COPY_AGAIN}",
            )
        if not torch.isfinite(tensor).all():
            raise CheckpointError(
                path, f"tensor {name} holds values that are not finite. Train again."
            )
        expected[name] = tensor
    return network_tensors, FeatureDistribution(*expected.values())


def fit_feature_distribution(features: Tensor) -> FeatureDistribution:
    """Fit the normal distribution of features (n, c) of training crops, rounded to half precision.

    Weights are stored in half precision, so thresholds measured with the result are valid for the file.
    """
    values = features.double()
    mean = values.mean(dim=0)
    covariance = (values - mean).T @ (values - mean) / len(values)
    ridge = _RIDGE * covariance.diagonal().mean() * torch.eye(len(mean), dtype=torch.double)
    factor = torch.linalg.cholesky(covariance + ridge)
    identity = torch.eye(len(mean), dtype=torch.double)
    whitening = torch.linalg.solve_triangular(factor, identity, upper=False)
    return FeatureDistribution(mean.half().float(), whitening.half().float())


def compute_feature_distance(
    feature_distribution: FeatureDistribution, features: Tensor, tile_px: int
) -> float:
    """Return the feature distance of an image to training crops, about 1 for in-distribution images.

    It is the root mean square Mahalanobis distance of the image's tiles per channel.

    Args:
        feature_distribution: distribution of the training crops.
        features: features of the image (1, c, h/4, w/4) at the network's scale.
        tile_px: side of the training crops.
    """
    cells = tile_px / STRIDE_PX
    rows, columns = (max(1, round(side / cells)) for side in features.shape[2:])
    tiles = functional.adaptive_avg_pool2d(features.float().cpu(), (rows, columns))
    means = tiles[0].flatten(1).T
    whitened = (means - feature_distribution.mean) @ feature_distribution.whitening.T
    return float(whitened.square().mean().sqrt())


def compute_uncertainty(heatmap: Tensor) -> float:
    """Return the uncertainty of the most confident object, 0 to 1; near 1 without objects."""
    return 1 - float(heatmap.float().max().sigmoid())


def compute_conformal_threshold(values: Sequence[float]) -> tuple[float, float]:
    """Return a threshold and the probability that another in-distribution image exceeds it.

    The probability is at most half of ``MAX_FALSE_POSITIVE_RATE``, since there are two thresholds. Split conformal
    prediction (Vovk et al. 2005); with few images the threshold is the highest value and the probability is higher.

    Args:
        values: statistics of images that were not used before, at least ``MIN_CALIBRATION_IMAGES``.
    """
    count = len(values) + 1
    rank = min(math.ceil(count * (1 - MAX_FALSE_POSITIVE_RATE / 2)), len(values))
    return float(np.sort(np.array(values))[rank - 1]), (count - rank) / count


@torch.inference_mode()
def extract_crop_features(network: DetectorNetwork, rgb: NDArray[np.uint8]) -> Tensor:
    """Return the mean features (n, c) of crops (n, h, w, 3), RGB."""
    images = torch.from_numpy(rgb).to(network.mean.device).permute(0, 3, 1, 2)
    return network.extract_features(images).float().mean(dim=(2, 3)).cpu()
