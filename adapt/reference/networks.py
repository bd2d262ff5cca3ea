"""The networks of CycleGAN (Zhu et al., 2017) and CUT (Park et al., 2020).

The order of layers is that of the papers' code, so that published parameter counts hold and CUT compares features
of the same layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.adapt.tiles import STRIDE

MIN_PX = 2 * STRIDE  # reflection padding needs as much
NCE_LAYERS = (0, 4, 8, 12, 16)
"""Layers of an antialiased generator whose features CUT compares: the input, both downsampling convolutions before
their normalization, the first and the fifth block."""

_INIT_STD = 0.02
_PROJECTION_CHANNELS = 256


class ResnetGenerator(nn.Module):
    """Generator of CycleGAN (architecture of Johnson et al., 2016).

    Args:
        width: channels of the first layer.
        blocks: residual blocks at a quarter of the resolution.
        antialias: whether to blur before subsampling and to interpolate instead of using transposed convolutions
            (Zhang, 2019), as CUT does.

    Attributes:
        receptive_radius_px: radius of the receptive field, apart from the normalization.
    """

    def __init__(self, *, width: int, blocks: int, antialias: bool) -> None:
        super().__init__()
        self.receptive_radius_px = 8 * blocks + 24
        shrink, grow = (
            (_build_antialiased_downsampling, _build_antialiased_upsampling)
            if antialias
            else (_build_downsampling, _build_upsampling)
        )
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(3),
            *_add_norm(nn.Conv2d(3, width, 7), width),
            *shrink(width, 2 * width),
            *shrink(2 * width, 4 * width),
            *(ResnetBlock(4 * width) for _ in range(blocks)),
            *grow(4 * width, 2 * width),
            *grow(2 * width, width),
            nn.ReflectionPad2d(3),
            nn.Conv2d(width, 3, 7),
            nn.Tanh(),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return the translation (n, 3, h, w) of images, both from -1 to 1."""
        translated: Tensor = self.layers(image)
        return translated

    def extract_features(self, image: Tensor) -> list[Tensor]:
        """Return the features (n, c, h', w') after each of ``NCE_LAYERS``."""
        selected, features = [], image
        for index, layer in enumerate(list(self.layers)[: NCE_LAYERS[-1] + 1]):
            features = layer(features)
            if index in NCE_LAYERS:
                selected.append(features)
        return selected


class InstanceNorm(nn.GroupNorm):
    """Instance normalization as group normalization, which is three times as fast on CPUs.

    Within ``fix_norm_statistics`` it uses fixed statistics instead of those of the input.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, affine=False)
        self.is_measuring = False
        self.fixed_statistics: tuple[Tensor, Tensor] | None = None

    def forward(self, features: Tensor) -> Tensor:
        """Return the normalized features (n, c, h, w)."""
        if self.is_measuring:
            variance, mean = torch.var_mean(features, (0, 2, 3), correction=0, keepdim=True)
            self.fixed_statistics = mean, (variance + self.eps).rsqrt()
        if self.fixed_statistics is None:
            return super().forward(features)
        mean, scale = self.fixed_statistics
        return (features - mean) * scale


@contextmanager
def fix_norm_statistics(generator: ResnetGenerator, crops: Tensor) -> Iterator[None]:
    """Fix the normalization statistics of a generator to those of crops of an image.

    The statistics of each layer are measured over all crops together.

    Args:
        generator: generator with ``InstanceNorm`` layers.
        crops: (n, 3, side, side), from -1 to 1.
    """
    norms = [module for module in generator.modules() if isinstance(module, InstanceNorm)]
    try:
        for norm in norms:
            norm.is_measuring = True
        generator(crops)
        for norm in norms:
            norm.is_measuring = False
        yield
    finally:
        for norm in norms:
            norm.is_measuring, norm.fixed_statistics = False, None


class ResnetBlock(nn.Module):
    """Residual block (n, c, h, w)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(1),
            *_add_norm(nn.Conv2d(channels, channels, 3), channels),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            InstanceNorm(channels),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Return the features plus the residual."""
        added: Tensor = self.layers(features)
        return features + added


class PatchGan(nn.Module):
    """PatchGAN discriminator with a receptive field of 70x70 px (Isola et al., 2017).

    Args:
        width: channels of the first layer.
        antialias: whether to blur before subsampling, as CUT does; this enlarges the receptive field.
    """

    def __init__(self, *, width: int, antialias: bool) -> None:
        super().__init__()

        def build_downsampling(inputs: int, outputs: int, *, has_norm: bool) -> list[nn.Module]:
            norm: list[nn.Module] = [InstanceNorm(outputs)] if has_norm else []
            conv = nn.Conv2d(inputs, outputs, 4, stride=1 if antialias else 2, padding=1)
            return [conv, *norm, nn.LeakyReLU(0.2), *([BlurPool(outputs)] if antialias else [])]

        self.layers = nn.Sequential(
            *build_downsampling(3, width, has_norm=False),
            *build_downsampling(width, 2 * width, has_norm=True),
            *build_downsampling(2 * width, 4 * width, has_norm=True),
            nn.Conv2d(4 * width, 8 * width, 4, padding=1),
            InstanceNorm(8 * width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(8 * width, 1, 4, padding=1),
        )

    def forward(self, image: Tensor) -> Tensor:
        """Return scores (n, 1, h', w') of images (n, 3, h, w); 1 means real."""
        scores: Tensor = self.layers(image)
        return scores


class PatchProjector(nn.Module):
    """Projection of features to unit vectors, with one two-layer MLP per layer."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            nn.Sequential(
                nn.Linear(count, _PROJECTION_CHANNELS),
                nn.ReLU(),
                nn.Linear(_PROJECTION_CHANNELS, _PROJECTION_CHANNELS),
            )
            for count in channels
        )

    def forward(self, features: Sequence[Tensor], locations: Sequence[Tensor]) -> list[Tensor]:
        """Return unit vectors (n, p, 256) of each layer.

        Args:
            features: features (n, c, h, w) of each layer.
            locations: indices (p,) into the h * w pixels of each layer.
        """
        projected = []
        for head, layer, indices in zip(self.heads, features, locations, strict=True):
            # index the last axis, so that gradients keep the memory format of the features: channels-last
            # gradients are wrong through instance normalization of one image on CPUs (torch 2.13)
            selected = layer.flatten(2)[:, :, indices].transpose(1, 2)  # (n, p, c)
            projected.append(functional.normalize(head(selected), dim=2))
        return projected


class BlurPool(nn.Module):
    """Binomial blur (1 2 1) and subsampling by 2: (n, c, h, w) to (n, c, h / 2, w / 2)."""

    kernel: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0])
        kernel = (torch.outer(row, row) / 16.0).expand(channels, 1, 3, 3).contiguous()
        self.register_buffer("kernel", kernel, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Return the downsampled features."""
        padded = functional.pad(features, (1, 1, 1, 1), mode="reflect")
        return functional.conv2d(padded, self.kernel, stride=2, groups=features.shape[1])


def list_nce_channels(width: int) -> tuple[int, ...]:
    """Return the channels of each of ``NCE_LAYERS``."""
    return (3, 2 * width, 4 * width, 4 * width, 4 * width)


def initialise_weights(network: nn.Module, rng: torch.Generator, *, xavier: bool) -> None:
    """Initialise the weights of convolutions and linear layers; biases become zero.

    Args:
        network: the network.
        rng: random generator.
        xavier: whether to scale by the layer size (Glorot and Bengio, 2010) instead of using one standard
            deviation; the code of the papers uses both.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            if xavier:
                nn.init.xavier_normal_(module.weight, gain=_INIT_STD, generator=rng)
            else:
                nn.init.normal_(module.weight, std=_INIT_STD, generator=rng)
            assert module.bias is not None
            nn.init.zeros_(module.bias)


def _add_norm(conv: nn.Module, channels: int) -> list[nn.Module]:
    return [conv, InstanceNorm(channels), nn.ReLU()]


def _build_downsampling(inputs: int, outputs: int) -> list[nn.Module]:
    return _add_norm(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), outputs)


def _build_antialiased_downsampling(inputs: int, outputs: int) -> list[nn.Module]:
    return [*_add_norm(nn.Conv2d(inputs, outputs, 3, padding=1), outputs), BlurPool(outputs)]


def _build_upsampling(inputs: int, outputs: int) -> list[nn.Module]:
    conv = nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)
    return _add_norm(conv, outputs)


def _build_antialiased_upsampling(inputs: int, outputs: int) -> list[nn.Module]:
    double = nn.Upsample(scale_factor=2, mode="bilinear")  # equals the binomial kernel 1 3 3 1
    return [double, *_add_norm(nn.Conv2d(inputs, outputs, 3, padding=1), outputs)]
