"""A trained published translator: whole images in, images of the same size out."""

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
"""Pixels of the largest picture that goes through a generator at once, which takes up to 4 GB."""

TILE_PX = 512
"""Longest side of a tile of larger ones, without what is seen around it."""

CROPS_PER_SIDE, CROP_PX = 4, 256
"""Of larger pictures, as many crops down and as many across tell how the whole is normed."""


@dataclass(frozen=True)
class ReferenceTranslator:
    """Gives renders the look of captures, with no bound to what it changes; a ``Transfer``.

    Attributes:
        generator: the network.
        device: where it is.
    """

    generator: ResnetGenerator
    device: torch.device

    @torch.inference_mode()
    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the translated image, RGB of the size of ``frame``; nothing is drawn of ``rng``.

        Its right and lower edge are repeated up to a multiple of ``STRIDE``, and at least ``MIN_PX``,
        then cut off again. Pictures of more than ``MAX_UNTILED_PX`` go through the generator tile by tile, nearly as
        if there had been one: what norms a picture is measured on crops that are spread over it.
        """
        height, width = frame.rgb.shape[:2]
        down, right = (max(side + -side % STRIDE, MIN_PX) - side for side in (height, width))
        padded = np.pad(frame.rgb, [(0, down), (0, right), (0, 0)], mode="edge")
        picture = torch.from_numpy(padded).to(self.device).permute(2, 0, 1)[None] / 127.5 - 1.0
        is_large = picture[0, 0].numel() > MAX_UNTILED_PX
        made = self._translate_tiled(picture) if is_large else self.generator(picture)
        translated = made[0, :, :height, :width].permute(1, 2, 0)
        levels = ((translated + 1.0) * 127.5).round().clamp(0.0, 255.0).to(torch.uint8)
        return np.ascontiguousarray(levels.cpu().numpy())

    def _translate_tiled(self, image: Tensor) -> Tensor:
        """Return the translation of a large picture (1, 3, h, w), both from -1 to 1."""
        made, reach_px = torch.empty_like(image), self.generator.receptive_radius_px
        with fix_norm_statistics(self.generator, extract_grid_crops(image)):
            for rows in split_into_tiles(image.shape[2], reach_px, TILE_PX):
                for columns in split_into_tiles(image.shape[3], reach_px, TILE_PX):
                    part = self.generator(image[:, :, rows.input_slice, columns.input_slice])
                    kept = part[:, :, rows.crop_slice, columns.crop_slice]
                    made[:, :, rows.output_slice, columns.output_slice] = kept
        return made


def extract_grid_crops(image: Tensor) -> Tensor:
    """Return square crops (n, 3, side, side) spread over a picture (1, 3, h, w), in rows, which overlap where it
    is too narrow.
    """
    side = min(CROP_PX, *image.shape[2:])
    tops, lefts = (
        np.linspace(0, length - side, CROPS_PER_SIDE).astype(int).tolist()
        for length in image.shape[2:]
    )
    crops = [image[0, :, top : top + side, left : left + side] for top in tops for left in lefts]
    return torch.stack(crops)


def load_reference(path: Path, *, device: str = "cpu") -> ReferenceTranslator:
    """Return a published translator, ready to be applied.

    Args:
        path: the folder of a training, or a weights file with its card beside it.
        device: ``cpu``, ``cuda`` or ``cuda:i``.

    Raises:
        CheckpointError: a file is missing, broken, or does not belong to the other.
        UsageError, BackendError: there is no such device.
    """
    place = find_device(device)
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
    return build_translator(generator, place)


def build_translator(generator: ResnetGenerator, device: torch.device) -> ReferenceTranslator:
    """Return a generator, ready to be applied."""
    return ReferenceTranslator(generator.to(device).eval().requires_grad_(False), device)


def snapshot_translator(generator: ResnetGenerator, device: torch.device) -> ReferenceTranslator:
    """Return a copy of a generator that goes on being trained, as it would be loaded."""
    stored = copy.deepcopy(generator)
    stored.load_state_dict(to_half_precision(generator.state_dict()))
    return build_translator(stored, device)


def build_generator(method: ReferenceMethod, config: ReferenceConfig) -> ResnetGenerator:
    """Return the generator of a configuration, its weights not yet drawn."""
    return ResnetGenerator(width=config.width, blocks=config.blocks, antialias=method != "cyclegan")
