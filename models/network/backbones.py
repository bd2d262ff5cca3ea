"""The trunk of a detector: a torchvision residual network, cut where its cells become coarse, or a plain
stack of convolutions.
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from sim2cam.models.compat import BasicBlock, ResNet

BACKBONE_CHANNELS = (64, 128, 256)  # at stride 4, 8 and 16


class ResNetBackbone(nn.Module):
    """Features of an image at strides 4, 8 and 16, of ``BACKBONE_CHANNELS`` channels."""

    def __init__(self, blocks: tuple[int, int, int]) -> None:
        super().__init__()
        resnet = ResNet(BasicBlock, [*blocks, 1])
        # Marks of two or three pixels do not survive a strided 7x7 kernel and a pooling: small
        # kernels instead, as in ResNet-C (He et al. 2019), and a strided one for the pooling.
        self.stem = nn.Sequential(
            build_conv_block(3, 32, stride=2),
            build_conv_block(32, 32),
            build_conv_block(32, 64, stride=2),
        )
        self.stages = nn.ModuleList([resnet.layer1, resnet.layer2, resnet.layer3])

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the features (n, c, h/s, w/s) of images (n, 3, h, w), from fine to coarse."""
        features = [self.stem(image)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features[1:]


class DilatedBackbone(nn.Module):
    """Features of an image at strides 4 and 8: no residual blocks, no pyramid.

    Dilated convolutions see around a cell (Yu and Koltun 2016) where a pyramid would go on to coarser ones.

    Args:
        channels: at stride 2, 4 and 8.
        dilations: of the convolutions at stride 8.
    """

    def __init__(self, channels: tuple[int, int, int], dilations: tuple[int, ...]) -> None:
        super().__init__()
        half, quarter, eighth = channels
        self.fine = nn.Sequential(
            build_conv_block(3, half, stride=2),
            build_conv_block(half, quarter, stride=2),
            build_conv_block(quarter, quarter),
        )
        self.coarse = nn.Sequential(
            build_conv_block(quarter, eighth, stride=2),
            *(build_conv_block(eighth, eighth, dilation=dilation) for dilation in dilations),
        )

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the features (n, c, h/s, w/s) of images (n, 3, h, w), from fine to coarse."""
        fine = self.fine(image)
        return [fine, self.coarse(fine)]


class Neck(nn.Module):
    """Features (n, outputs, h/4, w/4) of those of a ``ResNetBackbone``.

    Args:
        channels: to which all strides are brought.
        out_channels: channels.
    """

    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList([nn.Conv2d(c, channels, 1) for c in BACKBONE_CHANNELS])
        self.merge_8 = build_conv_block(channels, channels)
        self.merge_4 = build_conv_block(channels, out_channels)

    def forward(self, features: list[Tensor]) -> Tensor:
        """Return the features."""
        fine, middle, coarse = features
        x = self.lateral[1](middle) + upsample_2x(self.lateral[2](coarse))
        x = self.lateral[0](fine) + upsample_2x(self.merge_8(x))
        return cast("Tensor", self.merge_4(x))


def upsample_2x(features: Tensor) -> Tensor:
    """Return features at twice the size."""
    return functional.interpolate(features, scale_factor=2.0)


def build_conv_block(
    in_channels: int, out_channels: int, *, stride: int = 1, dilation: int = 1
) -> nn.Sequential:
    """Return a 3x3 convolution with batch normalization and ReLU."""
    return nn.Sequential(
        nn.Conv2d(
            in_channels, out_channels, 3, stride, padding=dilation, dilation=dilation, bias=False
        ),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )
