"""Augmentation that the discriminator sees, differentiable (Zhao et al., DiffAugment, 2020).

Few captures are learnt by heart otherwise. Captures and translations get the same draw. Colour is
changed less than in the paper: colour is what the translator has to match.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

_BRIGHTNESS = 0.1
_CONTRAST = (0.85, 1.15)
_SATURATION = (0.7, 1.3)
_SHIFT_FRACTION = 1 / 8  # of the side
_CUTOUT_FRACTION = 1 / 4  # of the side


@dataclass(frozen=True)
class Augmentation:
    """A draw for n patches.

    Attributes:
        brightness, contrast, saturation: (n,), what is added, and two factors.
        shift_px: (n, 2), down and right.
        cutout_px: (n, 2), top and left of the square that is greyed out.
    """

    brightness: NDArray[np.float32]
    contrast: NDArray[np.float32]
    saturation: NDArray[np.float32]
    shift_px: NDArray[np.int64]
    cutout_px: NDArray[np.int64]


def sample_augmentation(rng: np.random.Generator, count: int, patch_px: int) -> Augmentation:
    """Return a draw for ``count`` square patches."""
    reach = int(patch_px * _SHIFT_FRACTION)
    return Augmentation(
        rng.uniform(-_BRIGHTNESS, _BRIGHTNESS, count).astype(np.float32),
        rng.uniform(*_CONTRAST, count).astype(np.float32),
        rng.uniform(*_SATURATION, count).astype(np.float32),
        rng.integers(-reach, reach + 1, (count, 2)),
        rng.integers(0, patch_px - int(patch_px * _CUTOUT_FRACTION) + 1, (count, 2)),
    )


def augment(rgb: Tensor, augmentation: Augmentation) -> Tensor:
    """Return the patches (n, 3, side, side), 0 to 1, as the draw changes them."""

    def column(values: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(values).to(rgb.device).view(-1, 1, 1, 1)

    rgb = rgb + column(augmentation.brightness)
    grey = rgb.mean(dim=1, keepdim=True)
    rgb = grey + column(augmentation.saturation) * (rgb - grey)
    mean = rgb.mean(dim=(1, 2, 3), keepdim=True)
    rgb = mean + column(augmentation.contrast) * (rgb - mean)
    return _cut_out(_shift_patches(rgb, augmentation.shift_px), augmentation.cutout_px)


def _shift_patches(rgb: Tensor, shift_px: NDArray[np.int64]) -> Tensor:
    side = rgb.shape[-1]
    reach = int(side * _SHIFT_FRACTION)
    padded = functional.pad(rgb, (reach, reach, reach, reach))
    corners = [(reach - int(down), reach - int(right)) for down, right in shift_px]
    return torch.stack(
        [
            patch[:, top : top + side, left : left + side]
            for patch, (top, left) in zip(padded, corners, strict=True)
        ]
    )


def _cut_out(rgb: Tensor, cutout_px: NDArray[np.int64]) -> Tensor:
    hole = int(rgb.shape[-1] * _CUTOUT_FRACTION)
    kept = torch.ones_like(rgb[:, :1])
    for mask, (top, left) in zip(kept, cutout_px, strict=True):
        mask[:, top : top + hole, left : left + hole] = 0.0
    return rgb * kept + 0.5 * (1.0 - kept)
