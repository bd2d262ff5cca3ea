"""The look of a picture, in numbers with a meaning: colours, structure by size, detail.

They ask for no weights and tell in which respect two sets of pictures differ. Those of detail are of
single pixels: they mean something where nothing was resized.
"""

from __future__ import annotations

from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.errors import UsageError

Floats = NDArray[np.float64]
Plane = NDArray[np.float32]
Aspect = Literal["color", "structure", "detail"]

LEAST_PX = 64
"""Shorter side of a picture that has a look."""

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_OCTAVES = 5  # of structure: 4, 8, ... 64 pixels
_TILE = 8
_JPEG_BLOCK = 8
_LEAST = 2e-4  # a twentieth of a step of 8 bits: what is less has no logarithm worth taking

LOOK: tuple[str, ...] = (
    *(f"color/light_{round(100 * q)}" for q in _QUANTILES),
    "color/white_share", "color/black_share", "color/corner_light",
    "color/red_green", "color/yellow_blue", "color/red_green_spread", "color/yellow_blue_spread",
    "color/strongest",
    *(f"structure/light_{4 * 2**i}_px" for i in range(_OCTAVES)),
    *(f"structure/color_{4 * 2**i}_px" for i in range(_OCTAVES)),
    *(f"structure/sparse_{4 * 2**i}_px" for i in range(_OCTAVES)),
    "detail/light_1_px", "detail/light_2_px", "detail/steepest",
    "detail/noise_dark", "detail/noise_middle", "detail/noise_bright", "detail/noise_color",
    "detail/noise_width", "detail/blocks",
)  # fmt: skip
"""Names of the numbers of a look, in order; what stands before the slash is an ``Aspect``."""


def look(rgb: NDArray[np.uint8]) -> Floats:
    """Returns the numbers (len(LOOK),) of a picture (h, w, 3), RGB.

    Levels count from 0 to 1, as they are encoded. Contrasts are natural logarithms.

    Raises:
        UsageError: it is too small to have a structure.
    """
    if min(rgb.shape[:2]) < LEAST_PX:
        raise UsageError(
            f"a picture of {rgb.shape[1]} x {rgb.shape[0]} pixels is too small to look at. Both sides "
            f"need {LEAST_PX}."
        )
    levels = rgb.astype(np.float32) / 255
    red, green, blue = (np.ascontiguousarray(levels[..., i]) for i in range(3))
    light = np.asarray(cv2.cvtColor(levels, cv2.COLOR_RGB2GRAY), np.float32)
    red_green = np.asarray(red - green, np.float32)
    yellow_blue = np.asarray((red + green) / 2 - blue, np.float32)
    fine = _fine(light)
    return np.array(
        [
            *_colors(light, red_green, yellow_blue),
            *_structure(light, (red_green, yellow_blue)),
            *_detail(light, fine, red_green),
        ],
        np.float64,
    )


def aspect_of(aspect: Aspect) -> NDArray[np.intp]:
    """Returns which numbers of a look are of an aspect."""
    return np.flatnonzero([name.startswith(f"{aspect}/") for name in LOOK])


def _colors(light: Plane, red_green: Plane, yellow_blue: Plane) -> list[float]:
    strength = np.hypot(red_green, yellow_blue)
    return [
        *np.quantile(light, _QUANTILES).tolist(),
        float(np.sqrt((light > 0.98).mean())),
        float(np.sqrt((light < 0.02).mean())),
        _corner_light(light),
        float(red_green.mean()),
        float(yellow_blue.mean()),
        _contrast(red_green),
        _contrast(yellow_blue),
        float(np.quantile(strength, 0.95)),
    ]


def _corner_light(light: Plane) -> float:
    """Returns how much brighter the corners are than the middle, as a logarithm."""
    height, width = light.shape
    y, x = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    radius = x * x + y * y
    outer, inner = light[radius > 1.2].mean(), light[radius < 0.4].mean()
    return float(np.log((outer + _LEAST) / (inner + _LEAST)))


def _structure(light: Plane, colors: tuple[Plane, Plane]) -> list[float]:
    bands = _octaves(light)
    colored = [[_contrast(band) for band in _octaves(plane)] for plane in colors]
    return [
        *(_contrast(band) for band in bands),
        *np.mean(colored, axis=0).tolist(),
        *(_sparseness(band) for band in bands),
    ]


def _octaves(plane: Plane) -> list[Plane]:
    """Returns what of a plane is of each size: the upper levels of its Laplacian pyramid."""
    found: list[Plane] = []
    below = np.asarray(cv2.pyrDown(plane), np.float32)
    for _ in range(_OCTAVES):
        coarse = cv2.pyrDown(below)
        size = (below.shape[1], below.shape[0])
        found.append(below - cv2.pyrUp(coarse, dstsize=size))
        below = np.asarray(coarse, np.float32)
    return found


def _contrast(plane: Plane) -> float:
    return float(np.log(plane.std() + _LEAST))


def _sparseness(band: Plane) -> float:
    """Returns how much of a band's contrast is in few places: little things on an even ground."""
    magnitude = np.abs(band)
    return float(np.log((band.std() + _LEAST) / (magnitude.mean() + _LEAST)))


def _detail(light: Plane, fine: Plane, red_green: Plane) -> list[float]:
    softer = cv2.GaussianBlur(light, (0, 0), 1.0) - cv2.GaussianBlur(light, (0, 0), 2.0)
    across = np.abs(np.diff(light, axis=1))
    return [
        _contrast(fine),
        _contrast(softer),
        float(np.log(np.quantile(across, 0.99) + _LEAST)),
        *_noise(light, fine),
        float(np.log(np.quantile(_tiles(_fine(red_green)).std(axis=1), 0.5) + _LEAST)),
        _noise_width(fine),
        _blocks(across),
    ]


def _noise(light: Plane, fine: Plane) -> list[float]:
    """Returns the contrast of single pixels where least happens, in three parts by brightness."""
    noise, level = _tiles(fine).std(axis=1), _tiles(light).mean(axis=1)
    parts = np.array_split(noise[np.argsort(level, kind="stable")], 3)
    return [float(np.log(np.quantile(part, 0.3) + _LEAST)) for part in parts]


def _noise_width(fine: Plane) -> float:
    """Returns the correlation of neighbouring pixels where least happens: high after noise filters."""
    tiles = _tiles(fine)
    flat = tiles[tiles.std(axis=1) <= np.quantile(tiles.std(axis=1), 0.5)]
    square = flat.reshape(-1, _TILE, _TILE)
    variance = float((square**2).mean())
    return float((square[:, :, 1:] * square[:, :, :-1]).mean()) / (variance + _LEAST**2)


def _blocks(across: Plane) -> float:
    """Returns how much steeper the borders of JPEG's blocks are than what lies between them."""
    columns = across.mean(axis=0)
    border = np.arange(len(columns)) % _JPEG_BLOCK == _JPEG_BLOCK - 1
    return float(np.log((columns[border].mean() + _LEAST) / (columns[~border].mean() + _LEAST)))


def _fine(plane: Plane) -> Plane:
    return np.asarray(plane - cv2.GaussianBlur(plane, (0, 0), 1.0), np.float32)


def _tiles(plane: Plane) -> Plane:
    """Returns the square tiles (n, pixels) of a plane."""
    rows, columns = (side // _TILE for side in plane.shape)
    cut = plane[: rows * _TILE, : columns * _TILE].reshape(rows, _TILE, columns, _TILE)
    return np.asarray(cut.swapaxes(1, 2).reshape(-1, _TILE * _TILE))
