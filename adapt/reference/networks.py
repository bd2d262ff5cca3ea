"""The networks of CycleGAN (Zhu et al., 2017) and CUT (Park et al., 2020).

Layers follow one another as in the papers' code, so that published counts of weights hold and the
features that CUT compares are those of the same layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.adapt.reference.convolutions import Conv3x3, PictureConv
from sim2cam.adapt.tiles import STRIDE

LEAST_PX = 2 * STRIDE  # edges cannot be mirrored in less
COMPARED = (0, 4, 8, 12, 16)
"""Layers of an antialiased generator whose features CUT compares: the picture itself, both
convolutions on the way down before their norms, the first and the fifth block."""

_DEVIATION = 0.02  # of initial weights
_PROJECTED = 256


class ResnetGenerator(nn.Module):
    """The generator of Johnson et al. (2016) as CycleGAN uses it.

    Args:
        width: channels of the first layer.
        blocks: residual blocks at a quarter of the size.
        antialias: blur before leaving out pixels and interpolate instead of transposed convolutions
            (Zhang, 2019), as CUT does.

    Attributes:
        reach_px: how far from a pixel of the output lies what it is made from, at most, beside the norms.
    """

    def __init__(self, *, width: int, blocks: int, antialias: bool) -> None:
        super().__init__()
        self.reach_px = 8 * blocks + 24
        shrink, grow = (_shrink_smoothly, _grow_smoothly) if antialias else (_shrink, _grow)
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(3),
            *_normed(PictureConv(3, width, 7), width),
            *shrink(width, 2 * width),
            *shrink(2 * width, 4 * width),
            *(ResnetBlock(4 * width) for _ in range(blocks)),
            *grow(4 * width, 2 * width),
            *grow(2 * width, width),
            nn.ReflectionPad2d(3),
            PictureConv(width, 3, 7),
            nn.Tanh(),
        )

    def forward(self, picture: Tensor) -> Tensor:
        """Returns the translation (n, 3, h, w) of pictures, both from -1 to 1."""
        translated: Tensor = self.layers(picture)
        return translated

    def features(self, picture: Tensor) -> list[Tensor]:
        """Returns the features (n, c, h', w') of the ``COMPARED`` layers."""
        found, features = [], picture
        for number, layer in enumerate(list(self.layers)[: COMPARED[-1] + 1]):
            features = layer(features)
            if number in COMPARED:
                found.append(features)
        return found


class InstanceNorm(nn.GroupNorm):
    """Instance normalization, as groups of one channel each, which take a third of its time on the CPU.

    Within ``normed_by`` it is by what was measured instead of by the picture.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, affine=False)
        self.measures = False
        self.moments: tuple[Tensor, Tensor] | None = None

    def forward(self, features: Tensor) -> Tensor:
        """Returns features (n, c, h, w) of mean 0 and variance 1."""
        if self.measures:
            variance, mean = torch.var_mean(features, (0, 2, 3), correction=0, keepdim=True)
            self.moments = mean, (variance + self.eps).rsqrt()
        if self.moments is None:
            return super().forward(features)
        mean, scale = self.moments
        return (features - mean) * scale


@contextmanager
def normed_by(generator: ResnetGenerator, crops: Tensor) -> Iterator[None]:
    """Lets parts of a picture be normed as the whole is, by crops of it (n, 3, side, side), from -1 to 1.

    All crops together are normed at each layer, as if they were the picture.
    """
    norms = [module for module in generator.modules() if isinstance(module, InstanceNorm)]
    try:
        for norm in norms:
            norm.measures = True
        generator(crops)
        for norm in norms:
            norm.measures = False
        yield
    finally:
        for norm in norms:
            norm.measures, norm.moments = False, None


class ResnetBlock(nn.Module):
    """Residual block (n, c, h, w)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(1),
            *_normed(Conv3x3(channels, channels), channels),
            nn.ReflectionPad2d(1),
            Conv3x3(channels, channels),
            InstanceNorm(channels),
        )

    def forward(self, features: Tensor) -> Tensor:
        """Returns the features with what the block adds."""
        added: Tensor = self.layers(features)
        return features + added


class PatchGan(nn.Module):
    """The discriminator of Isola et al. (2017): every verdict sees 70x70 px.

    Args:
        width: channels of the first layer.
        antialias: blur before leaving out pixels, as CUT does; a verdict then sees more.
    """

    def __init__(self, *, width: int, antialias: bool) -> None:
        super().__init__()

        def shrunk(inputs: int, outputs: int, *, normed: bool) -> list[nn.Module]:
            norm: list[nn.Module] = [InstanceNorm(outputs)] if normed else []
            conv = nn.Conv2d(inputs, outputs, 4, stride=1 if antialias else 2, padding=1)
            return [conv, *norm, nn.LeakyReLU(0.2), *([Blur(outputs)] if antialias else [])]

        self.layers = nn.Sequential(
            *shrunk(3, width, normed=False),
            *shrunk(width, 2 * width, normed=True),
            *shrunk(2 * width, 4 * width, normed=True),
            nn.Conv2d(4 * width, 8 * width, 4, padding=1),
            InstanceNorm(8 * width),
            nn.LeakyReLU(0.2),
            nn.Conv2d(8 * width, 1, 4, padding=1),
        )

    def forward(self, picture: Tensor) -> Tensor:
        """Returns verdicts (n, 1, h', w') on pictures (n, 3, h, w): 1 where they look captured."""
        verdict: Tensor = self.layers(picture)
        return verdict


class PatchProjector(nn.Module):
    """Projects features of places to unit vectors, each layer's by its own two-layer network."""

    def __init__(self, channels: Sequence[int]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(
            nn.Sequential(
                nn.Linear(count, _PROJECTED), nn.ReLU(), nn.Linear(_PROJECTED, _PROJECTED)
            )
            for count in channels
        )

    def forward(self, features: Sequence[Tensor], places: Sequence[Tensor]) -> list[Tensor]:
        """Returns unit vectors (n, p, 256) of each layer.

        Args:
            features: (n, c, h, w) of each layer.
            places: (p,) of each layer, indices into its h * w pixels.
        """
        projected = []
        for head, layer, chosen in zip(self.heads, features, places, strict=True):
            # picked along the last axis, so that gradients lie in memory as features do: those that lie
            # by pixels go wrong through instance normalization of one picture on the CPU (torch 2.13)
            picked = layer.flatten(2)[:, :, chosen].transpose(1, 2)  # (n, p, c)
            projected.append(functional.normalize(head(picked), dim=2))
        return projected


class Blur(nn.Module):
    """Binomial blur (1 2 1), then every second pixel: (n, c, h, w) to (n, c, h / 2, w / 2)."""

    kernel: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        row = torch.tensor([1.0, 2.0, 1.0])
        kernel = (torch.outer(row, row) / 16.0).expand(channels, 1, 3, 3).contiguous()
        self.register_buffer("kernel", kernel, persistent=False)

    def forward(self, features: Tensor) -> Tensor:
        """Returns the smaller features."""
        padded = functional.pad(features, (1, 1, 1, 1), mode="reflect")
        return functional.conv2d(padded, self.kernel, stride=2, groups=features.shape[1])


def compared_channels(width: int) -> tuple[int, ...]:
    """Returns the channels of the ``COMPARED`` layers."""
    return (3, 2 * width, 4 * width, 4 * width, 4 * width)


def initialise(network: nn.Module, rng: torch.Generator, *, xavier: bool) -> None:
    """Draws the weights of convolutions and linear layers; offsets become zero.

    Args:
        network: all of whose layers are drawn.
        rng: of the draws.
        xavier: scaled by the layer's size (Glorot and Bengio, 2010) instead of one deviation for
            all, both as the papers' code has it.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            if xavier:
                nn.init.xavier_normal_(module.weight, gain=_DEVIATION, generator=rng)
            else:
                nn.init.normal_(module.weight, std=_DEVIATION, generator=rng)
            assert module.bias is not None
            nn.init.zeros_(module.bias)


def _normed(conv: nn.Module, channels: int) -> list[nn.Module]:
    return [conv, InstanceNorm(channels), nn.ReLU()]


def _shrink(inputs: int, outputs: int) -> list[nn.Module]:
    return _normed(nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), outputs)


def _shrink_smoothly(inputs: int, outputs: int) -> list[nn.Module]:
    return [*_normed(Conv3x3(inputs, outputs, padding=1), outputs), Blur(outputs)]


def _grow(inputs: int, outputs: int) -> list[nn.Module]:
    conv = nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)
    return _normed(conv, outputs)


def _grow_smoothly(inputs: int, outputs: int) -> list[nn.Module]:
    double = nn.Upsample(scale_factor=2, mode="bilinear")  # the binomial kernel 1 3 3 1
    return [double, *_normed(Conv3x3(inputs, outputs, padding=1), outputs)]
