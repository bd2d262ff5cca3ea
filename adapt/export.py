"""Translators as ONNX graphs, with the inputs and outputs of their networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sim2cam.adapt.reference.translator import ReferenceTranslator
from sim2cam.adapt.tiles import STRIDE
from sim2cam.adapt.transfers.transfer import Transfer
from sim2cam.adapt.translator.buffers import count_channels
from sim2cam.adapt.translator.generator import THUMBNAIL_PX, Generator
from sim2cam.adapt.translator.translator import Translator
from sim2cam.errors import UsageError
from sim2cam.learn.onnx import Inputs, write_onnx

_EXAMPLE_SIZES = (64, 96), (80, 52)


class TranslatorGraph(nn.Module):
    """A generator that returns the image alone."""

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        self.generator = generator

    def forward(
        self, rgb: Tensor, noise: Tensor, thumbnail: Tensor, buffers: Tensor | None = None
    ) -> Tensor:
        """Return the translation (1, 3, h, w), 0 to 1; inputs are those of ``Generator``."""
        known = rgb[:, :0] if buffers is None else buffers
        translated: Tensor = self.generator(rgb, known, noise, thumbnail).rgb
        return translated


def export_translator(transfer: Transfer, path: Path) -> None:
    """Write a translator that is a network.

    Ours takes ``rgb``, ``buffers`` (where it was trained with them), ``noise`` and ``thumbnail`` as
    ``Generator`` does; a published one ``rgb`` from -1 to 1. Sides are multiples of 4.

    Raises:
        UsageError: it is no network, or the extra ``export`` is not installed.
        Sim2CamError: the graph computes something else than the network.
        OutputError: the folder cannot be written.
    """
    height, width = (
        STRIDE * torch.export.Dim(name, min=8, max=1024) for name in ("rows", "columns")
    )
    whole = {2: height, 3: width}
    match transfer:
        case Translator(generator, buffers):
            network: nn.Module = TranslatorGraph(generator)
            examples = [
                _build_example_inputs(count_channels(buffers), *sides) for sides in _EXAMPLE_SIZES
            ]
            facts: dict[str, Any] = {"buffers": list(buffers)}
            sizes = dict.fromkeys(("rgb", "noise", "buffers"), whole)
        case ReferenceTranslator(network):
            examples = [{"rgb": 2.0 * _sample_tensor(3, *sides) - 1.0} for sides in _EXAMPLE_SIZES]
            facts, sizes = {}, {"rgb": whole}
        case _:
            raise UsageError(
                "a transfer without a network cannot be ONNX. Give a trained translator."
            )
    write_onnx(path, network.eval(), examples[0], examples[1], sizes, ("translated",), facts)


def _build_example_inputs(channels: int, height: int, width: int) -> Inputs:
    always = {
        "rgb": _sample_tensor(3, height, width),
        "noise": _sample_tensor(1, height, width),
        "thumbnail": _sample_tensor(3, THUMBNAIL_PX, THUMBNAIL_PX),
    }
    return always | ({"buffers": _sample_tensor(channels, height, width)} if channels else {})


def _sample_tensor(channels: int, height: int, width: int) -> Tensor:
    return torch.rand(1, channels, height, width, generator=torch.Generator().manual_seed(0))
