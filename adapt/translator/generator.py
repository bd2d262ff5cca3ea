"""Generator with a global colour matrix and a bounded local residual."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.learn.device import disable_autocast

THUMBNAIL_PX = 32

ENCODER_STRIDES = (2, 4, 4)
"""Strides of the encoder layers that the PatchNCE loss uses."""

_LEAKY_SLOPE = 0.2


class GeneratorOutput(NamedTuple):
    """Output of the generator.

    Attributes:
        unclamped: (n, 3, h, w), sum of input, colour change and residual; may exceed 0 to 1.
        colour_delta: (n, 3, 4), change of colour matrix and offset, within the colour bound.
        residual: (n, 3, h, w), local residual, within the local bound.
    """

    unclamped: Tensor
    colour_delta: Tensor
    residual: Tensor

    @property
    def rgb(self) -> Tensor:
        """Translated images (n, 3, h, w), 0 to 1."""
        return self.unclamped.clamp(0.0, 1.0)


class Generator(nn.Module):
    """Translates renders; exactly the identity before training.

    No layer is normalized by statistics of the image, so exposure is kept and a crop gets the same translation as
    the whole image. The output is the input times a matrix close to the identity plus a bounded residual, so edges
    stay in place.

    Attributes:
        receptive_radius_px: radius of the receptive field apart from the thumbnail: 8 px per block (two convolutions
            at a quarter of the resolution) and 16 px for the other layers.
        encoder_channels: channels of the ``ENCODER_STRIDES`` layers.
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
        """Translate a batch.

        Args:
            rgb: (n, 3, h, w), 0 to 1; h and w are multiples of ``tiles.STRIDE``.
            buffers: (n, b, h, w), about -1 to 1.
            noise: (n, 1, h, w), standard normal.
            thumbnail: (n, 3, THUMBNAIL_PX, THUMBNAIL_PX), whole images that ``rgb`` was cropped from.
        """
        colour = self.colour_bound * torch.tanh(self.colour_head(thumbnail).float())
        local = self.local_bound * torch.tanh(self.residual(rgb, buffers, noise).float())
        with disable_autocast(rgb.device):  # half precision would cause visible banding
            linear = torch.einsum("nij,njhw->nihw", colour[:, :, :3], rgb)
        shift = linear + colour[:, :, 3, None, None]
        return GeneratorOutput(rgb + shift + local, colour, local)

    def extract_features(self, rgb: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the features of the ``ENCODER_STRIDES`` layers for images (n, 3, h, w), 0 to 1, without buffers."""
        extra_channels = self.residual.to_half.in_channels // 4 - 3
        zeros = rgb.new_zeros((len(rgb), extra_channels, *rgb.shape[2:]))
        return self.residual.encode(torch.cat([2.0 * rgb - 1.0, zeros], dim=1))


class ColourHead(nn.Module):
    """Network from a thumbnail (n, 3, s, s) to the change of the colour matrix (n, 3, 4), before its bound."""

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
        """Return the change (n, 3, 4); zero before training."""
        centred = 2.0 * thumbnail - 1.0
        pooled = [
            self.features(centred).mean(dim=(2, 3)),
            centred.mean(dim=(2, 3)),
            centred.std(dim=(2, 3)),
        ]
        matrix: Tensor = self.matrix(torch.cat(pooled, dim=1))
        return matrix.view(-1, 3, 4)


class ReplicatePadConv2d(nn.Conv2d):
    """3x3 convolution with replicate padding; zero padding would add a visible frame to the output."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1) -> None:
        super().__init__(inputs, outputs, 3, stride=stride, padding=1, padding_mode="replicate")

    def forward(self, features: Tensor) -> Tensor:
        """Return (n, outputs, h / stride, w / stride)."""
        if not torch.compiler.is_dynamo_compiling():
            return super().forward(features)
        # torch 2.13 compiles the gradient of its replicate padding for the wrong memory format
        rows_padded = torch.cat([features[:, :, :1], features, features[:, :, -1:]], dim=2)
        padded = torch.cat([rows_padded[..., :1], rows_padded, rows_padded[..., -1:]], dim=3)
        return functional.conv2d(padded, self.weight, self.bias, self.stride)


class ResidualBranch(nn.Module):
    """Network from image, buffers and noise (n, c, h, w) to a residual (n, 3, h, w), before its bound.

    Its blocks work at a quarter of the resolution. Upsampling is interpolation and convolution, which avoids grid
    artefacts. The input is concatenated at full resolution, so that noise can be as fine as a pixel.
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
        """Return the residual (n, 3, h, w); zero before training."""
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
            full: image (-1 to 1), buffers and noise (n, c, h, w).
        """
        half = _leaky_relu(
            self.to_half(functional.pixel_unshuffle(full, 2))
        )  # (n, width, h/2, w/2)
        quarter = _leaky_relu(self.to_quarter(half))  # (n, 2 width, h/4, w/4)
        return half, quarter, self.blocks(quarter)


class ResidualBlock(nn.Module):
    """Residual block without normalization."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = ReplicatePadConv2d(channels, channels)
        self.conv2 = ReplicatePadConv2d(channels, channels)

    def forward(self, features: Tensor) -> Tensor:
        """Return the features (n, c, h, w) plus the residual."""
        added: Tensor = self.conv2(_leaky_relu(self.conv1(features)))
        return features + added


def initialise_generator(generator: Generator, rng: torch.Generator) -> None:
    """Initialise the weights (He et al., 2015) so that the generator is the identity."""
    for module in generator.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, a=_LEAKY_SLOPE, generator=rng)
            _zero_parameter(module.bias)
    for block in generator.residual.blocks:
        assert isinstance(block, ResidualBlock)
        with torch.no_grad():
            block.conv2.weight.mul_(0.1)  # small initial residuals replace normalization
    for head in (generator.colour_head.matrix, generator.residual.head):
        _zero_parameter(head.weight)


def _zero_parameter(parameter: Tensor | None) -> None:
    if parameter is not None:
        nn.init.zeros_(parameter)


def _leaky_relu(features: Tensor) -> Tensor:
    return functional.leaky_relu(features, _LEAKY_SLOPE)


def _upsample_2x(features: Tensor) -> Tensor:
    return functional.interpolate(features, scale_factor=2.0, mode="bilinear", align_corners=False)
