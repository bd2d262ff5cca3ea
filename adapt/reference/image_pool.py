"""The pool of earlier translations that CycleGAN's discriminators are shown."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

SIZE = 50


class ImagePool:
    """Up to ``SIZE`` earlier translations (Shrivastava et al., 2017); empty at first.

    Attributes:
        pictures: (k, 3, h, w), k up to ``SIZE``.
    """

    def __init__(self, side: int, device: torch.device) -> None:
        self.pictures = torch.empty((0, 3, side, side), device=device)

    def swap(self, fresh: Tensor, rng: np.random.Generator) -> Tensor:
        """Returns as many pictures (n, 3, h, w) as came: each, or one of the pool in its stead.

        While the pool fills, pictures are kept and returned. Then every second one, by chance, takes
        the place of one of the pool, which is returned.
        """
        shown = []
        for picture in fresh.detach():
            if len(self.pictures) < SIZE:
                self.pictures = torch.cat([self.pictures, picture[None]])
                shown.append(picture)
            elif rng.random() > 0.5:
                place = int(rng.integers(SIZE))
                shown.append(self.pictures[place].clone())
                self.pictures[place] = picture
            else:
                shown.append(picture)
        return torch.stack(shown)
