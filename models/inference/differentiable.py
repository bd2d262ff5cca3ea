"""What a detector says of pictures that something else still learns to make."""

from __future__ import annotations

from math import ceil, floor

import torch
from torch import Tensor
from torch.nn import functional

from sim2cam.learn.device import autocast
from sim2cam.models.inference.detector import LoadedDetector
from sim2cam.models.inference.tiles import PAD_TO_PX
from sim2cam.models.network.detector import STRIDE_PX, Detector, Maps


def perceive(detector: LoadedDetector, rgb: Tensor) -> Maps:
    """Returns the maps of pictures (n, 3, h, w), 0 to 1, as they are seen at the card's magnification.

    Gradients reach the pictures; the detector's weights get some too, unless they are frozen.
    """
    image = magnified(rgb * 255.0, detector.card.magnification)
    rows, columns = (-(-side // STRIDE_PX) for side in image.shape[2:])
    with autocast(rgb.device):
        maps = detector.network(filled_up(detector.network, image))
    cut = {n: v[..., :rows, :columns] for n, v in maps._asdict().items() if v is not None}
    return Maps(**cut)


def magnified(image: Tensor, scale: float) -> Tensor:
    """Returns images (n, 3, h, w) that are larger or smaller."""
    if scale == 1:
        return image
    if scale < 1:
        return _averaged(_averaged(image, scale, 2), scale, 3)
    return functional.interpolate(
        image, scale_factor=scale, mode="bilinear", recompute_scale_factor=False
    )


def _averaged(image: Tensor, scale: float, axis: int) -> Tensor:
    """Returns images of which an axis is shorter: pixels are means of what they cover, as ``seen.scaled`` has them.

    It is written in steps that ONNX has too, which knows no such means.
    """
    size = image.shape[axis]
    low = torch.arange(floor(size * scale + 0.5), device=image.device) / scale
    high = (low + 1 / scale).clamp(max=size)
    along = [-1 if number == axis else 1 for number in range(image.ndim)]
    found, covered = torch.zeros(()), torch.zeros(())
    for number in range(ceil(1 / scale) + 1):
        pixel = low.floor() + number
        share = (torch.minimum(pixel + 1, high) - torch.maximum(pixel, low)).clamp(min=0)
        piece = image.index_select(axis, pixel.long().clamp(max=size - 1))
        found, covered = found + piece * share.view(along), covered + share
    return found / covered.view(along)


def filled_up(network: Detector, image: Tensor) -> Tensor:
    """Returns images (n, 3, h, w), 0 to 255, with sides of multiples of ``PAD_TO_PX``, filled up to the
    right and below with the mean colour.
    """
    # torch.export knows no remainder of a negative size
    down, right = (PAD_TO_PX - 1 - (side - 1) % PAD_TO_PX for side in image.shape[2:])
    return functional.pad(image - network.mean, (0, right, 0, down)) + network.mean
