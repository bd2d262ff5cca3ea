"""Architectures of this project's networks by name, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

AUTO_PRETRAINED = "auto"
"""Value of ``pretrained`` for weights that need no download; random weights if there are none."""


@dataclass(frozen=True)
class Architecture:
    """Size of a residual detector network.

    Attributes:
        blocks: residual blocks at strides 4, 8 and 16.
        neck_channels: channels of the fused feature maps.
        head_channels: channels of the last layer before the outputs.
    """

    blocks: tuple[int, int, int]
    neck_channels: int
    head_channels: int


@dataclass(frozen=True)
class DilatedArchitecture:
    """Size of a dilated detector network: plain convolutions down to stride 8, without upsampling.

    Attributes:
        channels: channels at strides 2, 4 and 8.
        dilations: dilations of the convolutions at stride 8.
        head_channels: channels of the last layer before the outputs.
    """

    channels: tuple[int, int, int]
    dilations: tuple[int, ...]
    head_channels: int


@dataclass(frozen=True)
class EfficientNetLiteArchitecture:
    """Size of a detector network with an EfficientNet-Lite backbone.

    Attributes:
        width: factor on the channels of the backbone.
        depth: factor on the number of its blocks.
        neck_channels: channels of the fused feature maps.
        head_channels: channels of the last layer before the outputs.
    """

    width: float
    depth: float
    neck_channels: int
    head_channels: int


ARCHITECTURES: Mapping[str, Architecture | DilatedArchitecture | EfficientNetLiteArchitecture] = {
    "nano": Architecture(blocks=(1, 1, 1), neck_channels=64, head_channels=64),
    "small": Architecture(blocks=(2, 2, 2), neck_channels=96, head_channels=96),
    "base": Architecture(blocks=(3, 4, 6), neck_channels=128, head_channels=128),
    "lite0": EfficientNetLiteArchitecture(1.0, 1.0, neck_channels=64, head_channels=64),
    "lite1": EfficientNetLiteArchitecture(1.0, 1.1, neck_channels=80, head_channels=80),
    "lite2": EfficientNetLiteArchitecture(1.1, 1.2, neck_channels=96, head_channels=96),
    "scout": DilatedArchitecture(channels=(24, 48, 88), dilations=(1, 2, 4, 1), head_channels=64),
}
"""Networks of this project by name. ``scout`` differs in design and serves as a verifier detector.

Pretrained weights of the backbones of ``lite0`` to ``lite2`` come with Python packages.

The blocks of ``small`` and ``base`` are those of ResNet-18 and ResNet-34 (He et al. 2016) without the last stage.
"""
