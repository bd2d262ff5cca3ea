"""How much memory a training of the translator takes, told before it starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from sim2cam.adapt.translator.augment import draw_augmentation
from sim2cam.adapt.translator.buffers import count_channels
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import THUMBNAIL_PX
from sim2cam.adapt.translator.patches import (
    Batch,
    FilmPatches,
    Patches,
    draw_places,
    image_bytes,
)
from sim2cam.adapt.translator.step import build_players, generator_losses, translate
from sim2cam.dataset.sample import Dataset

_PROBE_PX = 64
_COPIES = 5  # of each weight: itself, its gradient, two moments, its average


@dataclass(frozen=True)
class Memory:
    """What a training holds at most.

    Attributes:
        step_bytes: weights, what trains them, and what one step keeps for its gradients; on the
            device.
        images_bytes: decoded images, in the memory of the machine.
    """

    step_bytes: int
    images_bytes: int


def memory_of(
    config: TranslatorConfig, sim: Dataset, real: Dataset, buffers: tuple[str, ...]
) -> Memory:
    """Returns what a training needs, without Python's own and what single operations take for a moment.

    The losses of the generator, whose graph is the largest, are worked out on one small patch, and what
    they keep is counted; it grows with the pixels. In half precision it is less. A detector that is looked
    through (``perception_weight``) comes on top.

    Args:
        config: of the training.
        sim, real: what it is trained on.
        buffers: that the generator is given.
    """
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage.nbytes()
        alive.append(storage)  # so that no other gets its number
        return tensor

    alive: list[torch.UntypedStorage] = []
    players = build_players(config, buffers, torch.device("cpu"))
    batch = _probe(config, count_channels(buffers))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        generator_losses(players, translate(players.generator, batch.sim), batch)
    weights = sum(
        parameter.nbytes
        for network in (players.generator, players.discriminator)
        for parameter in network.parameters()
    )
    images = sum(
        min(config.cache_bytes, sum(image_bytes(s, names) for s in side.samples))
        for side, names in ((sim, buffers), (real, ()))
    )
    patches = config.batch / config.parts * (config.patch_px / _PROBE_PX) ** 2
    return Memory(_COPIES * weights + int(patches * sum(kept.values())), images)


def _probe(config: TranslatorConfig, channels: int) -> Batch:
    """Returns one patch of each side, of a pair, and of a film where films are learned from."""

    def planes(count: int, side: int = _PROBE_PX) -> Tensor:
        return torch.full((1, count, side, side), 0.5)

    patches = Patches(planes(3), planes(channels), planes(1), planes(3, THUMBNAIL_PX))
    draw = draw_augmentation(np.random.default_rng(0), 1, _PROBE_PX)
    places = draw_places(replace(config, patch_px=_PROBE_PX), 0) if config.nce_weight else ()
    film = FilmPatches(patches, patches, planes(3)) if config.flow_weight else None
    return Batch(patches, patches, draw, planes(1), places, film)
