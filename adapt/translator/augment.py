"""Differentiable augmentation of discriminator inputs (DiffAugment; Zhao et al., 2020).

It prevents overfitting to few real images. Real images and translations get the same parameters. Colour changes are
smaller than in the paper, because the translator has to match colour.
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
    """Augmentation parameters of n patches.

    Attributes:
        brightness: (n,), offsets.
        contrast, saturation: (n,), factors.
        shift_px: (n, 2), down and right.
        cutout_px: (n, 2), top and left of the square that is filled with grey.
    """

    brightness: NDArray[np.float32]
    contrast: NDArray[np.float32]
    saturation: NDArray[np.float32]
    shift_px: NDArray[np.int64]
    cutout_px: NDArray[np.int64]


def sample_augmentation(rng: np.random.Generator, count: int, patch_px: int) -> Augmentation:
    """Sample augmentation parameters for ``count`` square patches."""
    max_shift = int(patch_px * _SHIFT_FRACTION)
    return Augmentation(
        rng.uniform(-_BRIGHTNESS, _BRIGHTNESS, count).astype(np.float32),
        rng.uniform(*_CONTRAST, count).astype(np.float32),
        rng.uniform(*_SATURATION, count).astype(np.float32),
        rng.integers(-max_shift, max_shift + 1, (count, 2)),
        rng.integers(0, patch_px - int(patch_px * _CUTOUT_FRACTION) + 1, (count, 2)),
    )


def augment(rgb: Tensor, augmentation: Augmentation) -> Tensor:
    """Augment patches (n, 3, side, side), 0 to 1."""

    def broadcast(values: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(values).to(rgb.device).view(-1, 1, 1, 1)

    rgb = rgb + broadcast(augmentation.brightness)
    grey = rgb.mean(dim=1, keepdim=True)
    rgb = grey + broadcast(augmentation.saturation) * (rgb - grey)
    mean = rgb.mean(dim=(1, 2, 3), keepdim=True)
    rgb = mean + broadcast(augmentation.contrast) * (rgb - mean)
    return _cut_out(_shift_patches(rgb, augmentation.shift_px), augmentation.cutout_px)


def _shift_patches(rgb: Tensor, shift_px: NDArray[np.int64]) -> Tensor:
    side = rgb.shape[-1]
    max_shift = int(side * _SHIFT_FRACTION)
    padded = functional.pad(rgb, (max_shift, max_shift, max_shift, max_shift))
    corners = [
        (max_shift - int(shift_y), max_shift - int(shift_x)) for shift_y, shift_x in shift_px
    ]
    return torch.stack(
        [
            patch[:, top : top + side, left : left + side]
            for patch, (top, left) in zip(padded, corners, strict=True)
        ]
    )


def _cut_out(rgb: Tensor, cutout_px: NDArray[np.int64]) -> Tensor:
    size = int(rgb.shape[-1] * _CUTOUT_FRACTION)
    keep_mask = torch.ones_like(rgb[:, :1])
    for mask, (top, left) in zip(keep_mask, cutout_px, strict=True):
        mask[:, top : top + size, left : left + size] = 0.0
    return rgb * keep_mask + 0.5 * (1.0 - keep_mask)
