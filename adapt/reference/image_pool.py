"""Pool of earlier translations for the discriminators of CycleGAN (Shrivastava et al., 2017)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

POOL_SIZE = 50


class ImagePool(nn.Module):
    """Pool of up to ``POOL_SIZE`` earlier translations, initially empty.

    Attributes:
        images: (POOL_SIZE, 3, side, side), of which the first ``count`` are used.
    """

    images: Tensor
    count: Tensor

    def __init__(self, side: int) -> None:
        super().__init__()
        self.register_buffer("images", torch.zeros(POOL_SIZE, 3, side, side))
        self.register_buffer("count", torch.tensor(0))

    def swap(self, new_images: Tensor, rng: np.random.Generator) -> Tensor:
        """Return each new image (n, 3, h, w), or an earlier one in its place.

        While the pool fills, images are stored and returned. Then a random half of them replaces an image of the
        pool, which is returned.
        """
        images = []
        for image in new_images.detach():
            count = int(self.count)
            if count < POOL_SIZE:
                self.images[count] = image
                self.count += 1
                images.append(image)
            elif rng.random() > 0.5:
                index = int(rng.integers(POOL_SIZE))
                images.append(self.images[index].clone())
                self.images[index] = image
            else:
                images.append(image)
        return torch.stack(images)
