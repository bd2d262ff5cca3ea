"""CUT and FastCUT (Park et al., 2020): one-sided translation with a patchwise contrastive loss."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.cyclegan import discriminator_loss
from sim2cam.adapt.reference.losses import CHANCE_LOSS, lsgan_loss, patch_nce_loss
from sim2cam.adapt.reference.networks import (
    PatchGan,
    PatchProjector,
    ResnetGenerator,
    initialise_weights,
    list_nce_channels,
)
from sim2cam.adapt.reference.patches import PatchBatch
from sim2cam.adapt.reference.schedule import build_adam, compute_learning_rate, step_optimisers
from sim2cam.adapt.reference.translator import ReferenceTranslator, snapshot_translator
from sim2cam.learn.distributed import distribute
from sim2cam.learn.trainer import Trainable
from sim2cam.seeds import derive_rng, derive_seed

_LOCATIONS_PER_LAYER = 256


@dataclass(frozen=True)
class CutVariant:
    """Settings in which CUT and FastCUT differ.

    Attributes:
        nce_weight: weight of the PatchNCE loss.
        uses_identity_nce: whether real images get an identity PatchNCE loss.
        uses_flip_equivariance: whether a random half of the steps translates flipped images, with the features
            of the translation flipped back.
        constant_fraction: fraction of the steps before the learning rate decays.
    """

    nce_weight: float
    uses_identity_nce: bool
    uses_flip_equivariance: bool
    constant_fraction: float


VARIANTS = {
    "cut": CutVariant(
        nce_weight=1.0, uses_identity_nce=True, uses_flip_equivariance=False, constant_fraction=0.5
    ),
    "fastcut": CutVariant(
        nce_weight=10.0,
        uses_identity_nce=False,
        uses_flip_equivariance=True,
        constant_fraction=0.75,
    ),
}


class Cut:
    """CUT or FastCUT in training; an ``AdversarialModel``."""

    chance_loss = "discriminator", CHANCE_LOSS
    remedy = "Choose another --seed"

    def __init__(
        self,
        config: ReferenceConfig,
        variant: CutVariant,
        make_batch: Callable[[int], PatchBatch],
        device: torch.device,
    ) -> None:
        self._config, self._variant = config, variant
        self.make_batch, self._device = make_batch, device
        self.generator = ResnetGenerator(width=config.width, blocks=config.blocks, antialias=True)
        self._discriminator = PatchGan(width=config.width, antialias=True)
        self._projector = PatchProjector(list_nce_channels(config.width))
        networks = {
            "generator": self.generator,
            "discriminator": self._discriminator,
            "projector": self._projector,
        }
        for name, network in networks.items():
            rng = torch.Generator().manual_seed(derive_seed(config.seed, f"reference/cut {name}"))
            initialise_weights(network, rng, xavier=True)
            network.to(device)
        self._optimisers = {name: build_adam(n.parameters()) for name, n in networks.items()}
        self.networks = {
            name: Trainable(network, self._optimisers[name]) for name, network in networks.items()
        }
        self._discriminator_loss = distribute(
            functools.partial(discriminator_loss, self._discriminator), self._discriminator
        )
        self._generator_losses = distribute(
            self._compute_generator_losses, self.generator, self._projector
        )

    def train_step(self, step: int, batch: PatchBatch) -> dict[str, Tensor]:
        """Update the discriminator, then the generator and the projector; return scalars."""
        sim, real = (patches.to(self._device) for patches in batch)
        rng = derive_rng(self._config.seed, "reference/cut", scene_index=step)
        learning_rate = compute_learning_rate(
            step, self._config.steps, constant_fraction=self._variant.constant_fraction
        )
        is_mirrored = self._variant.uses_flip_equivariance and rng.random() < 0.5
        fake = self.generator(sim.flip(3) if is_mirrored else sim)
        loss = self._discriminator_loss(real, fake)
        step_optimisers([self._optimisers["discriminator"]], loss, learning_rate)
        self._discriminator.requires_grad_(False)
        losses = self._generator_losses(sim, real, fake, rng, is_flipped=is_mirrored)
        optimisers = [self._optimisers[name] for name in ("generator", "projector")]
        step_optimisers(optimisers, losses["generator"], learning_rate)
        self._discriminator.requires_grad_(True)
        unflipped = fake.flip(3) if is_mirrored else fake
        change = (unflipped - sim).abs().mean() / 2.0  # images are from -1 to 1
        scalars = losses | {"discriminator": loss, "mean_change": change}
        return {name: value.detach() for name, value in scalars.items()}

    def get_weights(self) -> dict[str, Tensor]:
        """Return the weights of the generator."""
        return self.generator.state_dict()

    def build_transfer(self) -> ReferenceTranslator:
        """Return the current translator as it would be loaded."""
        return snapshot_translator(self.generator, self._device)

    def _compute_generator_losses(
        self,
        sim: Tensor,
        real: Tensor,
        fake: Tensor,
        rng: np.random.Generator,
        *,
        is_flipped: bool,
    ) -> dict[str, Tensor]:
        """Return the losses and their weighted sum ``generator``; translations may be of flipped renders."""
        nce = self._compute_nce_loss(sim, fake, rng, is_flipped=is_flipped)
        if self._variant.uses_identity_nce:
            identity_nce = self._compute_nce_loss(real, self.generator(real), rng, is_flipped=False)
            nce = 0.5 * (nce + identity_nce)
        adversarial = lsgan_loss(self._discriminator(fake), is_real=True)
        total = adversarial + self._variant.nce_weight * nce
        return {"adversarial": adversarial, "nce": nce, "generator": total}

    def _compute_nce_loss(
        self, before: Tensor, after: Tensor, rng: np.random.Generator, *, is_flipped: bool
    ) -> Tensor:
        """Return the PatchNCE loss, averaged over layers."""
        after_features = self.generator.extract_features(after)
        if is_flipped:
            after_features = [features.flip(3) for features in after_features]
        with torch.no_grad():  # no gradient through the source
            before_features = self.generator.extract_features(before)
            locations = [_sample_locations(features, rng) for features in before_features]
            targets = self._projector(before_features, locations)
        pairs = zip(self._projector(after_features, locations), targets, strict=True)
        return torch.stack([patch_nce_loss(after, before) for after, before in pairs]).mean()


def _sample_locations(features: Tensor, rng: np.random.Generator) -> Tensor:
    """Sample up to ``_LOCATIONS_PER_LAYER`` distinct pixel indices of features (n, c, h, w)."""
    count = features.shape[2] * features.shape[3]
    indices = rng.permutation(count)[:_LOCATIONS_PER_LAYER]
    return torch.from_numpy(indices).to(features.device)
