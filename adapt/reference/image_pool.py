"""Pool of earlier translations for the discriminators of CycleGAN (Shrivastava et al., 2017)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

POOL_SIZE = 50


class ImagePool:
    """Pool of up to ``POOL_SIZE`` earlier translations, initially empty.

    Attributes:
        images: (k, 3, h, w), with k up to ``POOL_SIZE``.
    """

    def __init__(self, side: int, device: torch.device) -> None:
        self.images = torch.empty((0, 3, side, side), device=device)

    def swap(self, new_images: Tensor, rng: np.random.Generator) -> Tensor:
        """Return each new image (n, 3, h, w), or an earlier one in its place.

        While the pool fills, images are stored and returned. Then a random half of them replaces an image of the
        pool, which is returned.
        """
        images = []
        for image in new_images.detach():
            if len(self.images) < POOL_SIZE:
                self.images = torch.cat([self.images, image[None]])
                images.append(image)
            elif rng.random() > 0.5:
                index = int(rng.integers(POOL_SIZE))
                images.append(self.images[index].clone())
                self.images[index] = image
            else:
                images.append(image)
        return torch.stack(images)
