"""Photometric augmentation of crops; the only use of albumentations."""

from __future__ import annotations

import os
import random  # noqa: TID251 albumentations needs a generator of this type too
import threading

import numpy as np
from numpy.typing import NDArray

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # no network access at import

import albumentations as A  # noqa: N812, TID251
import cv2


class PhotometricAugmentation:
    """Photometric augmentation, which keeps geometry; thread-safe.

    Args:
        strong: also change colours, contrast and sharpness as the detectors of GDRNPP do (Liu et al. 2022).
    """

    def __init__(self, *, strong: bool = False) -> None:
        self._strong = strong
        self._local = threading.local()

    def __call__(self, rgb: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
        """Return the augmented image (h, w, 3); equal seeds give equal results."""
        if not hasattr(self._local, "compose"):
            transforms = _list_transforms()
            if self._strong:
                transforms = [*_list_strong_transforms(), *transforms]
            self._local.compose = A.Compose(transforms)
        compose: A.Compose = self._local.compose
        # one shared generator: set_random_seed would give each transform the same numbers
        compose.set_random_state(np.random.default_rng(seed), random.Random(seed))
        return np.asarray(compose(image=rgb)["image"], dtype=np.uint8)


def _list_transforms() -> list[A.BasicTransform | A.BaseCompose]:
    """Return the transforms in the order of image formation: light, optics, sensor, processing."""
    shadow = {"num_shadows_limit": (1, 2), "shadow_intensity_range": (0.2, 0.6)}
    interpolation = {"downscale": cv2.INTER_AREA, "upscale": cv2.INTER_LINEAR}
    blur = [
        A.GaussianBlur(blur_limit=0, sigma_limit=(0.3, 1.5), p=1),
        A.MotionBlur(blur_limit=(3, 5), allow_shifted=False, p=0.5),
        A.Downscale(scale_range=(0.5, 0.9), interpolation_pair=interpolation, p=0.5),
    ]
    noise = [
        A.GaussNoise(std_range=(0.005, 0.05), p=1),
        A.GaussNoise(std_range=(0.005, 0.03), per_channel=False, p=0.5),
        A.ISONoise(color_shift=(0.01, 0.04), intensity=(0.1, 0.4), p=0.5),
    ]
    colour = [
        A.RGBShift((-20, 20), (-20, 20), (-20, 20), p=0.5),
        A.HueSaturationValue((-15, 15), (-40, 40), (-15, 15), p=1),
        A.ToGray(p=0.08),
    ]
    return [
        A.RandomShadow(shadow_roi=(0, 0, 1, 1), **shadow, p=0.08),
        A.Illumination(intensity_range=(0.02, 0.2), p=0.1),
        A.RandomBrightnessContrast((-0.25, 0.25), (-0.3, 0.3), p=0.7),
        A.OneOf(blur, p=0.35),
        A.OneOf(noise, p=0.35),
        A.OneOf(colour, p=0.6),
        A.RandomGamma((65, 150), p=0.35),
        A.Sharpen(alpha=(0.1, 0.4), lightness=(0.9, 1.1), p=0.15),
        A.ImageCompression(quality_range=(40, 95), p=0.35),
    ]


def _list_strong_transforms() -> list[A.BasicTransform | A.BaseCompose]:
    """Return transforms of the strength in GDRNPP's configuration; half of the images get each."""
    hole_range = (0.03, 0.12)
    holes = A.CoarseDropout(
        num_holes_range=(2, 12),
        hole_height_range=hole_range,
        hole_width_range=hole_range,
        fill="random_uniform",
        p=0.3,
    )
    colour = [
        A.ColorJitter(
            brightness=(0.3, 2.0),
            contrast=(0.4, 2.5),
            saturation=(0.0, 3.0),
            hue=(-0.03, 0.03),
            p=1,
        ),
        A.MultiplicativeNoise((0.6, 1.4), per_channel=True, p=1),
        A.RGBShift((-25, 25), (-25, 25), (-25, 25), p=1),
    ]
    sharpness = [
        A.GaussianBlur(blur_limit=0, sigma_limit=(0.5, 3.0), p=0.6),
        A.Sharpen(alpha=(0.3, 1.0), lightness=(0.8, 1.2), p=0.4),
    ]
    return [
        holes,
        A.SomeOf(colour, n=2, replace=False, p=0.5),
        A.OneOf(sharpness, p=0.4),
        A.ChannelDropout(p=0.03),
        A.InvertImg(p=0.03),
    ]
