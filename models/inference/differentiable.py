"""What a detector says of pictures that something else still learns to make."""

from __future__ import annotations

from math import ceil, floor

import torch
from torch import Tensor
from torch.nn import functional

from sim2cam.learn.device import autocast
from sim2cam.models.inference.detector import NativeDetector
from sim2cam.models.inference.tiles import PAD_TO_PX
from sim2cam.models.network.detector import STRIDE_PX, DetectionMaps, DetectorNetwork


def compute_differentiable_maps(detector: NativeDetector, rgb: Tensor) -> DetectionMaps:
    """Return the maps of pictures (n, 3, h, w), 0 to 1, as they are seen at the card's magnification.

    Gradients reach the pictures; the detector's weights get some too, unless they are frozen.
    """
    image = resize_images(rgb * 255.0, detector.card.input_scale)
    rows, columns = (-(-side // STRIDE_PX) for side in image.shape[2:])
    with autocast(rgb.device):
        maps = detector.network(pad_images(detector.network, image))
    cut = {n: v[..., :rows, :columns] for n, v in maps._asdict().items() if v is not None}
    return DetectionMaps(**cut)


def resize_images(images: Tensor, scale: float) -> Tensor:
    """Return images (n, 3, h, w) that are larger or smaller."""
    if scale == 1:
        return images
    if scale < 1:
        return _resize_axis_by_area(_resize_axis_by_area(images, scale, 2), scale, 3)
    return functional.interpolate(
        images, scale_factor=scale, mode="bilinear", recompute_scale_factor=False
    )


def _resize_axis_by_area(images: Tensor, scale: float, axis: int) -> Tensor:
    """Return images of which an axis is shorter: pixels are means of what they cover, as ``seen.scaled`` has them.

    It is written in steps that ONNX has too, which knows no such means.
    """
    size = images.shape[axis]
    low = torch.arange(floor(size * scale + 0.5), device=images.device) / scale
    high = (low + 1 / scale).clamp(max=size)
    along = [-1 if number == axis else 1 for number in range(images.ndim)]
    found, covered = torch.zeros(()), torch.zeros(())
    for number in range(ceil(1 / scale) + 1):
        pixel = low.floor() + number
        share = (torch.minimum(pixel + 1, high) - torch.maximum(pixel, low)).clamp(min=0)
        piece = images.index_select(axis, pixel.long().clamp(max=size - 1))
        found, covered = found + piece * share.view(along), covered + share
    return found / covered.view(along)


def pad_images(network: DetectorNetwork, images: Tensor) -> Tensor:
    """Return images (n, 3, h, w), 0 to 255, with sides of multiples of ``PAD_TO_PX``, filled up to the
    right and below with the mean colour.
    """
    # torch.export knows no remainder of a negative size
    down, right = (PAD_TO_PX - 1 - (side - 1) % PAD_TO_PX for side in images.shape[2:])
    return functional.pad(images - network.mean, (0, right, 0, down)) + network.mean
