"""What is read from close-ups of objects: which category they show, and which points of the object's surface."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from sim2cam.models.network.backbones import (
    BACKBONE_CHANNELS,
    ResNetBackbone,
    build_conv_block,
    upsample_2x,
)

RESIDUAL_CHANNELS = 32
SURFACE_STRIDE_PX = 8
SURFACE_BINS = 16  # of a coordinate, from -1 to 1
_BLOCKS, _SURFACE_BLOCKS = (1, 1, 1), (1, 3, 1)
_AXES = 3
_OUTPUT_CHANNELS = 1 + _AXES * SURFACE_BINS  # of a cell
_CHANNELS = 128
_PEAK_RADIUS_BINS = 2  # bins beside the most probable one, of which the mean is taken


class RoiOutputs(NamedTuple):
    """What close-ups show.

    Attributes:
        category_logits: logits (n, c); None where categories are not read.
        features: what ``RoiNetwork.surface_head`` reads (n, k, h/8, w/8); None without poses.
    """

    category_logits: Tensor | None
    features: Tensor | None


class SurfaceMaps(NamedTuple):
    """What close-ups show of an object, in every cell of ``SURFACE_STRIDE_PX`` pixels.

    Attributes:
        mask_logits: logit of its being shown (n, h/8, w/8).
        coordinate_logits: logits of where each coordinate of the point that is shown lies, in the object's frame over its
            reach: of the ends of ``SURFACE_BINS`` - 1 equal parts of what lies between -1 and 1 (n, 3,
            ``SURFACE_BINS``, h/8, w/8).
    """

    mask_logits: Tensor
    coordinate_logits: Tensor

    def decode_coordinates(self) -> tuple[Tensor, Tensor]:
        """Return which points are shown (n, 3, h/8, w/8), and how far off they are (n, h/8, w/8).

        A coordinate is the mean about its most probable bin: what could also lie somewhere else is not put
        between the two. How far off it is, is the standard deviation over all bins.
        """
        probability = self.coordinate_logits.softmax(2)
        place = torch.linspace(-1, 1, SURFACE_BINS, device=self.coordinate_logits.device)[
            :, None, None
        ]
        number = torch.arange(SURFACE_BINS, device=self.coordinate_logits.device)[:, None, None]
        peak = probability.argmax(2, keepdim=True)
        near = probability * ((number - peak).abs() <= _PEAK_RADIUS_BINS)
        points = (near * place).sum(2) / near.sum(2)
        off = (probability * (place - points[:, :, None]).square()).sum(2)
        return points, off.sum(1).sqrt()


class RoiNetwork(nn.Module):
    """Reads close-ups (n, 3, h, w), normalized as for ``ResNetBackbone``.

    The point of the surface that a pixel shows is learned sooner than how the whole object lies, and is known
    as well of objects that are half hidden (Brachmann et al. 2014; Li et al. 2019, "CDPN").

    Args:
        n_categories: how many categories there are.
        classify: whether it reads which one a close-up shows.
        surfaces: whether it reads which points of the surface are shown.
        residual: whether a small head corrects the categories; it says nothing at first.
    """

    def __init__(
        self, n_categories: int, *, classify: bool, surfaces: bool, residual: bool = False
    ) -> None:
        super().__init__()
        channels = BACKBONE_CHANNELS[-1]
        self.backbone = ResNetBackbone(_SURFACE_BLOCKS if surfaces else _BLOCKS)
        self.class_head = nn.Linear(channels, n_categories) if classify else None
        self.residual_head = (
            _build_residual_head(channels, n_categories) if classify and residual else None
        )
        self.surface_head: SurfaceHead | None = SurfaceHead(n_categories) if surfaces else None

    def forward(self, image: Tensor) -> RoiOutputs:
        """Return what the close-ups show; logits are in single precision."""
        stages = self.backbone(image)
        return RoiOutputs(
            None if self.class_head is None else self._classify(stages[-1].mean((2, 3))),
            None if self.surface_head is None else self.surface_head.fuse_features(stages),
        )

    def _classify(self, pooled_features: Tensor) -> Tensor:
        """Return the logits (n, c) that the means (n, k) over close-ups have."""
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
    """What close-ups show of the surface of an object of one category each."""

    def __init__(self, n_categories: int) -> None:
        super().__init__()
        _, fine, coarse = BACKBONE_CHANNELS
        self.global_context = nn.Linear(coarse, coarse)
        self.coarse = nn.Conv2d(coarse, _CHANNELS, 1)
        self.fine = nn.Conv2d(fine, _CHANNELS, 1)
        self.merge = build_conv_block(_CHANNELS, _CHANNELS)
        self.outputs = nn.Embedding(n_categories, _OUTPUT_CHANNELS * (_CHANNELS + 1))

    def fuse_features(self, backbone_features: list[Tensor]) -> Tensor:
        """Return what tells points (n, k, h/8, w/8), of what a ``ResNetBackbone`` returned.

        Which point a cell shows depends on how all of the object lies: what the whole close-up shows is
        added everywhere.
        """
        _, fine, coarse = backbone_features
        whole = self.global_context(coarse.mean((2, 3))).relu()
        coarse = self.coarse(coarse + whole[:, :, None, None])
        return cast("Tensor", self.merge(self.fine(fine) + upsample_2x(coarse)))

    def forward(self, features: Tensor, categories: Tensor) -> SurfaceMaps:
        """Return it, in single precision.

        Args:
            features: of the close-ups.
            categories: class indices (n,).
        """
        kernels = self.outputs(categories).view(-1, _OUTPUT_CHANNELS, _CHANNELS + 1)
        with torch.autocast(features.device.type, enabled=False):
            read = torch.baddbmm(kernels[..., -1:], kernels[..., :-1], features.float().flatten(2))
        said = read.reshape(*read.shape[:2], *features.shape[2:])
        bins = said[:, 1:].reshape(len(said), _AXES, SURFACE_BINS, *features.shape[2:])
        return SurfaceMaps(said[:, 0], bins)
