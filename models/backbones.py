"""The trunk of a detector: a torchvision residual network, cut where its cells become coarse."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from sim2cam.models.compat import BasicBlock, ResNet


@dataclass(frozen=True)
class Architecture:
    """The numbers in which detectors differ.

    Attributes:
        blocks: residual blocks at stride 4, 8 and 16.
        neck_channels: channels of the features that all strides are brought to.
        head_channels: channels of the last layer before the outputs.
    """

    blocks: tuple[int, int, int]
    neck_channels: int
    head_channels: int


ARCHITECTURES = {
    "nano": Architecture(blocks=(1, 1, 1), neck_channels=64, head_channels=64),
    "small": Architecture(blocks=(2, 2, 2), neck_channels=96, head_channels=96),
}
TRUNK_CHANNELS = (64, 128, 256)  # at stride 4, 8 and 16


class Trunk(nn.Module):
    """Features of an image at strides 4, 8 and 16, of ``TRUNK_CHANNELS`` channels."""

    def __init__(self, blocks: tuple[int, int, int]) -> None:
        super().__init__()
        resnet = ResNet(BasicBlock, [*blocks, 1])
        self.stem = nn.Sequential(resnet.conv1, resnet.bn1, resnet.relu, resnet.maxpool)
        self.stages = nn.ModuleList([resnet.layer1, resnet.layer2, resnet.layer3])

    def forward(self, image: Tensor) -> list[Tensor]:
        """Returns the features (n, c, h/s, w/s) of images (n, 3, h, w), from fine to coarse."""
        features = [self.stem(image)]
        for stage in self.stages:
            features.append(stage(features[-1]))
        return features[1:]
