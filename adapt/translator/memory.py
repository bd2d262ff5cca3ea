"""How much memory a training of the translator takes at its peak, told before it starts."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sim2cam.adapt.training.memory import META, MemoryEstimate, estimate_memory
from sim2cam.adapt.translator.augment import sample_augmentation
from sim2cam.adapt.translator.buffers import count_channels
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import THUMBNAIL_PX
from sim2cam.adapt.translator.patches import (
    FramePairPatches,
    PatchBatch,
    TranslatorBatch,
    estimate_cached_bytes,
    sample_nce_locations,
)
from sim2cam.adapt.translator.training import ResidualGan
from sim2cam.data.sample import Dataset


def estimate_translator_memory(
    config: TranslatorConfig, sim: Dataset, real: Dataset, buffers: tuple[str, ...]
) -> MemoryEstimate:
    """Return what a training takes (``estimate_memory``).

    Args:
        config: of the training.
        sim, real: what it is trained on.
        buffers: that the generator is given.
    """
    batch = _probe(config, count_channels(buffers))
    game = ResidualGan(config, buffers, lambda _step: batch, META)
    sides = ((sim, buffers), (real, ()))
    return estimate_memory(
        game, sum(estimate_cached_bytes(s, b, config.cache_bytes) for s, b in sides)
    )


def _probe(config: TranslatorConfig, channels: int) -> TranslatorBatch:
    """Return the sizes of a batch of pairs, with films where they are learned from."""

    def planes(count: int, side: int = config.patch_px) -> Tensor:
        return torch.empty((config.batch, count, side, side), device=META)

    patches = PatchBatch(planes(3), planes(channels), planes(1), planes(3, THUMBNAIL_PX))
    draw = sample_augmentation(np.random.default_rng(0), config.batch, config.patch_px)
    places = sample_nce_locations(config, 0) if config.nce_weight else ()
    film = FramePairPatches(patches, patches, planes(3)) if config.flow_weight else None
    return TranslatorBatch(patches, patches, draw, planes(1), places, film, patches)
