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
StatisticGroup = Literal["color", "structure", "detail"]

MIN_SIDE_PX = 64
"""Shorter side of a picture that has a look."""

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_N_OCTAVES = 5  # of structure: 4, 8, ... 64 pixels
_TILE_PX = 8
_JPEG_BLOCK_PX = 8
_LOG_FLOOR = 2e-4  # a twentieth of a step of 8 bits: what is less has no logarithm worth taking

STATISTIC_NAMES: tuple[str, ...] = (
    *(f"color/luma_q{round(100 * q)}" for q in _QUANTILES),
    "color/white_share", "color/black_share", "color/vignetting",
    "color/red_green", "color/yellow_blue", "color/red_green_spread", "color/yellow_blue_spread",
    "color/chroma_q95",
    *(f"structure/luma_{4 * 2**i}_px" for i in range(_N_OCTAVES)),
    *(f"structure/color_{4 * 2**i}_px" for i in range(_N_OCTAVES)),
    *(f"structure/sparseness_{4 * 2**i}_px" for i in range(_N_OCTAVES)),
    "detail/luma_1_px", "detail/luma_2_px", "detail/gradient_q99",
    "detail/noise_dark", "detail/noise_middle", "detail/noise_bright", "detail/noise_color",
    "detail/noise_correlation", "detail/jpeg_blocking",
)  # fmt: skip
"""Names of the numbers of a look, in order; what stands before the slash is an ``StatisticGroup``."""


def compute_image_statistics(rgb: NDArray[np.uint8]) -> Floats:
    """Return the numbers (len(LOOK),) of a picture (h, w, 3), RGB.

    Levels count from 0 to 1, as they are encoded. Contrasts are natural logarithms.

    Raises:
        UsageError: it is too small to have a structure.
    """
    if min(rgb.shape[:2]) < MIN_SIDE_PX:
        raise UsageError(
            f"a picture of {rgb.shape[1]} x {rgb.shape[0]} pixels is too small to look at. Both sides "
            f"need {MIN_SIDE_PX}."
        )
    levels = rgb.astype(np.float32) / 255
    red, green, blue = (np.ascontiguousarray(levels[..., i]) for i in range(3))
    light = np.asarray(cv2.cvtColor(levels, cv2.COLOR_RGB2GRAY), np.float32)
    red_green = np.asarray(red - green, np.float32)
    yellow_blue = np.asarray((red + green) / 2 - blue, np.float32)
    fine = _apply_high_pass(light)
    return np.array(
        [
            *_measure_color(light, red_green, yellow_blue),
            *_measure_structure(light, (red_green, yellow_blue)),
            *_measure_detail(light, fine, red_green),
        ],
        np.float64,
    )


def select_statistics(group: StatisticGroup) -> NDArray[np.intp]:
    """Return which numbers of a look are of an aspect."""
    return np.flatnonzero([name.startswith(f"{group}/") for name in STATISTIC_NAMES])


def _measure_color(luma: Plane, red_green: Plane, yellow_blue: Plane) -> list[float]:
    strength = np.hypot(red_green, yellow_blue)
    return [
        *np.quantile(luma, _QUANTILES).tolist(),
        float(np.sqrt((luma > 0.98).mean())),
        float(np.sqrt((luma < 0.02).mean())),
        _measure_vignetting(luma),
        float(red_green.mean()),
        float(yellow_blue.mean()),
        _measure_log_contrast(red_green),
        _measure_log_contrast(yellow_blue),
        float(np.quantile(strength, 0.95)),
    ]


def _measure_vignetting(luma: Plane) -> float:
    """Return how much brighter the corners are than the middle, as a logarithm."""
    height, width = luma.shape
    y, x = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    radius = x * x + y * y
    outer, inner = luma[radius > 1.2].mean(), luma[radius < 0.4].mean()
    return float(np.log((outer + _LOG_FLOOR) / (inner + _LOG_FLOOR)))


def _measure_structure(luma: Plane, colors: tuple[Plane, Plane]) -> list[float]:
    bands = _build_octaves(luma)
    colored = [[_measure_log_contrast(band) for band in _build_octaves(plane)] for plane in colors]
    return [
        *(_measure_log_contrast(band) for band in bands),
        *np.mean(colored, axis=0).tolist(),
        *(_measure_sparseness(band) for band in bands),
    ]


def _build_octaves(plane: Plane) -> list[Plane]:
    """Return what of a plane is of each size: the upper levels of its Laplacian pyramid."""
    found: list[Plane] = []
    below = np.asarray(cv2.pyrDown(plane), np.float32)
    for _ in range(_N_OCTAVES):
        coarse = cv2.pyrDown(below)
        size = (below.shape[1], below.shape[0])
        found.append(below - cv2.pyrUp(coarse, dstsize=size))
        below = np.asarray(coarse, np.float32)
    return found


def _measure_log_contrast(plane: Plane) -> float:
    return float(np.log(plane.std() + _LOG_FLOOR))


def _measure_sparseness(band: Plane) -> float:
    """Return how much of a band's contrast is in few places: little things on an even ground."""
    magnitude = np.abs(band)
    return float(np.log((band.std() + _LOG_FLOOR) / (magnitude.mean() + _LOG_FLOOR)))


def _measure_detail(luma: Plane, high_pass: Plane, red_green: Plane) -> list[float]:
    softer = cv2.GaussianBlur(luma, (0, 0), 1.0) - cv2.GaussianBlur(luma, (0, 0), 2.0)
    across = np.abs(np.diff(luma, axis=1))
    return [
        _measure_log_contrast(high_pass),
        _measure_log_contrast(softer),
        float(np.log(np.quantile(across, 0.99) + _LOG_FLOOR)),
        *_measure_noise(luma, high_pass),
        float(
            np.log(
                np.quantile(_split_tiles(_apply_high_pass(red_green)).std(axis=1), 0.5) + _LOG_FLOOR
            )
        ),
        _measure_noise_correlation(high_pass),
        _measure_jpeg_blocking(across),
    ]


def _measure_noise(luma: Plane, high_pass: Plane) -> list[float]:
    """Return the contrast of single pixels where least happens, in three parts by brightness."""
    noise, level = _split_tiles(high_pass).std(axis=1), _split_tiles(luma).mean(axis=1)
    parts = np.array_split(noise[np.argsort(level, kind="stable")], 3)
    return [float(np.log(np.quantile(part, 0.3) + _LOG_FLOOR)) for part in parts]


def _measure_noise_correlation(high_pass: Plane) -> float:
    """Return the correlation of neighbouring pixels where least happens: high after noise filters."""
    tiles = _split_tiles(high_pass)
    flat = tiles[tiles.std(axis=1) <= np.quantile(tiles.std(axis=1), 0.5)]
    square = flat.reshape(-1, _TILE_PX, _TILE_PX)
    variance = float((square**2).mean())
    return float((square[:, :, 1:] * square[:, :, :-1]).mean()) / (variance + _LOG_FLOOR**2)


def _measure_jpeg_blocking(gradient_x: Plane) -> float:
    """Return how much steeper the borders of JPEG's blocks are than what lies between them."""
    columns = gradient_x.mean(axis=0)
    border = np.arange(len(columns)) % _JPEG_BLOCK_PX == _JPEG_BLOCK_PX - 1
    return float(
        np.log((columns[border].mean() + _LOG_FLOOR) / (columns[~border].mean() + _LOG_FLOOR))
    )


def _apply_high_pass(plane: Plane) -> Plane:
    return np.asarray(plane - cv2.GaussianBlur(plane, (0, 0), 1.0), np.float32)


def _split_tiles(plane: Plane) -> Plane:
    """Return the square tiles (n, pixels) of a plane."""
    rows, columns = (side // _TILE_PX for side in plane.shape)
    cut = plane[: rows * _TILE_PX, : columns * _TILE_PX].reshape(rows, _TILE_PX, columns, _TILE_PX)
    return np.asarray(cut.swapaxes(1, 2).reshape(-1, _TILE_PX * _TILE_PX))
