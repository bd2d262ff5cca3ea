"""Training configuration of the reference translators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from sim2cam.errors import UsageError
from sim2cam.learn.settings import check_settings
from sim2cam.scene.parameters import Between

ReferenceMethod = Literal["cyclegan", "cut", "fastcut"]


@dataclass(frozen=True)
class ReferenceConfig:
    """Training configuration; equal values give equal weights on one machine.

    Loss weights, learning rate schedule, image pool and optimiser are fixed to the values of the papers.

    Attributes:
        steps: training steps of all networks.
        seed: seed of initial weights, patches, image pool and NCE locations.
        batch: patches of renders per step, and as many of real images.
        patch_px: side of the patches, cropped at native scale; a multiple of 4.
        width: channels of the first generator layer.
        blocks: residual blocks of the generators: 9 in the papers, 6 for patches of 128 px. CUT uses features of
            the first and the fifth.
        cache_bytes: memory budget of decoded images for each side; affects only speed.
    """

    steps: Annotated[int, Between(1)] = 5000
    seed: Annotated[int, Between(0)] = 0
    batch: Annotated[int, Between(1)] = 1
    patch_px: int = 256
    width: Annotated[int, Between(1)] = 64
    blocks: Annotated[int, Between(5)] = 9
    cache_bytes: Annotated[int, Between(0)] = 1 << 30

    def __post_init__(self) -> None:
        """Raise if a value is out of range.

        Raises:
            UsageError: a value is out of range.
        """
        if self.patch_px < 32 or self.patch_px % 4:
            raise UsageError(
                f"patch_px must be a multiple of 4 and at least 32, not {self.patch_px}"
            )
        check_settings(self)
