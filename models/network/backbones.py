"""Backbones: a torchvision residual network without its last stage, and a plain stack of convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional

from sim2cam.models.compat import BasicBlock, ResNet

BACKBONE_CHANNELS = (64, 128, 256)  # of residual backbones at strides 4, 8 and 16


class ResNetBackbone(nn.Module):
    """Residual backbone with features at strides 4, 8 and 16 of ``BACKBONE_CHANNELS`` channels."""

    out_channels = BACKBONE_CHANNELS

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
    """Feature pyramid neck with outputs (n, out_channels, h/4, w/4) (Lin et al. 2017).

    Args:
        in_channels: channels of the backbone's features at strides 4, 8, 16 and so on.
        channels: channels of the fused strides.
        out_channels: channels of the output.
        normalize: normalize the features before they are fused, since those of a backbone without activation after
            its blocks differ in scale and grow in training.
    """

    def __init__(
        self,
        in_channels: Sequence[int],
        channels: int,
        out_channels: int,
        *,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        self.lateral = nn.ModuleList(
            nn.Sequential(nn.Conv2d(c, channels, 1, bias=False), nn.BatchNorm2d(channels))
            if normalize
            else nn.Conv2d(c, channels, 1)
            for c in in_channels
        )
        self._merge_names = []
        for level in reversed(range(len(in_channels) - 1)):
            name = f"merge_{4 << level}"
            self.add_module(name, build_conv_block(channels, channels if level else out_channels))
            self._merge_names.append(name)

    def forward(self, features: list[Tensor]) -> Tensor:
        """Return the fused features."""
        lateral = [layer(level) for layer, level in zip(self.lateral, features, strict=True)]
        fused: Tensor = lateral.pop()
        for name in self._merge_names:
            fused = self.get_submodule(name)(lateral.pop() + upsample_2x(fused))
        return fused


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
