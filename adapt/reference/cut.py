"""CUT and FastCUT (Park et al., 2020): one direction, places compared instead of a cycle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.reference.cyclegan import discriminator_loss, mean_verdict
from sim2cam.adapt.reference.losses import UNDECIDED, least_squares, patch_nce
from sim2cam.adapt.reference.networks import (
    PatchGan,
    PatchProjector,
    ResnetGenerator,
    compared_channels,
    initialise,
)
from sim2cam.adapt.reference.patches import PairSource
from sim2cam.adapt.reference.schedule import adam, descend, rate
from sim2cam.adapt.reference.translator import ReferenceTranslator, translator_in_training
from sim2cam.adapt.training.adversarial import Groups, player_state, restore_player
from sim2cam.seeds import integer_seed, stream

_PLACES = 256  # compared in a layer


@dataclass(frozen=True)
class CutVariant:
    """In what the two differ.

    Attributes:
        nce_weight: of the comparison of places.
        keeps_captures: captures are sent through the generator too, and compared likewise.
        mirrors: every second step, by chance, translates mirrored pictures, and the features of the
            translation are mirrored back.
        constant: share of the steps before the learning rate falls.
    """

    nce_weight: float
    keeps_captures: bool
    mirrors: bool
    constant: float


VARIANTS = {
    "cut": CutVariant(nce_weight=1.0, keeps_captures=True, mirrors=False, constant=0.5),
    "fastcut": CutVariant(nce_weight=10.0, keeps_captures=False, mirrors=True, constant=0.75),
}


class Cut:
    """The game of a generator and a discriminator; a ``Game``."""

    undecided = "discriminator", UNDECIDED

    def __init__(
        self,
        config: ReferenceConfig,
        variant: CutVariant,
        pairs: PairSource,
        device: torch.device,
    ) -> None:
        self._config = config
        self._variant = variant
        self._pairs = pairs
        self._device = device
        self.generator = ResnetGenerator(width=config.width, blocks=config.blocks, antialias=True)
        self._discriminator = PatchGan(width=config.width, antialias=True)
        self._projector = PatchProjector(compared_channels(config.width))
        self._networks = {
            "generator": self.generator,
            "discriminator": self._discriminator,
            "projector": self._projector,
        }
        for name, network in self._networks.items():
            rng = torch.Generator().manual_seed(integer_seed(config.seed, f"reference/cut {name}"))
            initialise(network, rng, xavier=True)
            network.to(device)
        self._optimisers = {name: adam(n.parameters()) for name, n in self._networks.items()}

    def play(self, step: int) -> dict[str, Tensor]:
        """Teaches the discriminator, then the generator and the projector."""
        sim, real = self._pairs.draw(step, self._device)
        rng = stream(self._config.seed, "reference/cut", scene_index=step)
        learning_rate = rate(step, self._config.steps, constant=self._variant.constant)
        is_mirrored = self._variant.mirrors and rng.random() < 0.5
        fake = self.generator(sim.flip(3) if is_mirrored else sim)
        judged = discriminator_loss(self._discriminator, real, fake)
        descend([self._optimisers["discriminator"]], judged, learning_rate)
        losses = self._generator_losses(sim, real, fake, rng, is_mirrored=is_mirrored)
        total = losses["adversarial"] + self._variant.nce_weight * losses["nce"]
        taught = [self._optimisers[name] for name in ("generator", "projector")]
        descend(taught, total, learning_rate)
        self._discriminator.requires_grad_(True)
        upright = fake.flip(3) if is_mirrored else fake
        change = (upright - sim).abs().mean() / 2.0  # pictures are from -1 to 1
        scalars = losses | {"generator": total, "discriminator": judged, "mean_change": change}
        return {name: value.detach() for name, value in scalars.items()}

    def batch(self, step: int) -> dict[str, Tensor]:
        """Returns the patches of a step, from -1 to 1."""
        sim, real = self._pairs.whole(step)
        return {"sim": sim, "real": real}

    def state(self) -> Groups:
        """Returns networks and optimisers."""
        groups: Groups = {}
        for name, network in self._networks.items():
            groups |= player_state(name, network, self._optimisers[name])
        return groups

    def restore(self, groups: Groups) -> None:
        """Becomes the game that ``state`` was taken of."""
        for name, network in self._networks.items():
            restore_player(groups, name, network, self._optimisers[name])

    def weights(self) -> dict[str, Tensor]:
        """Returns those of the generator."""
        return self.generator.state_dict()

    def transfer(self) -> ReferenceTranslator:
        """Returns the translator of these, as it would be loaded."""
        return translator_in_training(self.generator, self._device)

    def verdict(self, rgb: NDArray[np.uint8]) -> float:
        """Returns the discriminator's mean verdict."""
        return mean_verdict(self._discriminator, rgb, self._device)

    def _generator_losses(
        self,
        sim: Tensor,
        real: Tensor,
        fake: Tensor,
        rng: np.random.Generator,
        *,
        is_mirrored: bool,
    ) -> dict[str, Tensor]:
        self._discriminator.requires_grad_(False)
        nce = self._nce(sim, fake, rng, is_mirrored=is_mirrored)
        if self._variant.keeps_captures:
            kept = self._nce(real, self.generator(real), rng, is_mirrored=False)
            nce = 0.5 * (nce + kept)
        return {
            "adversarial": least_squares(self._discriminator(fake), captured=True),
            "nce": nce,
        }

    def _nce(
        self, before: Tensor, after: Tensor, rng: np.random.Generator, *, is_mirrored: bool
    ) -> Tensor:
        """Returns the mean over layers of how hard places are to find again."""
        found = self.generator.features(after)
        if is_mirrored:
            found = [features.flip(3) for features in found]
        with torch.no_grad():  # nothing is learned through the source
            source = self.generator.features(before)
            places = [_places(features, rng) for features in source]
            wanted = self._projector(source, places)
        pairs = zip(self._projector(found, places), wanted, strict=True)
        return torch.stack([patch_nce(after, before) for after, before in pairs]).mean()


def _places(features: Tensor, rng: np.random.Generator) -> Tensor:
    """Returns up to ``_PLACES`` different indices into the pixels of features (n, c, h, w)."""
    count = features.shape[2] * features.shape[3]
    chosen = rng.permutation(count)[:_PLACES]
    return torch.from_numpy(chosen).to(features.device)
