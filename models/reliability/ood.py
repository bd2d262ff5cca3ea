"""How unlike a picture is to what a detector was trained on.

Two things tell. The features that the heads read, averaged over tiles of a crop's size, are held
against a normal distribution of those of training crops: the Mahalanobis distance of Lee and others
(2018, "A simple unified framework for detecting out-of-distribution samples and adversarial attacks"),
without classes, as a picture has none. And a detector is less sure even of the surest object of pictures
that it does not know (Hendrycks and Gimpel 2017, "A baseline for detecting misclassified and
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
from sim2cam.models.network.detector import STRIDE_PX, DetectorNetwork

MAX_FALSE_POSITIVE_RATE = 0.05
"""Share of familiar pictures that is called unlike, at most, where there are enough of them to tell."""

MIN_CALIBRATION_IMAGES = math.ceil(1 / MAX_FALSE_POSITIVE_RATE) - 1
"""With fewer, even the furthest is not far enough for either of the two limits to keep to
``MAX_FALSE_POSITIVE_RATE``."""

DISTANCE_SLACK = 1.1
"""Of the limit of distances, which move a little from hour to hour with one camera."""

_RIDGE = 0.01  # of the mean variance: channels that never fire would have none
_PREFIX = "feature_distribution."


@dataclass(frozen=True)
class OodStatistics:
    """What of a picture is held against the limits of a card.

    Attributes:
        distance: as ``distance`` returns it.
        uncertainty: as ``uncertainty`` returns it.
    """

    distance: float
    uncertainty: float


@dataclass(frozen=True, eq=False)
class FeatureDistribution:
    """What training crops look like to a detector.

    Attributes:
        mean: of their features (c,).
        whitening: brings the features' differences from the mean to unit covariance (c, c).
    """

    mean: Tensor
    whitening: Tensor

    def to_tensors(self) -> dict[str, Tensor]:
        """Return what a weights file holds of it, by name."""
        return {f"{_PREFIX}mean": self.mean, f"{_PREFIX}whitening": self.whitening}


def split_feature_distribution(
    path: Path, tensors: Mapping[str, Tensor], channels: int
) -> tuple[dict[str, Tensor], FeatureDistribution]:
    """Return the tensors of the network alone, and what its training crops look like.

    Args:
        path: the weights file, for the errors.
        tensors: all that it holds.
        channels: of the features that the heads read.

    Raises:
        CheckpointError: a tensor is missing, not finite or of another shape.
    """
    rest = dict(tensors)
    wanted = FeatureDistribution(
        torch.zeros(channels), torch.zeros(channels, channels)
    ).to_tensors()
    for name, like in wanted.items():
        if name not in rest:
            raise CheckpointError(path, f"tensor {name} is missing, which its card asks for.")
        found = rest.pop(name)
        if found.shape != like.shape:
            raise CheckpointError(
                path,
                f"tensor {name} has the shape {tuple(found.shape)}, but its card asks for "
                f"{tuple(like.shape)}.",
            )
        if not torch.isfinite(found).all():
            raise CheckpointError(path, f"tensor {name} holds values that are not finite.")
        wanted[name] = found
    return rest, FeatureDistribution(*wanted.values())


def fit_feature_distribution(features: Tensor) -> FeatureDistribution:
    """Return the normal distribution of the features (n, c) of training crops, in half precision.

    That is how weights are stored, so what is measured with it holds for the file.
    """
    values = features.double()
    mean = values.mean(dim=0)
    spread = (values - mean).T @ (values - mean) / len(values)
    ridge = _RIDGE * spread.diagonal().mean() * torch.eye(len(mean), dtype=torch.double)
    factor = torch.linalg.cholesky(spread + ridge)
    identity = torch.eye(len(mean), dtype=torch.double)
    whitening = torch.linalg.solve_triangular(factor, identity, upper=False)
    return FeatureDistribution(mean.half().float(), whitening.half().float())


def compute_feature_distance(
    feature_distribution: FeatureDistribution, features: Tensor, tile_px: int
) -> float:
    """Return how far a picture is from training crops: about 1 for one like them, 0 or more.

    It is the root of the mean squared Mahalanobis distance of its tiles, over that of a crop.

    Args:
        feature_distribution: of the training crops.
        features: of the picture (1, c, h/4, w/4), at the network's scale.
        tile_px: side of the training crops.
    """
    cells = tile_px / STRIDE_PX
    rows, columns = (max(1, round(side / cells)) for side in features.shape[2:])
    tiles = functional.adaptive_avg_pool2d(features.float().cpu(), (rows, columns))
    means = tiles[0].flatten(1).T
    white = (means - feature_distribution.mean) @ feature_distribution.whitening.T
    return float(white.square().mean().sqrt())


def compute_uncertainty(heatmap: Tensor) -> float:
    """Return how little sure a detector is of the surest object, 0 to 1: 1 of a picture without any.

    Args:
        heatmap: logits of an object's centre in each cell.
    """
    return 1 - float(heatmap.float().max().sigmoid())


def compute_conformal_threshold(values: Sequence[float]) -> tuple[float, float]:
    """Return the value beyond which another picture of the kind lies with a chance of at most half of
    ``MAX_FALSE_POSITIVE_RATE``, and that chance: the quantile of split conformal prediction (Vovk and others 2005).

    Of few pictures it is the highest value, and the chance is higher.

    Args:
        values: of pictures that decided nothing before, at least ``LEAST_PICTURES``.
    """
    count = len(values) + 1
    rank = min(math.ceil(count * (1 - MAX_FALSE_POSITIVE_RATE / 2)), len(values))
    return float(np.sort(np.array(values))[rank - 1]), (count - rank) / count


@torch.inference_mode()
def extract_crop_features(network: DetectorNetwork, rgb: NDArray[np.uint8]) -> Tensor:
    """Return the mean features (n, c) of crops (n, h, w, 3), RGB."""
    images = torch.from_numpy(rgb).to(network.mean.device).permute(0, 3, 1, 2)
    return network.extract_features(images).float().mean(dim=(2, 3)).cpu()
