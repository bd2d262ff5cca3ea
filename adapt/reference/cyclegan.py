"""CycleGAN (Zhu et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.image_pool import ImagePool
from sim2cam.adapt.reference.losses import CHANCE_LOSS, lsgan_loss
from sim2cam.adapt.reference.networks import PatchGan, ResnetGenerator, initialise_weights
from sim2cam.adapt.reference.patches import BatchSource
from sim2cam.adapt.reference.schedule import build_adam, compute_learning_rate, step_optimisers
from sim2cam.adapt.reference.translator import ReferenceTranslator, snapshot_translator
from sim2cam.adapt.training.adversarial import (
    TensorGroups,
    collect_network_state,
    restore_network_state,
)
from sim2cam.learn.distributed import all_gather, slice_batch
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

    def __init__(self, config: ReferenceConfig, batches: BatchSource, device: torch.device) -> None:
        self._config = config
        self._batches = batches
        self._device = device
        self._domains = {
            name: _build_domain_networks(config, name, device) for name in ("real", "sim")
        }

    @property
    def generator(self) -> ResnetGenerator:
        """Generator from renders to real images."""
        return self._domains["real"].generator

    def train_step(self, step: int) -> dict[str, Tensor]:
        """Update both generators, then both discriminators; return scalars."""
        sim, real = self._batches.sample_local_batch(step, self._device)
        learning_rate = compute_learning_rate(
            step, self._config.steps, constant_fraction=CONSTANT_FRACTION
        )
        to_real, to_sim = self._domains["real"], self._domains["sim"]
        fake_real, identity_real = to_real.generator(torch.cat([sim, real])).chunk(2)
        fake_sim, identity_sim = to_sim.generator(torch.cat([real, sim])).chunk(2)
        scalars = _update_generators(
            to_real,
            to_sim,
            (sim, real),
            (fake_sim, fake_real),
            (identity_sim, identity_real),
            learning_rate,
        )
        rng = derive_rng(self._config.seed, "reference/pool", scene_index=step)
        for name, real_images, fake in (("real", real, fake_real), ("sim", sim, fake_sim)):
            networks = self._domains[name]
            pooled = networks.pool.swap(
                all_gather(fake), rng
            )  # the pool is the same in all processes
            fakes = pooled[slice_batch(len(pooled))]
            loss = discriminator_loss(networks.discriminator, real_images, fakes)
            step_optimisers([networks.discriminator_optimiser], loss, learning_rate)
            scalars[f"discriminator_{name}"] = loss.detach()
        change = (fake_real - sim).abs().mean().detach() / 2.0  # images are from -1 to 1
        return scalars | {"mean_change": change}

    def load_batch(self, step: int) -> dict[str, Tensor]:
        """Return the patches of a step, from -1 to 1."""
        sim, real = self._batches.sample_global_batch(step)
        return {"sim": sim, "real": real}

    def get_state(self) -> TensorGroups:
        """Return the state of networks, optimisers and image pools."""
        groups: TensorGroups = {}
        for name, networks in self._domains.items():
            groups |= collect_network_state(
                f"{name} generator", networks.generator, networks.generator_optimiser
            )
            groups |= collect_network_state(
                f"{name} discriminator", networks.discriminator, networks.discriminator_optimiser
            )
            groups[f"{name} pool"] = {"images": networks.pool.images}
        return groups

    def load_state(self, groups: TensorGroups) -> None:
        """Restore networks, optimisers and image pools."""
        for name, networks in self._domains.items():
            restore_network_state(
                groups, f"{name} generator", networks.generator, networks.generator_optimiser
            )
            restore_network_state(
                groups,
                f"{name} discriminator",
                networks.discriminator,
                networks.discriminator_optimiser,
            )
            networks.pool.images = groups[f"{name} pool"]["images"].to(self._device)

    def get_weights(self) -> dict[str, Tensor]:
        """Return the weights of the generator of real images."""
        return self.generator.state_dict()

    def build_transfer(self) -> ReferenceTranslator:
        """Return the current translator as it would be loaded."""
        return snapshot_translator(self.generator, self._device)


def discriminator_loss(discriminator: nn.Module, real: Tensor, fake: Tensor) -> Tensor:
    """Return half the sum of the least-squares losses on real and generated images (n, 3, h, w)."""
    scores = discriminator(torch.cat([real, fake.detach()]))
    real_scores, fake_scores = scores.split([len(real), len(fake)])
    return 0.5 * (lsgan_loss(real_scores, is_real=True) + lsgan_loss(fake_scores, is_real=False))


def _update_generators(
    to_real: DomainNetworks,
    to_sim: DomainNetworks,
    images: tuple[Tensor, Tensor],
    fakes: tuple[Tensor, Tensor],
    identity_outputs: tuple[Tensor, Tensor],
    learning_rate: float,
) -> dict[str, Tensor]:
    """Update both generators and return their losses.

    Args:
        to_real, to_sim: networks of the two domains.
        images: patches of sim, then of real; also the order of the other pairs.
        fakes: translations to sim, then to real.
        identity_outputs: sim through ``to_sim``, then real through ``to_real``.
        learning_rate: learning rate of the step.
    """
    (sim, real), (fake_sim, fake_real), (identity_sim, identity_real) = (
        images,
        fakes,
        identity_outputs,
    )
    for networks in (to_real, to_sim):
        networks.discriminator.requires_grad_(False)
    losses = {
        "adversarial": lsgan_loss(to_real.discriminator(fake_real), is_real=True)
        + lsgan_loss(to_sim.discriminator(fake_sim), is_real=True),
        "cycle": _l1_distance(to_sim.generator(fake_real), sim)
        + _l1_distance(to_real.generator(fake_sim), real),
        "identity": _l1_distance(identity_real, real) + _l1_distance(identity_sim, sim),
    }
    total = (
        losses["adversarial"]
        + CYCLE_WEIGHT * losses["cycle"]
        + IDENTITY_WEIGHT * losses["identity"]
    )
    step_optimisers([to_real.generator_optimiser, to_sim.generator_optimiser], total, learning_rate)
    for networks in (to_real, to_sim):
        networks.discriminator.requires_grad_(True)
    return {name: loss.detach() for name, loss in losses.items()} | {"generator": total.detach()}


def _build_domain_networks(
    config: ReferenceConfig, name: str, device: torch.device
) -> DomainNetworks:
    generator = ResnetGenerator(width=config.width, blocks=config.blocks, antialias=False)
    discriminator = PatchGan(width=config.width, antialias=False)
    for role, network in (("generator", generator), ("discriminator", discriminator)):
        seed = derive_seed(config.seed, f"reference/{name} {role}")
        initialise_weights(network, torch.Generator().manual_seed(seed), xavier=False)
        network.to(device)
    pool = ImagePool(config.patch_px, device)
    return DomainNetworks(
        generator,
        discriminator,
        build_adam(generator.parameters()),
        build_adam(discriminator.parameters()),
        pool,
    )


def _l1_distance(first: Tensor, second: Tensor) -> Tensor:
    return (first - second).abs().mean()
