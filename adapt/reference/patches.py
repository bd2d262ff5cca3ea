"""Training patches of the reference translators, a pure function of seed and step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.translator.patches import PatchSource
from sim2cam.data.sample import Dataset
from sim2cam.learn.distributed import slice_batch
from sim2cam.seeds import derive_rng

PatchBatch = tuple[Tensor, Tensor]
"""Patches of renders and of real images (n, 3, side, side), from -1 to 1."""


def make_patch_sampler(
    sim: Dataset, real: Dataset, config: ReferenceConfig
) -> Callable[[int], PatchBatch]:
    """Return a function from a step to this process's part of its unpaired patches."""
    sources = [
        PatchSource(images, buffers=(), cache_bytes=config.cache_bytes) for images in (sim, real)
    ]
    local = slice_batch(config.batch)

    def sample_patches(step: int) -> PatchBatch:
        rng = derive_rng(config.seed, "reference/batch", scene_index=step)
        sim_patches, real_patches = (
            _to_tensor(source.sample_patch(rng, config.patch_px).rgb for _ in range(config.batch))
            for source in sources
        )
        return sim_patches[local], real_patches[local]

    return sample_patches


def _to_tensor(crops: Iterable[NDArray[np.uint8]]) -> Tensor:
    rgb = np.stack([crop.transpose(2, 0, 1) for crop in crops])
    return torch.from_numpy(rgb).float() / 127.5 - 1.0
