"""Trained residual translator for whole images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sim2cam.adapt.tiles import STRIDE, split_into_tiles
from sim2cam.adapt.transfers.transfer import GBufferFrame
from sim2cam.adapt.translator.buffers import build_buffer_channels, count_channels
from sim2cam.adapt.translator.card import TranslatorCard, card_from_json
from sim2cam.adapt.translator.config import TranslatorConfig
from sim2cam.adapt.translator.generator import Generator, GeneratorOutput
from sim2cam.adapt.translator.patches import make_thumbnail
from sim2cam.learn.device import find_device
from sim2cam.learn.run_folder import WEIGHTS
from sim2cam.learn.weight_file import check_sizes, load_into_network, load_weights, save_weights

TILE_PX = 1536
"""Longest side of a tile without its context."""


@dataclass(frozen=True)
class Translator:
    """Residual translator; a ``Transfer``.

    Attributes:
        generator: generator network.
        buffers: names of its input buffers.
        device: device of the network.
    """

    generator: Generator
    buffers: tuple[str, ...]
    device: torch.device

    def apply(self, frame: GBufferFrame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Return the translated image, RGB of the size of ``frame``.

        Raises:
            Sim2CamError: the frame lacks a buffer that the translator was trained with.
        """
        height, width = frame.rgb.shape[:2]
        rgb = self.translate(frame, rng).rgb[0, :, :height, :width]
        levels = (rgb.permute(1, 2, 0) * 255.0).round().to(torch.uint8)
        return np.ascontiguousarray(levels.cpu().numpy())

    @torch.inference_mode()
    def translate(self, frame: GBufferFrame, rng: np.random.Generator) -> GeneratorOutput:
        """Return the generator's output for a frame, padded to a multiple of ``STRIDE``.

        Large images are translated in tiles. Each tile gets the context of its receptive field, so the result has no
        seams.

        Raises:
            Sim2CamError: the frame lacks a buffer that the translator was trained with.
        """
        rgb = _pad_to_stride(np.ascontiguousarray(frame.rgb.transpose(2, 0, 1), np.float32) / 255.0)
        buffers = _pad_to_stride(build_buffer_channels(frame, self.buffers))
        noise = rng.standard_normal((1, *rgb.shape[1:]), np.float32)
        inputs = [
            torch.from_numpy(values).to(self.device)[None] for values in (rgb, buffers, noise)
        ]
        thumbnail = torch.from_numpy(make_thumbnail(frame.rgb)).to(self.device)[None]
        unclamped, residual = torch.empty_like(inputs[0]), torch.empty_like(inputs[0])
        for rows in split_into_tiles(rgb.shape[1], self.generator.receptive_radius_px, TILE_PX):
            for columns in split_into_tiles(
                rgb.shape[2], self.generator.receptive_radius_px, TILE_PX
            ):
                tile_inputs = (
                    plane[:, :, rows.input_slice, columns.input_slice] for plane in inputs
                )
                output: GeneratorOutput = self.generator(*tile_inputs, thumbnail)
                unclamped[:, :, rows.output_slice, columns.output_slice] = output.unclamped[
                    :, :, rows.crop_slice, columns.crop_slice
                ]
                residual[:, :, rows.output_slice, columns.output_slice] = output.residual[
                    :, :, rows.crop_slice, columns.crop_slice
                ]
        return GeneratorOutput(unclamped, output.colour_delta, residual)


def build_generator(config: TranslatorConfig, buffers: tuple[str, ...]) -> Generator:
    """Build the uninitialised generator of a configuration."""
    return Generator(
        buffers=count_channels(buffers),
        width=config.width,
        blocks=config.blocks,
        colour_bound=config.colour_bound,
        local_bound=config.local_bound,
    )


def save_translator(path: Path, state_dict: Mapping[str, Tensor], card: TranslatorCard) -> None:
    """Write the weights of a generator and their card.

    Raises:
        OutputError: the folder cannot be written.
    """
    save_weights(path, state_dict, card.to_json())


def load_translator(path: Path, *, device: str = "cpu") -> Translator:
    """Load a residual translator.

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
    card = card_from_json(file.with_suffix(".json"), content)
    check_sizes(
        file,
        tensors,
        layers={"config.blocks": card.config.blocks},
        widths={"config.width": card.config.width},
        channels={"buffers (channels)": count_channels(card.buffers)},
    )
    generator = build_generator(card.config, card.buffers)
    load_into_network(file, generator, tensors)
    return build_translator(generator, card.buffers, torch_device)


def build_translator(
    generator: Generator, buffers: tuple[str, ...], device: torch.device
) -> Translator:
    """Wrap a generator for inference."""
    # torch's type stubs lack Module.to(memory_format=…)
    generator.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return Translator(generator.eval().requires_grad_(False), buffers, device)


def _pad_to_stride(channels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pad channels (c, h, w) at the right and bottom to a multiple of ``STRIDE``."""
    height, width = channels.shape[1:]
    return np.pad(channels, [(0, 0), (0, -height % STRIDE), (0, -width % STRIDE)], mode="edge")
