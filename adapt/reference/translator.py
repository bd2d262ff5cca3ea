"""A trained published translator: whole images in, images of the same size out."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from sim2cam.adapt.frame import Frame
from sim2cam.adapt.reference.card import ReferenceCard
from sim2cam.adapt.reference.config import ReferenceConfig, ReferenceMethod
from sim2cam.adapt.reference.networks import LEAST_PX, STRIDE, ResnetGenerator
from sim2cam.training.device import find_device
from sim2cam.training.run import WEIGHTS
from sim2cam.training.weights import as_stored, card_path, fill_network, load_weights, read_card


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
    def apply(self, frame: Frame, rng: np.random.Generator) -> NDArray[np.uint8]:
        """Returns the translated image, RGB of the size of ``frame``; nothing is drawn of ``rng``.

        Its right and lower edge are repeated up to a multiple of ``STRIDE``, and at least ``LEAST_PX``,
        then cut off again.
        """
        height, width = frame.rgb.shape[:2]
        down, right = (max(side + -side % STRIDE, LEAST_PX) - side for side in (height, width))
        padded = np.pad(frame.rgb, [(0, down), (0, right), (0, 0)], mode="edge")
        picture = torch.from_numpy(padded).to(self.device).permute(2, 0, 1)[None] / 127.5 - 1.0
        translated = self.generator(picture)[0, :, :height, :width].permute(1, 2, 0)
        levels = ((translated + 1.0) * 127.5).round().clamp(0.0, 255.0).to(torch.uint8)
        return np.ascontiguousarray(levels.cpu().numpy())


def load_reference(path: Path, *, device: str = "cpu") -> ReferenceTranslator:
    """Returns a published translator, ready to be applied.

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
    card = read_card(card_path(file), content, ReferenceCard, "a reference translator")
    generator = build_generator(card.method, card.config)
    fill_network(file, generator, tensors)
    return translator_of(generator, place)


def translator_of(generator: ResnetGenerator, device: torch.device) -> ReferenceTranslator:
    """Returns a generator, ready to be applied."""
    return ReferenceTranslator(generator.to(device).eval().requires_grad_(False), device)


def translator_in_training(generator: ResnetGenerator, device: torch.device) -> ReferenceTranslator:
    """Returns a copy of a generator that goes on being trained, as it would be loaded."""
    stored = copy.deepcopy(generator)
    stored.load_state_dict(as_stored(generator.state_dict()))
    return translator_of(stored, device)


def build_generator(method: ReferenceMethod, config: ReferenceConfig) -> ResnetGenerator:
    """Returns the generator of a configuration, its weights not yet drawn."""
    return ResnetGenerator(width=config.width, blocks=config.blocks, antialias=method != "cyclegan")
