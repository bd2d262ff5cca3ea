"""Backbones: a torchvision residual network without its last stage, and a plain stack of convolutions."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn
from torch.nn import functional

from sim2cam.models.compat import BasicBlock, ResNet

BACKBONE_CHANNELS = (64, 128, 256)  # at strides 4, 8 and 16


class ResNetBackbone(nn.Module):
    """Residual backbone with features at strides 4, 8 and 16 of ``BACKBONE_CHANNELS`` channels."""

    def __init__(self, blocks: tuple[int, int, int]) -> None:
        super().__init__()
        resnet = ResNet(BasicBlock, [*blocks, 1])
        # Marks of two or three pixels do not survive a strided 7x7 convolution and pooling. Small
        # kernels instead, as in ResNet-C (He et al. 2019), and a strided one instead of pooling.
        self.stem = nn.Sequential(
            build_conv_block(3, 32, stride=2),
            build_conv_block(32, 32),
            build_conv_block(32, 64, stride=2),
        )
        self.stages = nn.ModuleList([resnet.layer1, resnet.layer2, resnet.layer3])

    def forward(self, image: Tensor) -> list[Tensor]:
        """Return the features (n, c, h/s, w/s) of images (n, 3, h, w), fine to coarse."""
        features = [self.stem(image)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features[1:]


class DilatedBackbone(nn.Module):
    """Plain backbone with features at strides 4 and 8.

    Dilated convolutions (Yu and Koltun 2016) give the receptive field of coarser levels.

    Args:
        channels: channels at strides 2, 4 and 8.
        dilations: dilations of the convolutions at stride 8.
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
        """Return the features (n, c, h/s, w/s) of images (n, 3, h, w), fine to coarse."""
        fine = self.fine(image)
        return [fine, self.coarse(fine)]


class Neck(nn.Module):
    """Feature pyramid neck of a ``ResNetBackbone``, with outputs (n, out_channels, h/4, w/4).

    Args:
        channels: channels of the fused strides.
        out_channels: channels of the output.
    """

    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        self.lateral = nn.ModuleList([nn.Conv2d(c, channels, 1) for c in BACKBONE_CHANNELS])
        self.merge_8 = build_conv_block(channels, channels)
        self.merge_4 = build_conv_block(channels, out_channels)

    def forward(self, features: list[Tensor]) -> Tensor:
        """Return the fused features."""
        fine, middle, coarse = features
        x = self.lateral[1](middle) + upsample_2x(self.lateral[2](coarse))
        x = self.lateral[0](fine) + upsample_2x(self.merge_8(x))
        return cast("Tensor", self.merge_4(x))


def upsample_2x(features: Tensor) -> Tensor:
    """Return features at twice the size, by nearest-neighbour interpolation."""
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
