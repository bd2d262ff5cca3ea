"""CycleGAN as published by its authors (Zhu et al., 2017), reimplemented from the description.

Each network processes one batch at a time in single precision and PyTorch's default memory layout, with
the layers, optimizers and step order of the published code, without fusion. It is the baseline of the
faster reference implementation in ``adapt/reference``, which has the same losses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

CYCLE_WEIGHT, IDENTITY_WEIGHT = 10.0, 5.0
POOL = 50


def build_generator(blocks: int, width: int = 64) -> nn.Sequential:
    """Return the residual generator: 7x7 convolution, two downsamplings, blocks, two upsamplings, 7x7."""
    layers: list[nn.Module] = [nn.ReflectionPad2d(3), nn.Conv2d(3, width, 7), *_norm_relu(width)]
    for channels in (width, 2 * width):
        layers += [nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1)]
        layers += _norm_relu(2 * channels)
    layers += [_Block(4 * width) for _ in range(blocks)]
    for channels in (4 * width, 2 * width):
        layers += [
            nn.ConvTranspose2d(channels, channels // 2, 3, stride=2, padding=1, output_padding=1),
            *_norm_relu(channels // 2),
        ]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())


def build_discriminator(width: int = 64) -> nn.Sequential:
    """Return the 70-pixel PatchGAN discriminator."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
    for channels, stride in ((width, 2), (2 * width, 2), (4 * width, 1)):
        layers += [
            nn.Conv2d(channels, 2 * channels, 4, stride=stride, padding=1),
            nn.InstanceNorm2d(2 * channels),
            nn.LeakyReLU(0.2),
        ]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, padding=1))


class PublishedCycleGan:
    """Both generators, both discriminators and their optimizers.

    Args:
        sample: returns renders and real images (n, 3, h, w) in [-1, 1] for a step.
    """

    def __init__(self, blocks: int, sample: Callable[[int], tuple[Tensor, Tensor]]) -> None:
        self._sample = sample
        self.generator, self._back = build_generator(blocks), build_generator(blocks)
        self._critics = {"real": build_discriminator(), "sim": build_discriminator()}
        self._generators = _make_adam(self.generator, self._back)
        self._discriminators = _make_adam(*self._critics.values())
        self._pools = {name: _Pool() for name in self._critics}

    def train_step(self, step: int) -> None:
        """Update the generators, then the discriminators."""
        sim, real = self._sample(step)
        fake_real = self.generator(sim)
        cycled_sim = self._back(fake_real)
        fake_sim = self._back(real)
        cycled_real = self.generator(fake_sim)
        self._set_discriminators_trainable(trainable=False)
        self._generators.zero_grad()
        identity = _mean_distance(self.generator(real), real) + _mean_distance(self._back(sim), sim)
        cycle = _mean_distance(cycled_sim, sim) + _mean_distance(cycled_real, real)
        adversarial = _squared_error(self._critics["real"](fake_real), 1.0)
        adversarial = adversarial + _squared_error(self._critics["sim"](fake_sim), 1.0)
        total = adversarial + CYCLE_WEIGHT * cycle + IDENTITY_WEIGHT * identity
        total.backward()  # type: ignore[no-untyped-call]
        self._generators.step()
        self._set_discriminators_trainable(trainable=True)
        self._discriminators.zero_grad()
        for name, real_images, generated in (("real", real, fake_real), ("sim", sim, fake_sim)):
            images = self._pools[name].swap(generated.detach())
            critic = self._critics[name]
            loss = 0.5 * (
                _squared_error(critic(real_images), 1.0) + _squared_error(critic(images), 0.0)
            )
            loss.backward()  # type: ignore[no-untyped-call]
        self._discriminators.step()

    def networks(self) -> tuple[nn.Module, ...]:
        """Return the generators to real and to simulated images, and the discriminators of both."""
        return self.generator, self._back, self._critics["real"], self._critics["sim"]

    def _set_discriminators_trainable(self, *, trainable: bool) -> None:
        for critic in self._critics.values():
            critic.requires_grad_(trainable)


class _Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            *_norm_relu(channels),
            nn.ReflectionPad2d(1),
            nn.Conv2d(channels, channels, 3),
            nn.InstanceNorm2d(channels),
        )

    def forward(self, features: Tensor) -> Tensor:
        added: Tensor = self.layers(features)
        return features + added


class _Pool:
    """Image buffer of the last 50 generated images; each is replaced by an older one with probability 0.5."""

    def __init__(self) -> None:
        self._images: list[Tensor] = []
        self._rng = np.random.default_rng(0)

    def swap(self, generated: Tensor) -> Tensor:
        images = []
        for new_image in generated:
            image = new_image
            if len(self._images) < POOL:
                self._images.append(new_image)
            elif self._rng.random() > 0.5:
                index = int(self._rng.integers(POOL))
                image, self._images[index] = self._images[index], new_image
            images.append(image)
        return torch.stack(images)


def _norm_relu(channels: int) -> list[nn.Module]:
    return [nn.InstanceNorm2d(channels), nn.ReLU()]


def _make_adam(*networks: nn.Module) -> torch.optim.Adam:
    parameters = itertools.chain(*(network.parameters() for network in networks))
    return torch.optim.Adam(parameters, 2e-4, (0.5, 0.999), foreach=False, fused=False)


def _squared_error(scores: Tensor, target: float) -> Tensor:
    return (scores - target).square().mean()


def _mean_distance(first: Tensor, second: Tensor) -> Tensor:
    return (first - second).abs().mean()
