"""How much memory a training of the translator takes at its peak, told before it starts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sim2cam.adapt.training.memory import META, Memory, memory_of
from sim2cam.adapt.translator.augment import draw_augmentation
from sim2cam.adapt.translator.buffers import count_channels
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import THUMBNAIL_PX
from sim2cam.adapt.translator.patches import (
    Batch,
    FilmPatches,
    Patches,
    cached_bytes,
    draw_places,
)
from sim2cam.adapt.translator.training import ResidualGame
from sim2cam.data.sample import Dataset


def translator_memory(
    config: TranslatorConfig, sim: Dataset, real: Dataset, buffers: tuple[str, ...]
) -> Memory:
    """Returns what a training takes (``memory_of``).

    Args:
        config: of the training.
        sim, real: what it is trained on.
        buffers: that the generator is given.
    """
    batch = _probe(config, count_channels(buffers))
    game = ResidualGame(config, buffers, lambda _step: batch, META)
    sides = ((sim, buffers), (real, ()))
    return memory_of(game, sum(cached_bytes(s, b, config.cache_bytes) for s, b in sides))


def _probe(config: TranslatorConfig, channels: int) -> Batch:
    """Returns the sizes of a batch of pairs, with films where they are learned from."""

    def planes(count: int, side: int = config.patch_px) -> Tensor:
        return torch.empty((config.batch, count, side, side), device=META)

    patches = Patches(planes(3), planes(channels), planes(1), planes(3, THUMBNAIL_PX))
    draw = draw_augmentation(np.random.default_rng(0), config.batch, config.patch_px)
    places = draw_places(config, 0) if config.nce_weight else ()
    film = FilmPatches(patches, patches, planes(3)) if config.flow_weight else None
    return Batch(patches, patches, draw, planes(1), places, film, patches)
