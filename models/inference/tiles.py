"""What a network says of pictures too large for memory, tile by tile."""

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
"""Sides, at the network's scale, of what is looked at in one go: larger pictures would not fit into memory."""

CONTEXT_PX = 128
"""What a tile's network sees around it, beyond which ``nano`` sees nothing and the larger ones hardly anything."""


@torch.inference_mode()
def compute_maps(
    network: DetectorNetwork, rgb: NDArray[np.uint8], input_scale: float
) -> tuple[DetectionMaps, Tensor]:
    """Return the maps of an image, and the features (1, c, h/4, w/4) that they are read from.

    What categories and keypoints are is said at the peaks alone, as ``Detector.read`` has it. Large
    pictures are looked at in tiles, which makes no difference but to memory.

    Args:
        network: what predicts.
        rgb: (height, width, 3) uint8.
        input_scale: magnification before the network.
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
    """Return maps and features of a square of ``TILE_PX`` of a picture, or what there is of it.

    Args:
        network: what predicts.
        rgb: the picture.
        corner: row and column of the square's upper left pixel.
    """
    y, x = (max(start - CONTEXT_PX, 0) for start in corner)
    piece = rgb[y : corner[0] + TILE_PX + CONTEXT_PX, x : corner[1] + TILE_PX + CONTEXT_PX]
    height, width = piece.shape[:2]
    device = network.mean.device
    image = torch.from_numpy(np.array(piece)).to(device).permute(2, 0, 1)[None]
    padded = network.mean.expand(1, 3, _round_up_side(height), _round_up_side(width)).clone(
        memory_format=torch.channels_last
    )
    padded[:, :, :height, :width] = image
    with autocast(device, on_cpu=True):
        features = network.extract_features(padded)
        maps = network.apply_heads(features, (-(-height // STRIDE_PX), -(-width // STRIDE_PX)))
    rows, columns = (
        slice((start - begun) // STRIDE_PX, -(-min(start + TILE_PX - begun, side) // STRIDE_PX))
        for start, begun, side in zip(corner, (y, x), (height, width), strict=True)
    )
    cut = {n: v[..., rows, columns] for n, v in maps._asdict().items() if v is not None}
    return maps._replace(**cut), features[..., rows, columns]


def _join_tiles(rows: list[list[Tensor]]) -> Tensor:
    """Return the map of a picture (..., h, w) from those of its tiles."""
    return torch.cat([torch.cat(row, dim=-1) for row in rows], dim=-2)


def _round_up_side(side: int) -> int:
    return -(-side // PAD_TO_PX) * PAD_TO_PX
