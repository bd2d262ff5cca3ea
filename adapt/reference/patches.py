"""Training patches of the reference translators, a pure function of seed and step."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from sim2cam.adapt.reference.config import ReferenceConfig
from sim2cam.adapt.translator.patches import PatchSource
from sim2cam.data.sample import Dataset
from sim2cam.learn.distributed import slice_batch
from sim2cam.seeds import derive_rng


class BatchSource(Protocol):
    """Source of patches of renders and real images (n, 3, side, side), from -1 to 1, by step."""

    def sample_local_batch(self, step: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the part of the global batch that belongs to this process."""
        ...

    def sample_global_batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the batch of all processes."""
        ...


class UnpairedBatchSource:
    """Unpaired patches of renders and real images, sampled as for the residual translator."""

    def __init__(self, sim: Dataset, real: Dataset, config: ReferenceConfig) -> None:
        self._config = config
        self._sources = [
            PatchSource(images, buffers=(), cache_bytes=config.cache_bytes)
            for images in (sim, real)
        ]

    def sample_local_batch(self, step: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the part of the global batch that belongs to this process."""
        local = slice_batch(self._config.batch)
        sim, real = (patches[local].to(device) for patches in self.sample_global_batch(step))
        return sim, real

    def sample_global_batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return patches of renders and real images (n, 3, side, side), from -1 to 1."""
        rng = derive_rng(self._config.seed, "reference/batch", scene_index=step)
        sim, real = (self._sample_patches(source, rng) for source in self._sources)
        return sim, real

    def _sample_patches(self, source: PatchSource, rng: np.random.Generator) -> Tensor:
        crops = [source.sample_patch(rng, self._config.patch_px) for _ in range(self._config.batch)]
        rgb = np.stack([crop.rgb.transpose(2, 0, 1) for crop in crops])
        return torch.from_numpy(rgb).float() / 127.5 - 1.0
