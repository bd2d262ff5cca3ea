"""How much memory a training of a published translator takes at its peak, told before it starts."""

from __future__ import annotations

import torch
from torch import Tensor

from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.image_pool import POOL_SIZE
from sim2cam.adapt.reference.training import build_reference_model
from sim2cam.adapt.training.memory import META, MemoryEstimate, estimate_memory
from sim2cam.adapt.translator.patches import estimate_cached_bytes
from sim2cam.data.sample import Dataset


class _Sizes:
    """Patches that have nothing but their size."""

    def __init__(self, config: ReferenceConfig) -> None:
        self._config = config

    def sample_local_batch(self, step: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return those of both sides."""
        return self.sample_global_batch(step)

    def sample_global_batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the same."""
        return _pictures(self._config, self._config.batch), _pictures(
            self._config, self._config.batch
        )


def estimate_reference_memory(
    method: ReferenceMethod, config: ReferenceConfig, sim: Dataset, real: Dataset
) -> MemoryEstimate:
    """Return what a training takes (``estimate_memory``), with pools that are full.

    Args:
        method: whose networks.
        config: of the training.
        sim, real: what it is trained on.
    """
    game = build_reference_model(method, config, _Sizes(config), META)
    state = game.get_state()
    pools = {name: {"images": _pictures(config, POOL_SIZE)} for name in state if "pool" in name}
    game.load_state(state | pools)
    return estimate_memory(
        game, sum(estimate_cached_bytes(s, (), config.cache_bytes) for s in (sim, real))
    )


def _pictures(config: ReferenceConfig, count: int) -> Tensor:
    return torch.empty((count, 3, config.patch_px, config.patch_px), device=META)
