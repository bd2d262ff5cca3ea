"""CycleGAN as its authors published it (Zhu et al., 2017), written anew from the description.

Every network sees one batch at a time, in single precision and PyTorch's own layout, with the layers,
optimisers and order of steps of the paper's code: nothing is fused, joined or left out. It is what the
reference in ``adapt/reference`` has to be faster than, at the same losses.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

CYCLE_WEIGHT, IDENTITY_WEIGHT = 10.0, 5.0
POOL = 50


def generator(blocks: int, width: int = 64) -> nn.Sequential:
    """Return the residual generator: 7x7, two halvings, blocks, two doublings, 7x7."""
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


def discriminator(width: int = 64) -> nn.Sequential:
    """Return the discriminator of patches of 70 px."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
    for channels, stride in ((width, 2), (2 * width, 2), (4 * width, 1)):
        layers += [
            nn.Conv2d(channels, 2 * channels, 4, stride=stride, padding=1),
            nn.InstanceNorm2d(2 * channels),
            nn.LeakyReLU(0.2),
        ]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, padding=1))


class PublishedCycleGan:
    """Both generators, both discriminators and their optimisers.

    Args:
        blocks: residual blocks of the generators.
        draw: returns pictures (n, 3, h, w) of renders and of captures, from -1 to 1, for a step.
    """

    def __init__(self, blocks: int, draw: Callable[[int], tuple[Tensor, Tensor]]) -> None:
        self._draw = draw
        self.generator, self._back = generator(blocks), generator(blocks)
        self._judges = {"real": discriminator(), "sim": discriminator()}
        self._generators = _adam(self.generator, self._back)
        self._discriminators = _adam(*self._judges.values())
        self._pools = {name: _Pool() for name in self._judges}

    def train_step(self, step: int) -> None:
        """Teach the generators, then the discriminators."""
        sim, real = self._draw(step)
        fake_real = self.generator(sim)
        again_sim = self._back(fake_real)
        fake_sim = self._back(real)
        again_real = self.generator(fake_sim)
        self._let_judges_learn(learn=False)
        self._generators.zero_grad()
        same = _far(self.generator(real), real) + _far(self._back(sim), sim)
        cycle = _far(again_sim, sim) + _far(again_real, real)
        fooled = _square(self._judges["real"](fake_real), 1.0)
        fooled = fooled + _square(self._judges["sim"](fake_sim), 1.0)
        total = fooled + CYCLE_WEIGHT * cycle + IDENTITY_WEIGHT * same
        total.backward()  # type: ignore[no-untyped-call]
        self._generators.step()
        self._let_judges_learn(learn=True)
        self._discriminators.zero_grad()
        for name, true, made in (("real", real, fake_real), ("sim", sim, fake_sim)):
            shown = self._pools[name].swap(made.detach())
            judge = self._judges[name]
            judged = 0.5 * (_square(judge(true), 1.0) + _square(judge(shown), 0.0))
            judged.backward()  # type: ignore[no-untyped-call]
        self._discriminators.step()

    def networks(self) -> tuple[nn.Module, ...]:
        """Return the generator of captures, that of renders, and the discriminators of both."""
        return self.generator, self._back, self._judges["real"], self._judges["sim"]

    def _let_judges_learn(self, *, learn: bool) -> None:
        for judge in self._judges.values():
            judge.requires_grad_(learn)


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
    """The last 50 made pictures, one of which is shown every second time."""

    def __init__(self) -> None:
        self._pictures: list[Tensor] = []
        self._rng = np.random.default_rng(0)

    def swap(self, made: Tensor) -> Tensor:
        shown = []
        for fresh in made:
            picture = fresh
            if len(self._pictures) < POOL:
                self._pictures.append(fresh)
            elif self._rng.random() > 0.5:
                place = int(self._rng.integers(POOL))
                picture, self._pictures[place] = self._pictures[place], fresh
            shown.append(picture)
        return torch.stack(shown)


def _norm_relu(channels: int) -> list[nn.Module]:
    return [nn.InstanceNorm2d(channels), nn.ReLU()]


def _adam(*networks: nn.Module) -> torch.optim.Adam:
    parameters = itertools.chain(*(network.parameters() for network in networks))
    return torch.optim.Adam(parameters, 2e-4, (0.5, 0.999), foreach=False, fused=False)


def _square(verdict: Tensor, target: float) -> Tensor:
    return (verdict - target).square().mean()


def _far(first: Tensor, second: Tensor) -> Tensor:
    return (first - second).abs().mean()
