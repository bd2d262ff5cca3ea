"""The detector: what lies where, from the peaks of a heat map, without anchors."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.models.backbones import TRUNK_CHANNELS, Trunk, convolution
from sim2cam.models.config import ARCHITECTURES

STRIDE_PX = 4
UNIT_PX = 16.0  # a side of exp(0) units
MAX_LOG_SIDE = 4.0  # sides from 0.3 to 870 px
MEAN_RGB = (123.7, 116.3, 103.5)  # of 8-bit values
STD_RGB = (58.4, 57.1, 57.4)
RARE = 0.01  # probability of an object's centre that an untrained detector gives every cell


class Maps(NamedTuple):
    """What the detector says of every cell of ``STRIDE_PX`` pixels.

    Attributes:
        heat: logit of an object's centre being here (n, h/4, w/4).
        log_sides: natural logarithm of the distances in ``UNIT_PX`` from the cell's centre to the
            left, upper, right and lower edge of the object (n, 4, h/4, w/4).
        classes: logits of the categories (n, c, h/4, w/4).
    """

    heat: Tensor
    log_sides: Tensor
    classes: Tensor


class Detector(nn.Module):
    """Maps of a batch of images, of any size that 16 divides.

    Args:
        architecture: a key of ``ARCHITECTURES``.
        n_categories: how many categories it tells apart.
        generator: source of the initial weights, on the CPU.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, architecture: str, n_categories: int, generator: torch.Generator) -> None:
        super().__init__()
        numbers = ARCHITECTURES[architecture]
        neck, head = numbers.neck_channels, numbers.head_channels
        self.register_buffer("mean", torch.tensor(MEAN_RGB).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD_RGB).view(1, 3, 1, 1))
        self.trunk = Trunk(numbers.blocks)
        self.lateral = nn.ModuleList([nn.Conv2d(c, neck, 1) for c in TRUNK_CHANNELS])
        self.merge_8 = convolution(neck, neck)
        self.merge_4 = convolution(neck, head)
        self.where = nn.Sequential(convolution(head, head), nn.Conv2d(head, 5, 1))
        self.what = nn.Sequential(convolution(head, head), nn.Conv2d(head, n_categories, 1))
        _initialise(self, generator)

    def forward(self, rgb: Tensor) -> Maps:
        """Returns the maps of images (n, 3, h, w), RGB, 0 to 255, in floats or bytes."""
        image = (rgb - self.mean) / self.std
        fine, middle, coarse = self.trunk(image)
        x = self.lateral[1](middle) + _doubled(self.lateral[2](coarse))
        x = self.lateral[0](fine) + _doubled(self.merge_8(x))
        x = self.merge_4(x)
        where = self.where(x)
        log_sides = where[:, 1:].clamp(-MAX_LOG_SIDE, MAX_LOG_SIDE)
        return Maps(where[:, 0], log_sides, self.what(x))


def _doubled(features: Tensor) -> Tensor:
    return functional.interpolate(features, scale_factor=2.0)


def _initialise(detector: Detector, generator: torch.Generator) -> None:
    for module in detector.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(
                module.weight, mode="fan_out", nonlinearity="relu", generator=generator
            )
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for outputs in (detector.where[1], detector.what[1]):
        assert isinstance(outputs, nn.Conv2d)
        nn.init.normal_(outputs.weight, std=0.01, generator=generator)
        assert outputs.bias is not None
    heat_bias = detector.where[1].bias
    assert isinstance(heat_bias, Tensor)
    with torch.no_grad():
        heat_bias[0] = -math.log((1 - RARE) / RARE)
