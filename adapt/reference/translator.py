"""Trained reference translator for whole images."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.adapt.reference.card import ReferenceCard
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.networks import MIN_PX, ResnetGenerator, fix_norm_statistics
from sim2cam.adapt.tiles import STRIDE, split_into_tiles
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.learn.device import find_device
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import (
    check_sizes,
    get_card_path,
    load_into_network,
    load_weights,
    parse_card,
    to_half_precision,
)

MAX_UNTILED_PX = 1 << 20
"""Pixels of the largest image that is translated without tiles; it takes up to 4 GB."""

TILE_PX = 512
"""Longest side of a tile without its context."""

CROPS_PER_SIDE, CROP_PX = 4, 256
"""Normalization statistics of tiled images are measured on a square grid of crops."""


@dataclass(frozen=True)
class ReferenceTranslator:
    """Reference translator without bounds on its changes; a ``Transfer``.

    Attributes:
        generator: generator network.
        device: device of the network.
    """

    generator: ResnetGenerator
    device: torch.device

    @torch.inference_mode()
    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the translated image, RGB of the size of ``frame``; ``rng`` is not used.

        Images are padded on the right and at the bottom to a multiple of ``STRIDE`` and at least ``MIN_PX``.
        Images of more than ``MAX_UNTILED_PX`` are translated in tiles, with normalization statistics measured on
        crops, so the result is nearly the same as in one piece.
        """
        height, width = frame.rgb.shape[:2]
        pad_bottom, pad_right = (
            max(side + -side % STRIDE, MIN_PX) - side for side in (height, width)
        )
        padded = np.pad(frame.rgb, [(0, pad_bottom), (0, pad_right), (0, 0)], mode="edge")
        image = torch.from_numpy(padded).to(self.device).permute(2, 0, 1)[None] / 127.5 - 1.0
        is_large = image[0, 0].numel() > MAX_UNTILED_PX
        output = self._translate_tiled(image) if is_large else self.generator(image)
        translated = output[0, :, :height, :width].permute(1, 2, 0)
        levels = ((translated + 1.0) * 127.5).round().clamp(0.0, 255.0).to(torch.uint8)
        return np.ascontiguousarray(levels.cpu().numpy())

    def _translate_tiled(self, image: Tensor) -> Tensor:
        """Return the translation of a large image (1, 3, h, w), both from -1 to 1."""
        output, context_px = torch.empty_like(image), self.generator.receptive_radius_px
        with fix_norm_statistics(self.generator, extract_grid_crops(image)):
            for rows in split_into_tiles(image.shape[2], context_px, TILE_PX):
                for columns in split_into_tiles(image.shape[3], context_px, TILE_PX):
                    tile = self.generator(image[:, :, rows.input_slice, columns.input_slice])
                    cropped = tile[:, :, rows.crop_slice, columns.crop_slice]
                    output[:, :, rows.output_slice, columns.output_slice] = cropped
        return output


def extract_grid_crops(image: Tensor) -> Tensor:
    """Return a grid of square crops (n, 3, side, side) of an image (1, 3, h, w); they may overlap."""
    side = min(CROP_PX, *image.shape[2:])
    tops, lefts = (
        np.linspace(0, length - side, CROPS_PER_SIDE).astype(int).tolist()
        for length in image.shape[2:]
    )
    crops = [image[0, :, top : top + side, left : left + side] for top in tops for left in lefts]
    return torch.stack(crops)


def load_reference(path: Path, *, device: str = "cpu") -> ReferenceTranslator:
    """Load a reference translator.

    Args:
        path: run folder of a training, or a weights file with its card.
        device: ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        CheckpointError: a file is missing or broken, or weights and card do not match.
        UsageError, BackendError: the device does not exist.
    """
    torch_device = find_device(device)
    file = path / WEIGHTS if path.is_dir() else path
    tensors, content = load_weights(file)
    card = parse_card(get_card_path(file), content, ReferenceCard, "a reference translator")
    check_sizes(
        file,
        tensors,
        layers={"config.blocks": card.config.blocks},
        widths={"config.width": card.config.width},
    )
    generator = build_generator(card.method, card.config)
    load_into_network(file, generator, tensors)
    return build_translator(generator, torch_device)


def build_translator(generator: ResnetGenerator, device: torch.device) -> ReferenceTranslator:
    """Wrap a generator for inference."""
    return ReferenceTranslator(generator.to(device).eval().requires_grad_(False), device)


def snapshot_translator(generator: ResnetGenerator, device: torch.device) -> ReferenceTranslator:
    """Return a translator with a copy of a generator in training, rounded as in the weights file."""
    snapshot = copy.deepcopy(generator)
    snapshot.load_state_dict(to_half_precision(generator.state_dict()))
    return build_translator(snapshot, device)


def build_generator(method: ReferenceMethod, config: ReferenceConfig) -> ResnetGenerator:
    """Build the uninitialised generator of a configuration."""
    return ResnetGenerator(width=config.width, blocks=config.blocks, antialias=method != "cyclegan")
