"""RoI network: categories and surface points from RoI crops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from sim2cam.models.network.backbones import ResNetBackbone, build_conv_block, upsample_2x
from sim2cam.models.network.efficientnet_lite import EfficientNetLiteBackbone

RESIDUAL_CHANNELS = 32
SURFACE_STRIDE_PX = 8
SURFACE_BINS = 16  # per coordinate, from -1 to 1
_AXES = 3
_OUTPUT_CHANNELS = 1 + _AXES * SURFACE_BINS  # per cell
_CHANNELS = 128
_PEAK_RADIUS_BINS = 2  # bins on each side of the most probable one that enter the mean


class RoiOutputs(NamedTuple):
    """Outputs for RoI crops.

    Attributes:
        category_logits: logits (n, c); None without RoI classifier.
        features: inputs of ``RoiNetwork.surface_head`` (n, k, h/8, w/8); None without poses.
    """

    category_logits: Tensor | None
    features: Tensor | None


class SurfaceMaps(NamedTuple):
    """Surface predictions in RoI crops, in cells of ``SURFACE_STRIDE_PX`` pixels.

    Attributes:
        mask_logits: logit of a cell showing the object (n, h/8, w/8).
        coordinate_logits: logits of the bins of each object coordinate (n, 3, ``SURFACE_BINS``, h/8, w/8). Bin
            centres are evenly spaced from -1 to 1, relative to the object's ``max_coordinate_m``.
    """

    mask_logits: Tensor
    coordinate_logits: Tensor

    def decode_coordinates(self) -> tuple[Tensor, Tensor]:
        """Return object coordinates (n, 3, h/8, w/8) and their uncertainty (n, h/8, w/8).

        A coordinate is the mean around its most probable bin, so that two separate modes are not averaged. The
        uncertainty is the standard deviation over all bins.
        """
        probability = self.coordinate_logits.softmax(2)
        bin_values = torch.linspace(-1, 1, SURFACE_BINS, device=self.coordinate_logits.device)[
            :, None, None
        ]
        bin_indices = torch.arange(SURFACE_BINS, device=self.coordinate_logits.device)[
            :, None, None
        ]
        peak = probability.argmax(2, keepdim=True)
        near_peak = probability * ((bin_indices - peak).abs() <= _PEAK_RADIUS_BINS)
        points = (near_peak * bin_values).sum(2) / near_peak.sum(2)
        variance = (probability * (bin_values - points[:, :, None]).square()).sum(2)
        return points, variance.sum(1).sqrt()


class RoiNetwork(nn.Module):
    """RoI network for crops (n, 3, h, w), normalized as for ``DetectorNetwork``.

    Dense object coordinates are learned faster than the pose of the whole object, and are robust to occlusion
    (Brachmann et al. 2014; Li et al. 2019, "CDPN").

    Args:
        backbone: backbone with features at strides 4, 8 and 16.
        classify: predict the category.
        surfaces: predict surface points.
        residual: add a small head, initially zero, that corrects the category.
    """

    def __init__(
        self,
        backbone: ResNetBackbone | EfficientNetLiteBackbone,
        n_categories: int,
        *,
        classify: bool,
        surfaces: bool,
        residual: bool = False,
    ) -> None:
        super().__init__()
        channels = backbone.out_channels[-1]
        self.backbone = backbone
        self.class_head = nn.Linear(channels, n_categories) if classify else None
        self.residual_head = (
            _build_residual_head(channels, n_categories) if classify and residual else None
        )
        self.surface_head: SurfaceHead | None = (
            SurfaceHead(backbone.out_channels, n_categories) if surfaces else None
        )

    def forward(self, image: Tensor) -> RoiOutputs:
        """Return the outputs for RoI crops; logits are in single precision."""
        stages = self.backbone(image)
        return RoiOutputs(
            None if self.class_head is None else self._classify(stages[-1].mean((2, 3))),
            None if self.surface_head is None else self.surface_head.fuse_features(stages),
        )

    def _classify(self, pooled_features: Tensor) -> Tensor:
        """Return the logits (n, c) of average-pooled features (n, k)."""
        assert self.class_head is not None
        logits = cast("Tensor", self.class_head(pooled_features)).float()
        return (
            logits
            if self.residual_head is None
            else logits + self.residual_head(pooled_features).float()
        )


def _build_residual_head(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(in_channels, RESIDUAL_CHANNELS),
        nn.ReLU(),
        nn.Linear(RESIDUAL_CHANNELS, out_channels),
    )


class SurfaceHead(nn.Module):
    """Head for the surface maps of RoI crops with known categories.

    Args:
        in_channels: channels of the backbone's features at strides 4, 8 and 16.
    """

    def __init__(self, in_channels: Sequence[int], n_categories: int) -> None:
        super().__init__()
        _, fine, coarse = in_channels
        self.global_context = nn.Linear(coarse, coarse)
        self.coarse = nn.Conv2d(coarse, _CHANNELS, 1)
        self.fine = nn.Conv2d(fine, _CHANNELS, 1)
        self.merge = build_conv_block(_CHANNELS, _CHANNELS)
        self.outputs = nn.Embedding(n_categories, _OUTPUT_CHANNELS * (_CHANNELS + 1))

    def fuse_features(self, backbone_features: list[Tensor]) -> Tensor:
        """Fuse backbone features to features of surface points (n, k, h/8, w/8).

        The surface point of a cell depends on the pose of the whole object, so global context is added everywhere.
        """
        _, fine, coarse = backbone_features
        context = self.global_context(coarse.mean((2, 3))).relu()
        coarse = self.coarse(coarse + context[:, :, None, None])
        return cast("Tensor", self.merge(self.fine(fine) + upsample_2x(coarse)))

    def forward(self, features: Tensor, categories: Tensor) -> SurfaceMaps:
        """Return the surface maps in single precision.

        Args:
            categories: class indices (n,).
        """
        kernels = self.outputs(categories).view(-1, _OUTPUT_CHANNELS, _CHANNELS + 1)
        with torch.autocast(features.device.type, enabled=False):
            outputs = torch.baddbmm(
                kernels[..., -1:], kernels[..., :-1], features.float().flatten(2)
            )
        maps = outputs.reshape(*outputs.shape[:2], *features.shape[2:])
        bins = maps[:, 1:].reshape(len(maps), _AXES, SURFACE_BINS, *features.shape[2:])
        return SurfaceMaps(maps[:, 0], bins)
