"""What a training of a published translator is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sim2cam.errors import UsageError
from sim2cam.learn.settings import check_minimums

ReferenceMethod = Literal["cyclegan", "cut", "fastcut"]

_MIN_VALUES = {"steps": 1, "seed": 0, "batch": 1, "blocks": 5, "width": 1, "cache_bytes": 0}


@dataclass(frozen=True)
class ReferenceConfig:
    """A training as its paper has it; equal values give equal weights on one machine.

    Weights of losses, the schedule, the pool and the optimiser are the papers' and are no options.

    Attributes:
        steps: of all networks.
        seed: decides initial weights, patches, the pool and the places that are compared.
        batch: rendered patches a step, and as many of captures.
        patch_px: side of the patches, cut at native scale; a multiple of 4.
        width: channels of the generators' first layer.
        blocks: residual blocks of the generators; 9 as published, 6 for patches of 128 px. CUT
            compares features of the first and the fifth.
        cache_bytes: budget of decoded images in memory, for each side; it decides speed only.
    """

    steps: int = 5000
    seed: int = 0
    batch: int = 1
    patch_px: int = 256
    width: int = 64
    blocks: int = 9
    cache_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        """Refuse values that cannot be trained with.

        Raises:
            UsageError: naming the value.
        """
        if self.patch_px < 32 or self.patch_px % 4:
            raise UsageError(f"patch_px must be a multiple of 4 from 32, not {self.patch_px}")
        check_minimums(self, _MIN_VALUES)
