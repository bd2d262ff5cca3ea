"""Image statistics: colour, structure by scale, detail.

They need no weights and show in which respect two sets of images differ. Detail statistics are of
single pixels and are valid only for images that were not resized.
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
"""Minimum length of the shorter side of an image."""

_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_N_OCTAVES = 5  # scales of structure: 4, 8, ... 64 pixels
_TILE_PX = 8
_JPEG_BLOCK_PX = 8
_LOG_FLOOR = 2e-4  # a twentieth of an 8-bit step; avoids log(0)

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
"""Names of the statistics, in order; the part before the slash is a ``StatisticGroup``."""


def compute_image_statistics(rgb: NDArray[np.uint8]) -> Floats:
    """Return the statistics (len(STATISTIC_NAMES),) of an RGB image (h, w, 3).

    Intensities are encoded values from 0 to 1. Contrasts are natural logarithms.

    Raises:
        UsageError: the image is too small.
    """
    if min(rgb.shape[:2]) < MIN_SIDE_PX:
        raise UsageError(
            f"an image of {rgb.shape[1]} x {rgb.shape[0]} pixels is too small for statistics. Both "
            f"sides must be at least {MIN_SIDE_PX} pixels."
        )
    values = rgb.astype(np.float32) / 255
    red, green, blue = (np.ascontiguousarray(values[..., i]) for i in range(3))
    luma = np.asarray(cv2.cvtColor(values, cv2.COLOR_RGB2GRAY), np.float32)
    red_green = np.asarray(red - green, np.float32)
    yellow_blue = np.asarray((red + green) / 2 - blue, np.float32)
    high_pass = _apply_high_pass(luma)
    return np.array(
        [
            *_measure_color(luma, red_green, yellow_blue),
            *_measure_structure(luma, (red_green, yellow_blue)),
            *_measure_detail(luma, high_pass, red_green),
        ],
        np.float64,
    )


def select_statistics(group: StatisticGroup) -> NDArray[np.intp]:
    """Return the indices of the statistics of a group."""
    return np.flatnonzero([name.startswith(f"{group}/") for name in STATISTIC_NAMES])


def _measure_color(luma: Plane, red_green: Plane, yellow_blue: Plane) -> list[float]:
    chroma = np.hypot(red_green, yellow_blue)
    return [
        *np.quantile(luma, _QUANTILES).tolist(),
        float(np.sqrt((luma > 0.98).mean())),
        float(np.sqrt((luma < 0.02).mean())),
        _measure_vignetting(luma),
        float(red_green.mean()),
        float(yellow_blue.mean()),
        _measure_log_contrast(red_green),
        _measure_log_contrast(yellow_blue),
        float(np.quantile(chroma, 0.95)),
    ]


def _measure_vignetting(luma: Plane) -> float:
    """Return the log ratio of corner to centre brightness."""
    height, width = luma.shape
    y, x = np.ogrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    radius = x * x + y * y
    outer, inner = luma[radius > 1.2].mean(), luma[radius < 0.4].mean()
    return float(np.log((outer + _LOG_FLOOR) / (inner + _LOG_FLOOR)))


def _measure_structure(luma: Plane, colors: tuple[Plane, Plane]) -> list[float]:
    bands = _build_octaves(luma)
    color_contrasts = [
        [_measure_log_contrast(band) for band in _build_octaves(plane)] for plane in colors
    ]
    return [
        *(_measure_log_contrast(band) for band in bands),
        *np.mean(color_contrasts, axis=0).tolist(),
        *(_measure_sparseness(band) for band in bands),
    ]


def _build_octaves(plane: Plane) -> list[Plane]:
    """Return the upper levels of the Laplacian pyramid of a plane."""
    bands: list[Plane] = []
    level = np.asarray(cv2.pyrDown(plane), np.float32)
    for _ in range(_N_OCTAVES):
        coarse = cv2.pyrDown(level)
        size = (level.shape[1], level.shape[0])
        bands.append(level - cv2.pyrUp(coarse, dstsize=size))
        level = np.asarray(coarse, np.float32)
    return bands


def _measure_log_contrast(plane: Plane) -> float:
    return float(np.log(plane.std() + _LOG_FLOOR))


def _measure_sparseness(band: Plane) -> float:
    """Return how concentrated a band's contrast is: high for small details on an even ground."""
    magnitude = np.abs(band)
    return float(np.log((band.std() + _LOG_FLOOR) / (magnitude.mean() + _LOG_FLOOR)))


def _measure_detail(luma: Plane, high_pass: Plane, red_green: Plane) -> list[float]:
    middle_band = cv2.GaussianBlur(luma, (0, 0), 1.0) - cv2.GaussianBlur(luma, (0, 0), 2.0)
    gradient_x = np.abs(np.diff(luma, axis=1))
    color_noise = _split_tiles(_apply_high_pass(red_green)).std(axis=1)
    return [
        _measure_log_contrast(high_pass),
        _measure_log_contrast(middle_band),
        float(np.log(np.quantile(gradient_x, 0.99) + _LOG_FLOOR)),
        *_measure_noise(luma, high_pass),
        float(np.log(np.quantile(color_noise, 0.5) + _LOG_FLOOR)),
        _measure_noise_correlation(high_pass),
        _measure_jpeg_blocking(gradient_x),
    ]


def _measure_noise(luma: Plane, high_pass: Plane) -> list[float]:
    """Return the log standard deviation of flat tiles, in three groups by brightness."""
    noise, level = _split_tiles(high_pass).std(axis=1), _split_tiles(luma).mean(axis=1)
    groups = np.array_split(noise[np.argsort(level, kind="stable")], 3)
    return [float(np.log(np.quantile(group, 0.3) + _LOG_FLOOR)) for group in groups]


def _measure_noise_correlation(high_pass: Plane) -> float:
    """Return the correlation of neighbouring pixels in flat tiles: high after denoising."""
    tiles = _split_tiles(high_pass)
    flat = tiles[tiles.std(axis=1) <= np.quantile(tiles.std(axis=1), 0.5)]
    square = flat.reshape(-1, _TILE_PX, _TILE_PX)
    variance = float((square**2).mean())
    return float((square[:, :, 1:] * square[:, :, :-1]).mean()) / (variance + _LOG_FLOOR**2)


def _measure_jpeg_blocking(gradient_x: Plane) -> float:
    """Return the log ratio of gradients at JPEG block borders to gradients inside blocks."""
    columns = gradient_x.mean(axis=0)
    is_border = np.arange(len(columns)) % _JPEG_BLOCK_PX == _JPEG_BLOCK_PX - 1
    return float(
        np.log((columns[is_border].mean() + _LOG_FLOOR) / (columns[~is_border].mean() + _LOG_FLOOR))
    )


def _apply_high_pass(plane: Plane) -> Plane:
    return np.asarray(plane - cv2.GaussianBlur(plane, (0, 0), 1.0), np.float32)


def _split_tiles(plane: Plane) -> Plane:
    """Return the square tiles (n, pixels) of a plane."""
    rows, columns = (side // _TILE_PX for side in plane.shape)
    tiles = plane[: rows * _TILE_PX, : columns * _TILE_PX].reshape(
        rows, _TILE_PX, columns, _TILE_PX
    )
    return np.asarray(tiles.swapaxes(1, 2).reshape(-1, _TILE_PX * _TILE_PX))
