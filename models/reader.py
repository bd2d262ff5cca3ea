"""What is read from close-ups of objects: which category they show, and which points of the object's surface."""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from sim2cam.models.backbones import TRUNK_CHANNELS, Neck, Trunk

SURFACE_STRIDE_PX = 4
SURFACE_MAPS = 5  # shown, three coordinates, logarithm of the spread
_NECK_CHANNELS = 64


class Reading(NamedTuple):
    """What close-ups show.

    Attributes:
        categories: logits (n, c); None where categories are not read.
        surfaces: for each category, of every cell of ``SURFACE_STRIDE_PX`` pixels: the logit of its showing
            the object in the middle; which point of the surface it shows, in the object's frame over its
            reach; and the natural logarithm of how far off that is (n, c, ``SURFACE_MAPS``, h/4, w/4); None
            without poses.
    """

    categories: Tensor | None
    surfaces: Tensor | None


class Reader(nn.Module):
    """Reads close-ups (n, 3, h, w), normalized as for ``Trunk``.

    The point of the surface that a pixel shows is learned sooner than how the whole object lies, and is known
    as well of objects that are half hidden (Brachmann et al. 2014; Li et al. 2019, "CDPN").

    Args:
        n_categories: how many categories there are.
        blocks: residual blocks at stride 4, 8 and 16.
        categories: whether it reads which one a close-up shows.
        surfaces: whether it reads which points of the surface are shown.
    """

    def __init__(
        self, n_categories: int, blocks: tuple[int, int, int], *, categories: bool, surfaces: bool
    ) -> None:
        super().__init__()
        self.trunk = Trunk(blocks)
        self.category = nn.Linear(TRUNK_CHANNELS[-1], n_categories) if categories else None
        self.surface: SurfaceHead | None = SurfaceHead(n_categories) if surfaces else None

    def forward(self, image: Tensor) -> Reading:
        """Returns what the close-ups show, in single precision."""
        stages = self.trunk(image)
        return Reading(
            None if self.category is None else self.category(stages[-1].mean((2, 3))).float(),
            None if self.surface is None else self.surface(stages),
        )


class SurfaceHead(nn.Module):
    """The ``surfaces`` of a ``Reading``."""

    def __init__(self, n_categories: int) -> None:
        super().__init__()
        self.neck = Neck(_NECK_CHANNELS, _NECK_CHANNELS)
        self.outputs = nn.Conv2d(_NECK_CHANNELS, n_categories * SURFACE_MAPS, 1)

    def forward(self, stages: list[Tensor]) -> Tensor:
        """Returns them, of what a ``Trunk`` returned."""
        features = self.neck(stages)
        # bfloat16 has steps of a 128th of the object's reach
        with torch.autocast(features.device.type, enabled=False):
            said = self.outputs(features.float())
        return cast("Tensor", said.unflatten(1, (-1, SURFACE_MAPS)))
