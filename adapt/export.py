"""ONNX export of translators."""

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
    """A generator that returns only the image."""

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        self.generator = generator

    def forward(
        self, rgb: Tensor, noise: Tensor, thumbnail: Tensor, buffers: Tensor | None = None
    ) -> Tensor:
        """Return the translation (1, 3, h, w), 0 to 1, of the inputs of ``Generator``."""
        known_buffers = rgb[:, :0] if buffers is None else buffers
        translated: Tensor = self.generator(rgb, known_buffers, noise, thumbnail).rgb
        return translated


def export_translator(transfer: Transfer, path: Path) -> None:
    """Export a trained translator as an ONNX graph.

    The residual translator takes ``rgb``, ``buffers`` (if trained with them), ``noise`` and ``thumbnail`` as
    ``Generator`` does. A reference translator takes ``rgb`` from -1 to 1. Heights and widths are multiples of 4.

    Raises:
        UsageError: the transfer is not a network, or the extra ``export`` is not installed.
        Sim2CamError: ONNX Runtime and PyTorch disagree.
        OutputError: the folder cannot be written.
    """
    height, width = (
        STRIDE * torch.export.Dim(name, min=8, max=1024) for name in ("rows", "columns")
    )
    dynamic_axes = {2: height, 3: width}
    match transfer:
        case Translator(generator, buffers):
            network: nn.Module = TranslatorGraph(generator)
            examples = [
                _build_example_inputs(count_channels(buffers), *size) for size in _EXAMPLE_SIZES
            ]
            metadata: dict[str, Any] = {"buffers": list(buffers)}
            dynamic_shapes = dict.fromkeys(("rgb", "noise", "buffers"), dynamic_axes)
        case ReferenceTranslator(network):
            examples = [{"rgb": 2.0 * _sample_tensor(3, *size) - 1.0} for size in _EXAMPLE_SIZES]
            metadata, dynamic_shapes = {}, {"rgb": dynamic_axes}
        case _:
            raise UsageError(
                "a parameter-free transfer has no network to export. Give a trained translator."
            )
    write_onnx(
        path, network.eval(), examples[0], examples[1], dynamic_shapes, ("translated",), metadata
    )


def _build_example_inputs(channels: int, height: int, width: int) -> Inputs:
    inputs = {
        "rgb": _sample_tensor(3, height, width),
        "noise": _sample_tensor(1, height, width),
        "thumbnail": _sample_tensor(3, THUMBNAIL_PX, THUMBNAIL_PX),
    }
    return inputs | ({"buffers": _sample_tensor(channels, height, width)} if channels else {})


def _sample_tensor(channels: int, height: int, width: int) -> Tensor:
    return torch.rand(1, channels, height, width, generator=torch.Generator().manual_seed(0))
