"""The pool of earlier translations that CycleGAN's discriminators are shown."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

POOL_SIZE = 50


class ImagePool:
    """Up to ``POOL_SIZE`` earlier translations (Shrivastava et al., 2017); empty at first.

    Attributes:
        images: (k, 3, h, w), k up to ``POOL_SIZE``.
    """

    def __init__(self, side: int, device: torch.device) -> None:
        self.images = torch.empty((0, 3, side, side), device=device)

    def swap(self, new_images: Tensor, rng: np.random.Generator) -> Tensor:
        """Return as many pictures (n, 3, h, w) as came: each, or one of the pool in its stead.

        While the pool fills, pictures are kept and returned. Then every second one, by chance, takes
        the place of one of the pool, which is returned.
        """
        shown = []
        for picture in new_images.detach():
            if len(self.images) < POOL_SIZE:
                self.images = torch.cat([self.images, picture[None]])
                shown.append(picture)
            elif rng.random() > 0.5:
                place = int(rng.integers(POOL_SIZE))
                shown.append(self.images[place].clone())
                self.images[place] = picture
            else:
                shown.append(picture)
        return torch.stack(shown)
