"""Multi-scale patch discriminator with spectral normalization."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from sim2cam.learn.device import disable_autocast

_LEAKY_SLOPE = 0.2


class SpectralConv2d(nn.Conv2d):
    """Convolution with spectral normalization (Miyato et al., 2018).

    Each forward pass in training does one power iteration. Its vector is part of the state, so that trainings
    resume exactly.
    """

    singular_vector: Tensor

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, padding=1)
        self.register_buffer("singular_vector", torch.full((outputs,), outputs**-0.5))

    def forward(self, features: Tensor) -> Tensor:
        """Return (n, outputs, h, w)."""
        weight = self.weight / self._compute_spectral_norm()
        return functional.conv2d(features, weight, self.bias, self.stride, self.padding)

    def _compute_spectral_norm(self) -> Tensor:
        """Return the spectral norm, always in single precision."""
        flat = self.weight.flatten(1)  # (outputs, inputs * kernel * kernel)
        with disable_autocast(flat.device):
            with torch.no_grad():
                right = functional.normalize(flat.T @ self.singular_vector, dim=0)
                left = functional.normalize(flat @ right, dim=0)
                if self.training:
                    self.singular_vector = left
            return left @ flat @ right


class PatchDiscriminator(nn.Module):
    """PatchGAN with a receptive field of 38 px, which covers texture and illumination, not layout."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [
                SpectralConv2d(3, width, 4, stride=2),
                SpectralConv2d(width, 2 * width, 4, stride=2),
                SpectralConv2d(2 * width, 4 * width, 4, stride=2),
            ]
        )
        self.head = SpectralConv2d(4 * width, 1, 3, stride=1)

    def forward(self, rgb: Tensor) -> Tensor:
        """Return scores (n, 1, h / 8, w / 8) of images (n, 3, h, w), 0 to 1; higher means real."""
        features = 2.0 * rgb - 1.0
        for layer in self.layers:
            features = functional.leaky_relu(layer(features), _LEAKY_SLOPE)
        scores: Tensor = self.head(features)
        return scores


class MultiScaleDiscriminator(nn.Module):
    """Patch discriminators on an image pyramid (pix2pixHD; Wang et al., 2018, section 3.2).

    Args:
        width: channels of the first layer of each discriminator.
        scales: number of pyramid levels, each with half the resolution.
    """

    def __init__(self, width: int, scales: int) -> None:
        super().__init__()
        self.scales = nn.ModuleList(PatchDiscriminator(width) for _ in range(scales))

    def forward(self, rgb: Tensor) -> tuple[Tensor, ...]:
        """Return the scores (n, 1, h', w') of images (n, 3, h, w) at each scale."""
        scores = []
        for index, discriminator in enumerate(self.scales):
            rgb = functional.avg_pool2d(rgb, 2) if index else rgb
            scores.append(discriminator(rgb))
        return tuple(scores)


def initialise_discriminator(discriminator: nn.Module, rng: torch.Generator) -> None:
    """Initialise the weights (He et al., 2015)."""
    for module in discriminator.modules():
        if isinstance(module, SpectralConv2d):
            nn.init.kaiming_normal_(module.weight, a=_LEAKY_SLOPE, generator=rng)
            assert module.bias is not None
            nn.init.zeros_(module.bias)
