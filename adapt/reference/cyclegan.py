"""CycleGAN (Zhu et al., 2017)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.image_pool import ImagePool
from sim2cam.adapt.reference.losses import CHANCE_LOSS, lsgan_loss
from sim2cam.adapt.reference.networks import PatchGan, ResnetGenerator, initialise_weights
from sim2cam.adapt.reference.patches import PatchBatch
from sim2cam.adapt.reference.schedule import build_adam, compute_learning_rate, step_optimisers
from sim2cam.adapt.reference.translator import ReferenceTranslator, snapshot_translator
from sim2cam.learn.distributed import all_gather, distribute, slice_batch
from sim2cam.learn.trainer import Trainable
from sim2cam.seeds import derive_rng, derive_seed

CYCLE_WEIGHT = 10.0
IDENTITY_WEIGHT = 0.5 * CYCLE_WEIGHT
CONSTANT_FRACTION = 0.5  # of the steps before the learning rate decays: 100 of 200 epochs


@dataclass(frozen=True)
class DomainNetworks:
    """Generator and discriminator of one image domain, with optimisers and image pool."""

    generator: ResnetGenerator
    discriminator: PatchGan
    generator_optimiser: torch.optim.Adam
    discriminator_optimiser: torch.optim.Adam
    pool: ImagePool


class CycleGan:
    """CycleGAN in training; an ``AdversarialModel``."""

    chance_loss = "discriminator_real", CHANCE_LOSS
    remedy = "Choose another --seed"

    def __init__(
        self,
        config: ReferenceConfig,
        make_batch: Callable[[int], PatchBatch],
        device: torch.device,
    ) -> None:
        self._config, self.make_batch, self._device = config, make_batch, device
        self._domains = {
            name: _build_domain_networks(config, name, device) for name in ("real", "sim")
        }
        self.networks: dict[str, Trainable] = {}
        for name, domain in self._domains.items():
            self.networks |= {
                f"{name} generator": Trainable(domain.generator, domain.generator_optimiser),
                f"{name} discriminator": Trainable(
                    domain.discriminator, domain.discriminator_optimiser
                ),
                f"{name} pool": Trainable(domain.pool),
            }
        self._generator_losses = distribute(
            self._compute_generator_losses, *(d.generator for d in self._domains.values())
        )
        self._discriminator_losses = {
            name: distribute(
                functools.partial(discriminator_loss, domain.discriminator), domain.discriminator
            )
            for name, domain in self._domains.items()
        }

    @property
    def generator(self) -> ResnetGenerator:
        """Generator from renders to real images."""
        return self._domains["real"].generator

    def train_step(self, step: int, batch: PatchBatch) -> dict[str, Tensor]:
        """Update both generators, then both discriminators; return scalars."""
        sim, real = (patches.to(self._device) for patches in batch)
        learning_rate = compute_learning_rate(
            step, self._config.steps, constant_fraction=CONSTANT_FRACTION
        )
        for domain in self._domains.values():
            domain.discriminator.requires_grad_(False)
        losses, fakes = self._generator_losses(sim, real)
        optimisers = [domain.generator_optimiser for domain in self._domains.values()]
        step_optimisers(optimisers, losses["generator"], learning_rate)
        scalars = {name: loss.detach() for name, loss in losses.items()}
        rng = derive_rng(self._config.seed, "reference/pool", scene_index=step)
        for name, real_images in (("real", real), ("sim", sim)):
            domain = self._domains[name]
            domain.discriminator.requires_grad_(True)
            # the pool is the same in all processes
            pooled = domain.pool.swap(all_gather(fakes[name]), rng)
            fake = pooled[slice_batch(len(pooled))]
            loss = self._discriminator_losses[name](real_images, fake)
            step_optimisers([domain.discriminator_optimiser], loss, learning_rate)
            scalars[f"discriminator_{name}"] = loss.detach()
        change = (fakes["real"] - sim).abs().mean().detach() / 2.0  # images are from -1 to 1
        return scalars | {"mean_change": change}

    def get_weights(self) -> dict[str, Tensor]:
        """Return the weights of the generator of real images."""
        return self.generator.state_dict()

    def build_transfer(self) -> ReferenceTranslator:
        """Return the current translator as it would be loaded."""
        return snapshot_translator(self.generator, self._device)

    def _compute_generator_losses(
        self, sim: Tensor, real: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return the losses and their weighted sum ``generator``, and the translations to each domain."""
        to_real, to_sim = self._domains["real"], self._domains["sim"]
        fake_real, identity_real = to_real.generator(torch.cat([sim, real])).chunk(2)
        fake_sim, identity_sim = to_sim.generator(torch.cat([real, sim])).chunk(2)
        losses = {
            "adversarial": lsgan_loss(to_real.discriminator(fake_real), is_real=True)
            + lsgan_loss(to_sim.discriminator(fake_sim), is_real=True),
            "cycle": _l1_distance(to_sim.generator(fake_real), sim)
            + _l1_distance(to_real.generator(fake_sim), real),
            "identity": _l1_distance(identity_real, real) + _l1_distance(identity_sim, sim),
        }
        losses["generator"] = (
            losses["adversarial"]
            + CYCLE_WEIGHT * losses["cycle"]
            + IDENTITY_WEIGHT * losses["identity"]
        )
        return losses, {"real": fake_real, "sim": fake_sim}


def discriminator_loss(discriminator: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    """Return half the sum of the least-squares losses on real and generated images (n, 3, h, w)."""
    scores = discriminator(torch.cat([real, fake.detach()]))
    real_scores, fake_scores = scores.split([len(real), len(fake)])
    return 0.5 * (lsgan_loss(real_scores, is_real=True) + lsgan_loss(fake_scores, is_real=False))


def _build_domain_networks(
    config: ReferenceConfig, name: str, device: torch.device
) -> DomainNetworks:
    generator = ResnetGenerator(width=config.width, blocks=config.blocks, antialias=False)
    discriminator = PatchGan(width=config.width, antialias=False)
    for role, network in (("generator", generator), ("discriminator", discriminator)):
        seed = derive_seed(config.seed, f"reference/{name} {role}")
        initialise_weights(network, torch.Generator().manual_seed(seed), xavier=False)
        network.to(device)
    pool = ImagePool(config.patch_px).to(device)
    return DomainNetworks(
        generator,
        discriminator,
        build_adam(generator.parameters()),
        build_adam(discriminator.parameters()),
        pool,
    )


def _l1_distance(first: Tensor, second: Tensor) -> Tensor:
    return (first - second).abs().mean()
