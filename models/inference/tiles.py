"""Tiled inference for images too large for memory."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.learn.device import autocast
from sim2cam.models.inference.detections import rescale_image
from sim2cam.models.network.detector import STRIDE_PX, DetectionMaps, DetectorNetwork

PAD_TO_PX = 32
TILE_PX = 1536
"""Side of a tile at the network's scale, limited by memory."""

CONTEXT_PX = 128
"""Context around a tile. It covers the receptive field of ``nano`` and nearly that of the larger networks."""


@torch.inference_mode()
def compute_maps(
    network: DetectorNetwork, rgb: NDArray[np.uint8], input_scale: float
) -> tuple[DetectionMaps, Tensor]:
    """Return the maps of an image, and the features (1, c, h/4, w/4) that the heads use.

    Categories and keypoints are computed at peaks only, see ``DetectorNetwork.apply_heads``. Large images are
    processed in tiles, which saves memory and does not change the maps.

    Args:
        rgb: (h, w, 3) uint8.
        input_scale: scale of the image before the network.
    """
    rgb = rescale_image(rgb, input_scale)
    height, width = rgb.shape[:2]
    rows = [
        [_compute_tile_maps(network, rgb, (y, x)) for x in range(0, width, TILE_PX)]
        for y in range(0, height, TILE_PX)
    ]
    (first, *_), *_ = rows
    if max(height, width) <= TILE_PX:
        return first
    maps = {
        name: _join_tiles([[getattr(maps, name) for maps, _ in row] for row in rows])
        for name, values in first[0]._asdict().items()
        if values is not None
    }
    return first[0]._replace(**maps), _join_tiles(
        [[features for _, features in row] for row in rows]
    )


def _compute_tile_maps(
    network: DetectorNetwork, rgb: NDArray[np.uint8], corner: tuple[int, int]
) -> tuple[DetectionMaps, Tensor]:
    """Return maps and features of a tile of ``TILE_PX``, clipped to the image.

    Args:
        corner: row and column of the tile's upper left pixel.
    """
    y, x = (max(start - CONTEXT_PX, 0) for start in corner)
    tile = rgb[y : corner[0] + TILE_PX + CONTEXT_PX, x : corner[1] + TILE_PX + CONTEXT_PX]
    height, width = tile.shape[:2]
    device = network.mean.device
    image = torch.from_numpy(np.array(tile)).to(device).permute(2, 0, 1)[None]
    sides = (-(-side // PAD_TO_PX) * PAD_TO_PX for side in (height, width))
    padded = network.mean.expand(1, 3, *sides).clone(memory_format=torch.channels_last)
    padded[:, :, :height, :width] = image
    with autocast(device, on_cpu=True):
        features = network.extract_features(padded)
        maps = network.apply_heads(features, (-(-height // STRIDE_PX), -(-width // STRIDE_PX)))
    rows, columns = (
        slice((start - offset) // STRIDE_PX, -(-min(start + TILE_PX - offset, side) // STRIDE_PX))
        for start, offset, side in zip(corner, (y, x), (height, width), strict=True)
    )
    return maps.crop(rows, columns), features[..., rows, columns]


def _join_tiles(rows: list[list[Tensor]]) -> Tensor:
    """Join maps of tiles to the map of the image (..., h, w)."""
    return torch.cat([torch.cat(row, dim=-1) for row in rows], dim=-2)
