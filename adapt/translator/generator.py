"""The generator: one colour matrix for the whole image and a small residual at every pixel."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.learn.device import disable_autocast

THUMBNAIL_PX = 32

ENCODER_STRIDES = (2, 4, 4)
"""How much smaller than the image the layers are by which places are found again."""

_LEAKY_SLOPE = 0.2


class GeneratorOutput(NamedTuple):
    """What the generator makes of a batch.

    Attributes:
        unclamped: (n, 3, h, w), input, colour change and residual together; may leave 0 to 1.
        colour_delta: (n, 3, 4), change of the colour matrix and offset, within the colour bound.
        residual: (n, 3, h, w), the residual, within the local bound.
    """

    unclamped: Tensor
    colour_delta: Tensor
    residual: Tensor

    @property
    def rgb(self) -> Tensor:
        """The image (n, 3, h, w), from 0 to 1."""
        return self.unclamped.clamp(0.0, 1.0)


class Generator(nn.Module):
    """Changes the look of renders; exactly the identity until it has been trained.

    Nothing is normalised by the image's own statistics: exposure stays, and a crop gets what the
    whole image gets. Only addition and a matrix close to the identity reach the output, so edges
    stay where they are.

    Attributes:
        receptive_radius_px: how far from a pixel of the output lies what it is made from, at most, beside the
            thumbnail: two convolutions at a quarter of the size in each block, the others 16 together.
        encoder_channels: of the ``ENCODER_STRIDES`` layers.
    """

    def __init__(
        self, *, buffers: int, width: int, blocks: int, colour_bound: float, local_bound: float
    ) -> None:
        super().__init__()
        self.colour_bound = colour_bound
        self.local_bound = local_bound
        self.colour_head = ColourHead(width)
        self.residual = ResidualBranch(buffers, width, blocks)
        self.receptive_radius_px = 8 * blocks + 16
        self.encoder_channels = (width, 2 * width, 2 * width)

    def forward(
        self, rgb: Tensor, buffers: Tensor, noise: Tensor, thumbnail: Tensor
    ) -> GeneratorOutput:
        """Return the translation of a batch.

        Args:
            rgb: (n, 3, h, w), 0 to 1; h and w multiples of ``tiles.STRIDE``.
            buffers: (n, b, h, w), about -1 to 1.
            noise: (n, 1, h, w), standard normal.
            thumbnail: (n, 3, THUMBNAIL_PX, THUMBNAIL_PX), the whole image that rgb was cut from.
        """
        colour = self.colour_bound * torch.tanh(self.colour_head(thumbnail).float())
        local = self.local_bound * torch.tanh(self.residual(rgb, buffers, noise).float())
        with disable_autocast(rgb.device):  # half of it would be seen as steps
            linear = torch.einsum("nij,njhw->nihw", colour[:, :, :3], rgb)
        shift = linear + colour[:, :, 3, None, None]
        return GeneratorOutput(rgb + shift + local, colour, local)

    def extract_features(self, rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the ``ENCODER_STRIDES`` layers see of images (n, 3, h, w), 0 to 1, and of nothing else."""
        unknown = self.residual.to_half.in_channels // 4 - 3
        nothing = rgb.new_zeros((len(rgb), unknown, *rgb.shape[2:]))
        return self.residual.encode(torch.cat([2.0 * rgb - 1.0, nothing], dim=1))


class ColourHead(nn.Module):
    """Thumbnail (n, 3, s, s) to the change of a colour matrix (n, 3, 4), before its bound."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width // 2, 3, stride=2, padding=1),
            nn.LeakyReLU(_LEAKY_SLOPE),
            nn.Conv2d(width // 2, width, 3, stride=2, padding=1),
            nn.LeakyReLU(_LEAKY_SLOPE),
        )
        self.matrix = nn.Linear(width + 6, 12)

    def forward(self, thumbnail: Tensor) -> Tensor:
        """Return (n, 3, 4), zero until trained."""
        centred = 2.0 * thumbnail - 1.0
        pooled = [
            self.features(centred).mean(dim=(2, 3)),
            centred.mean(dim=(2, 3)),
            centred.std(dim=(2, 3)),
        ]
        matrix: Tensor = self.matrix(torch.cat(pooled, dim=1))
        return matrix.view(-1, 3, 4)


class ReplicatePadConv2d(nn.Conv2d):
    """A 3x3 convolution (n, c, h, w) that sees the outermost pixels once more around the image.

    Zeros there would be seen as an edge, and a frame appear in the output.
    """

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__(inputs, outputs, 3, stride=stride, padding=1, padding_mode="replicate")

    def forward(self, features: Tensor) -> Tensor:
        """Return (n, outputs, h / stride, w / stride)."""
        if not torch.compiler.is_dynamo_compiling():
            return super().forward(features)
        # torch 2.13 compiles the gradient of its own padding for another memory format than it has
        tall = torch.cat([features[:, :, :1], features, features[:, :, -1:]], dim=2)
        wide = torch.cat([tall[..., :1], tall, tall[..., -1:]], dim=3)
        return functional.conv2d(wide, self.weight, self.bias, self.stride)


class ResidualBranch(nn.Module):
    """Image, buffers and noise (n, c, h, w) to a residual (n, 3, h, w), before its bound.

    Works at a quarter of the size. Going up is by interpolation and convolution, and the image
    joins again at full size, so no grid appears and noise can be as fine as a pixel.
    """

    def __init__(self, buffers: int, width: int, blocks: int) -> None:
        super().__init__()
        inputs = 4 + buffers
        self.to_half = ReplicatePadConv2d(4 * inputs, width)
        self.to_quarter = ReplicatePadConv2d(width, 2 * width, stride=2)
        self.blocks = nn.Sequential(*(ResidualBlock(2 * width) for _ in range(blocks)))
        self.back_to_half = ReplicatePadConv2d(2 * width, width)
        self.narrow = nn.Conv2d(width, width // 2, 1)
        self.to_full = ReplicatePadConv2d(width // 2 + inputs, width // 2)
        self.head = ReplicatePadConv2d(width // 2, 3)

    def forward(self, rgb: Tensor, buffers: Tensor, noise: Tensor) -> Tensor:
        """Return (n, 3, h, w), zero until trained."""
        full = torch.cat([2.0 * rgb - 1.0, buffers, noise], dim=1)
        full = full.contiguous(memory_format=torch.channels_last)  # once for all convolutions
        half, _, quarter = self.encode(full)
        half = _leaky_relu(self.back_to_half(_upsample_2x(quarter)) + half)
        up = torch.cat([_upsample_2x(self.narrow(half)), full], dim=1)
        residual: Tensor = self.head(_leaky_relu(self.to_full(up)))
        return residual

    def encode(self, full: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features (n, c, h / s, w / s) of the ``ENCODER_STRIDES`` layers.

        Args:
            full: image, buffers and noise (n, c, h, w), the image from -1 to 1.
        """
        half = _leaky_relu(
            self.to_half(functional.pixel_unshuffle(full, 2))
        )  # (n, width, h/2, w/2)
        quarter = _leaky_relu(self.to_quarter(half))  # (n, 2 width, h/4, w/4)
        return half, quarter, self.blocks(quarter)


class ResidualBlock(nn.Module):
    """Residual block (n, c, h, w) without normalisation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = ReplicatePadConv2d(channels, channels)
        self.conv2 = ReplicatePadConv2d(channels, channels)

    def forward(self, features: Tensor) -> Tensor:
        """Return the features with what the block adds."""
        added: Tensor = self.conv2(_leaky_relu(self.conv1(features)))
        return features + added


def initialise_generator(generator: Generator, rng: torch.Generator) -> None:
    """Draw the weights (He et al., 2015) and makes the generator the identity."""
    for module in generator.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, a=_LEAKY_SLOPE, generator=rng)
            _zero_parameter(module.bias)
    for block in generator.residual.blocks:
        assert isinstance(block, ResidualBlock)
        with torch.no_grad():
            block.conv2.weight.mul_(0.1)  # stands in for normalisation: blocks start small
    for head in (generator.colour_head.matrix, generator.residual.head):
        _zero_parameter(head.weight)


def _zero_parameter(parameter: Tensor | None) -> None:
    if parameter is not None:
        nn.init.zeros_(parameter)


def _leaky_relu(features: Tensor) -> Tensor:
    return functional.leaky_relu(features, _LEAKY_SLOPE)


def _upsample_2x(features: Tensor) -> Tensor:
    return functional.interpolate(features, scale_factor=2.0, mode="bilinear", align_corners=False)
