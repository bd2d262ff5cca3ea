"""Convolutions as a CPU does them fastest, equal to the library's up to rounding.

Those of 3x3 take a quarter of the multiplications (Winograd, 1980; Lavin and Gray, 2016): tiles of 6x6 px,
which overlap by 2, become 36 numbers for each channel, and so do kernels; their products, summed over
channels, become the 4x4 px that were convolved. Libraries of GPUs do so by themselves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

TILES_PAY = torch.backends.cpu.get_cpu_capability() != "AVX512"
"""Whether tiles are faster than the library on this CPU, which keeps up with them where registers are wide."""

_SIDE, _STEP = 6, 4  # of a tile, and to the next one
_OVERLAP = _SIDE - _STEP
_OF_TILE = torch.tensor([
    [4, 0, -5, 0, 1, 0],
    [0, -4, -4, 1, 1, 0],
    [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0],
    [0, 2, -1, -2, 1, 0],
    [0, 4, 0, -5, 0, 1],
])  # fmt: skip
_OF_KERNEL = torch.tensor(
    [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]]
) / torch.tensor(24.0, dtype=torch.float64)
_OF_PRODUCTS = torch.tensor([
    [1, 1, 1, 1, 1, 0],
    [0, 1, -1, 2, -2, 0],
    [0, 1, 1, 4, 4, 0],
    [0, 1, -1, 8, -8, 1],
])  # fmt: skip


class Conv3x3(nn.Conv2d):
    """A convolution of 3x3, with the weights and names of ``nn.Conv2d``.

    Args:
        inputs, outputs: channels.
        padding: pixels of zeros around a picture, 0 or 1.
    """

    def __init__(self, inputs: int, outputs: int, *, padding: int = 0) -> None:
        super().__init__(inputs, outputs, 3, padding=padding)
        self._edges = (padding,) * 4

    def forward(self, features: Tensor) -> Tensor:
        """Return (n, outputs, h, w); as the library does it on GPUs, in graphs that are exported for any
        size, and where tiles do not fit or pay. On ``meta``, where memory is told, tiles count as on the CPU.
        """
        padded = functional.pad(features, self._edges)
        fits = all((side - _OVERLAP) % _STEP == 0 for side in padded.shape[2:])
        in_tiles = TILES_PAY and fits and features.device.type in ("cpu", "meta")
        if not in_tiles or torch.compiler.is_compiling():
            return super().forward(features)
        convolved: Tensor = _Winograd.apply(padded, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return convolved


class ImageConv(nn.Conv2d):
    """A convolution from or to the few channels of a picture: a pixel's lie side by side in memory."""

    def forward(self, features: Tensor) -> Tensor:
        """Return what ``nn.Conv2d`` does."""
        if features.device.type != "cpu":
            return super().forward(features)
        by_pixels = features.contiguous(memory_format=torch.channels_last)
        return super().forward(by_pixels).contiguous()


class _Winograd(torch.autograd.Function):
    """Features (n, i, h + 2, w + 2), weights (o, i, 3, 3) and offsets (o,) to (n, o, h, w)."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(features, weight)
        batch, _, height, width = features.shape
        products = torch.bmm(_tiles(features), _kernels(weight).transpose(1, 2))
        found = _both_ways(_OF_PRODUCTS, products).view(-1, len(weight)) + bias
        found = found.view(_STEP, _STEP, batch, height // _STEP, width // _STEP, len(weight))
        return found.permute(2, 5, 3, 0, 4, 1).reshape(
            batch, len(weight), height - _OVERLAP, width - _OVERLAP
        )

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        features, weight = ctx.saved_tensors
        wants_features, wants_weight, wants_bias = ctx.needs_input_grad
        of_products = _of_products(slope)
        of_features = of_weight = None
        if wants_features:
            of_features = _overlaid(torch.bmm(of_products, _kernels(weight)), features)
        if wants_weight:
            of_kernels = torch.bmm(of_products.transpose(1, 2), _tiles(features))
            of_weight = _both_ways(_OF_KERNEL.T, of_kernels).T.reshape(weight.shape)
        return of_features, of_weight, slope.sum(dim=(0, 2, 3)) if wants_bias else None


def _both_ways(matrix: Tensor, squares: Tensor) -> Tensor:
    """Return what a matrix (k, s) makes of rows and of columns of squares (s * s, ...): (k * k, m)."""
    matrix, side = matrix.to(squares), matrix.shape[1]
    rows = matrix @ squares.reshape(side, -1)
    return (matrix @ rows.view(len(matrix), side, -1)).flatten(0, 1)


def _kernels(weight: Tensor) -> Tensor:
    """Return the numbers of kernels (36, o, i)."""
    return _both_ways(_OF_KERNEL, weight.permute(2, 3, 0, 1)).view(-1, *weight.shape[:2])


def _tiles(features: Tensor) -> Tensor:
    """Return the numbers of tiles (36, tiles, i) of features (n, i, h + 2, w + 2)."""
    pixels = features.permute(0, 2, 3, 1).contiguous()
    tiles = pixels.unfold(1, _SIDE, _STEP).unfold(2, _SIDE, _STEP).permute(4, 5, 0, 1, 2, 3)
    return _both_ways(_OF_TILE, tiles).view(_SIDE**2, -1, features.shape[1])


def _overlaid(numbers: Tensor, features: Tensor) -> Tensor:
    """Return what the slope by the numbers of tiles (36, tiles, i) is by the features, of their shape."""
    batch, channels, height, width = features.shape
    down, right = height - _OVERLAP, width - _OVERLAP
    tiles = _both_ways(_OF_TILE.T, numbers).view(
        _SIDE, _SIDE, batch, down // _STEP, right // _STEP, channels
    )
    pixels = tiles.new_zeros(batch, height, width, channels)
    for row in range(_SIDE):
        for column in range(_SIDE):
            pixels[:, row : row + down : _STEP, column : column + right : _STEP] += tiles[
                row, column
            ]
    return pixels.permute(0, 3, 1, 2).contiguous()


def _of_products(slope: Tensor) -> Tensor:
    """Return what the slope by the pixels (n, o, h, w) is by the products (36, tiles, o)."""
    batch, channels, height, width = slope.shape
    tiles = slope.view(batch, channels, height // _STEP, _STEP, width // _STEP, _STEP)
    pixels = tiles.permute(3, 5, 0, 2, 4, 1)
    return _both_ways(_OF_PRODUCTS.T, pixels).view(_SIDE**2, -1, channels)
