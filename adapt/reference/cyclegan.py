"""CycleGAN (Zhu et al., 2017), both directions at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.image_pool import ImagePool
from sim2cam.adapt.reference.losses import UNDECIDED, least_squares
from sim2cam.adapt.reference.networks import PatchGan, ResnetGenerator, initialise
from sim2cam.adapt.reference.patches import PairSource
from sim2cam.adapt.reference.schedule import adam, descend, rate
from sim2cam.adapt.reference.translator import ReferenceTranslator, translator_in_training
from sim2cam.adapt.training.adversarial import Groups, player_state, restore_player
from sim2cam.learn.distributed import gathered, share_of
from sim2cam.seeds import integer_seed, stream

CYCLE_WEIGHT = 10.0
IDENTITY_WEIGHT = 0.5 * CYCLE_WEIGHT
CONSTANT = 0.5  # share of the steps before the learning rate falls: 100 of 200 epochs


@dataclass(frozen=True)
class Side:
    """The networks that make, and that judge, pictures of one kind, and what trains them."""

    generator: ResnetGenerator
    discriminator: PatchGan
    generator_optimiser: torch.optim.Adam
    discriminator_optimiser: torch.optim.Adam
    pool: ImagePool


class CycleGan:
    """The game of four networks; a ``Game``."""

    undecided = "discriminator_real", UNDECIDED

    def __init__(self, config: ReferenceConfig, pairs: PairSource, device: torch.device) -> None:
        self._config = config
        self._pairs = pairs
        self._device = device
        self._sides = {name: _side(config, name, device) for name in ("real", "sim")}

    @property
    def generator(self) -> ResnetGenerator:
        """What turns renders into captures."""
        return self._sides["real"].generator

    def play(self, step: int) -> dict[str, Tensor]:
        """Teaches both generators, then both discriminators."""
        sim, real = self._pairs.draw(step, self._device)
        learning_rate = rate(step, self._config.steps, constant=CONSTANT)
        to_real, to_sim = self._sides["real"], self._sides["sim"]
        fake_real, same_real = to_real.generator(torch.cat([sim, real])).chunk(2)
        fake_sim, same_sim = to_sim.generator(torch.cat([real, sim])).chunk(2)
        scalars = _teach_generators(
            to_real,
            to_sim,
            (sim, real),
            (fake_sim, fake_real),
            (same_sim, same_real),
            learning_rate,
        )
        rng = stream(self._config.seed, "reference/pool", scene_index=step)
        for name, captured, fake in (("real", real, fake_real), ("sim", sim, fake_sim)):
            side = self._sides[name]
            pooled = side.pool.swap(gathered(fake), rng)  # one pool, the same in all processes
            shown = pooled[share_of(len(pooled))]
            judged = discriminator_loss(side.discriminator, captured, shown)
            descend([side.discriminator_optimiser], judged, learning_rate)
            scalars[f"discriminator_{name}"] = judged.detach()
        change = (fake_real - sim).abs().mean().detach() / 2.0  # pictures are from -1 to 1
        return scalars | {"mean_change": change}

    def batch(self, step: int) -> dict[str, Tensor]:
        """Returns the patches of a step, from -1 to 1."""
        sim, real = self._pairs.whole(step)
        return {"sim": sim, "real": real}

    def state(self) -> Groups:
        """Returns networks, optimisers and pools."""
        groups: Groups = {}
        for name, side in self._sides.items():
            groups |= player_state(f"{name} generator", side.generator, side.generator_optimiser)
            groups |= player_state(
                f"{name} discriminator", side.discriminator, side.discriminator_optimiser
            )
            groups[f"{name} pool"] = {"pictures": side.pool.pictures}
        return groups

    def restore(self, groups: Groups) -> None:
        """Becomes the game that ``state`` was taken of."""
        for name, side in self._sides.items():
            restore_player(groups, f"{name} generator", side.generator, side.generator_optimiser)
            restore_player(
                groups, f"{name} discriminator", side.discriminator, side.discriminator_optimiser
            )
            side.pool.pictures = groups[f"{name} pool"]["pictures"].to(self._device)

    def weights(self) -> dict[str, Tensor]:
        """Returns those of the generator of captures."""
        return self.generator.state_dict()

    def transfer(self) -> ReferenceTranslator:
        """Returns the translator of these, as it would be loaded."""
        return translator_in_training(self.generator, self._device)

    def verdict(self, rgb: NDArray[np.uint8]) -> float:
        """Returns the mean verdict of the discriminator of captures."""
        return mean_verdict(self._sides["real"].discriminator, rgb, self._device)


def discriminator_loss(discriminator: nn.Module, captured: Tensor, fake: Tensor) -> Tensor:
    """Returns half the least-squares losses on pictures (n, 3, h, w) of a kind and on made ones."""
    verdicts = discriminator(torch.cat([captured, fake.detach()]))
    on_captured, on_fake = verdicts.split([len(captured), len(fake)])
    return 0.5 * (
        least_squares(on_captured, captured=True) + least_squares(on_fake, captured=False)
    )


@torch.inference_mode()
def mean_verdict(discriminator: nn.Module, rgb: NDArray[np.uint8], device: torch.device) -> float:
    """Returns how captured a picture (h, w, 3) looks to a discriminator, on average over places."""
    picture = torch.from_numpy(rgb.transpose(2, 0, 1)[None] / np.float32(127.5) - np.float32(1.0))
    return float(discriminator(picture.to(device)).mean())


def _teach_generators(
    to_real: Side,
    to_sim: Side,
    pictures: tuple[Tensor, Tensor],
    fakes: tuple[Tensor, Tensor],
    same: tuple[Tensor, Tensor],
    learning_rate: float,
) -> dict[str, Tensor]:
    """Returns the generators' losses after a step.

    Args:
        to_real, to_sim: the players.
        pictures: of sim, then of real, as all of these are.
        fakes: made of pictures of the other kind.
        same: made of pictures of that kind.
        learning_rate: of the step.
    """
    (sim, real), (fake_sim, fake_real), (same_sim, same_real) = pictures, fakes, same
    for side in (to_real, to_sim):
        side.discriminator.requires_grad_(False)
    losses = {
        "adversarial": least_squares(to_real.discriminator(fake_real), captured=True)
        + least_squares(to_sim.discriminator(fake_sim), captured=True),
        "cycle": _distance(to_sim.generator(fake_real), sim)
        + _distance(to_real.generator(fake_sim), real),
        "identity": _distance(same_real, real) + _distance(same_sim, sim),
    }
    total = (
        losses["adversarial"]
        + CYCLE_WEIGHT * losses["cycle"]
        + IDENTITY_WEIGHT * losses["identity"]
    )
    descend([to_real.generator_optimiser, to_sim.generator_optimiser], total, learning_rate)
    for side in (to_real, to_sim):
        side.discriminator.requires_grad_(True)
    return {name: loss.detach() for name, loss in losses.items()} | {"generator": total.detach()}


def _side(config: ReferenceConfig, name: str, device: torch.device) -> Side:
    generator = ResnetGenerator(width=config.width, blocks=config.blocks, antialias=False)
    discriminator = PatchGan(width=config.width, antialias=False)
    for role, network in (("generator", generator), ("discriminator", discriminator)):
        seed = integer_seed(config.seed, f"reference/{name} {role}")
        initialise(network, torch.Generator().manual_seed(seed), xavier=False)
        network.to(device)
    pool = ImagePool(config.patch_px, device)
    return Side(
        generator,
        discriminator,
        adam(generator.parameters()),
        adam(discriminator.parameters()),
        pool,
    )


def _distance(first: Tensor, second: Tensor) -> Tensor:
    return (first - second).abs().mean()
