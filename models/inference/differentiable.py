"""Detector outputs with gradients for the input images."""

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
    """Return the network's maps of images (n, 3, h, w), 0 to 1, at the card's input scale.

    Gradients reach the images and, unless frozen, the detector's weights.
    """
    image = resize_images(rgb * 255.0, detector.card.input_scale)
    rows, columns = (-(-side // STRIDE_PX) for side in image.shape[2:])
    with autocast(rgb.device):
        maps: DetectionMaps = detector.network(pad_images(detector.network, image))
    return maps.crop(slice(rows), slice(columns))


def resize_images(images: Tensor, scale: float) -> Tensor:
    """Return images (n, 3, h, w) resized by ``scale``."""
    if scale == 1:
        return images
    if scale < 1:
        return _resize_axis_by_area(_resize_axis_by_area(images, scale, 2), scale, 3)
    return functional.interpolate(
        images, scale_factor=scale, mode="bilinear", recompute_scale_factor=False
    )


def _resize_axis_by_area(images: Tensor, scale: float, axis: int) -> Tensor:
    """Shrink images along an axis; pixels are area means as with ``cv2.INTER_AREA``.

    ONNX has no area interpolation, so the means are summed explicitly.
    """
    size = images.shape[axis]
    low = torch.arange(floor(size * scale + 0.5), device=images.device) / scale
    high = (low + 1 / scale).clamp(max=size)
    broadcast_shape = [-1 if index == axis else 1 for index in range(images.ndim)]
    total, weight = torch.zeros(()), torch.zeros(())
    for offset in range(ceil(1 / scale) + 1):
        pixel = low.floor() + offset
        overlap = (torch.minimum(pixel + 1, high) - torch.maximum(pixel, low)).clamp(min=0)
        pixels = images.index_select(axis, pixel.long().clamp(max=size - 1))
        total, weight = total + pixels * overlap.view(broadcast_shape), weight + overlap
    return total / weight.view(broadcast_shape)


def pad_images(network: DetectorNetwork, images: Tensor) -> Tensor:
    """Pad images (n, 3, h, w), 0 to 255, at the right and bottom with the mean colour.

    The sides become multiples of ``PAD_TO_PX``.
    """
    # torch.export does not support the remainder of a negative size
    bottom, right = (PAD_TO_PX - 1 - (side - 1) % PAD_TO_PX for side in images.shape[2:])
    return functional.pad(images - network.mean, (0, right, 0, bottom)) + network.mean
