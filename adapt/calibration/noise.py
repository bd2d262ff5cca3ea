"""Noise of luminance and colour in flat parts of photos, by level and lag."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Scalar = TypeVar("Scalar", bound=np.generic)

LEVEL_BINS = np.linspace(24, 216, 9)
"""Edges of the level bins; beyond them noise is clipped."""
LAGS = ((1, 0), (2, 0), (1, 1))
"""Horizontal and vertical pixel distances (or the reverse) at which levels are compared."""
COLOR_LAGS = ((1, 0), (2, 0), (4, 0))
"""Lags of colours, which cameras and JPEG make coarser."""

_TILE_PX = 16
_MAX_TILES = 6000
_MAX_TILES_PER_BIN = 24  # flat tiles per photo and bin
_FLATTEST_QUANTILE, _MAX_VARIANCE_RATIO, _VARIANCE_OFFSET = 0.1, 3.0, 0.05
"""A tile is flat if its coarse variance plus the offset (squared levels) is at most the ratio times
that of the flattest quantile. The bound is wide, because selecting only the flattest tiles would
favour those with little noise."""
_MIN_TILES = 8
_NOISE_QUANTILE = 0.3  # over flat tiles; undetected texture only adds variance
_MAX_GREY_DIFFERENCE = 20.0  # levels between channels of a grey tile
_COLOR_PAIRS = ((0, 1), (2, 1), (0, 2))  # channels whose differences are measured


@dataclass(frozen=True, eq=False)
class FlatTiles:
    """Flat tiles of a photo.

    Attributes:
        bins: (n,) index of the level bin.
        coarse_variance: (n,) variance of coarse structure, squared levels.
        semivariance: (n, lags) half the mean squared difference of levels.
        color_semivariance: (n, 3 x lags) semivariance of red minus green, blue minus green and red
            minus blue; NaN for tiles that are not grey.
    """

    bins: NDArray[np.intp]
    coarse_variance: Singles
    semivariance: Singles
    color_semivariance: Singles


def extract_flat_tiles(rgb: NDArray[np.uint8], *, is_color: bool = True) -> FlatTiles:
    """Return flat tiles of a photo by the mean of its channels, which saturation does not change.

    Args:
        rgb: (h, w, 3) levels.
        is_color: whether the file stores colour.
    """
    tiles = split_tiles(rgb, _TILE_PX)
    colors = tiles[:: max(1, -(-len(tiles) // _MAX_TILES))]
    means = colors.mean(axis=-1, dtype=np.float32)
    level = means.mean(axis=(1, 2))
    unclipped = np.flatnonzero(
        (colors.min(axis=(1, 2, 3)) > 0) & (colors.max(axis=(1, 2, 3)) < _CLIPPED_LEVEL)
    )
    means, bins = means[unclipped], np.digitize(level[unclipped], LEVEL_BINS) - 1
    coarse = _compute_coarse_variance(means)
    by_bin = [np.flatnonzero(bins == number) for number in range(len(LEVEL_BINS) - 1)]
    selected = np.concatenate(
        [_subsample_evenly(indices[_select_flat(coarse[indices])]) for indices in by_bin]
    )
    fine = np.stack([_compute_semivariance(means[selected], *lag) for lag in LAGS], axis=1)
    color = _compute_color_semivariance(colors[unclipped[selected]])
    return FlatTiles(bins[selected], coarse[selected], fine, color if is_color else color * np.nan)


_CLIPPED_LEVEL = 252


def estimate_noise(photos: Sequence[FlatTiles]) -> Floats:
    """Return the semivariance of luminance noise (bins, lags); NaN without flat tiles.

    Tiles are selected by coarse structure and measured by fine structure, which avoids a bias to
    low noise.
    """
    return _compute_low_quantile(photos, "semivariance")


def estimate_color_noise(photos: Sequence[FlatTiles]) -> Floats:
    """Return the semivariance of channel differences (bins, 3 x lags) in grey tiles."""
    return _compute_low_quantile(photos, "color_semivariance")


def _compute_low_quantile(photos: Sequence[FlatTiles], name: str) -> Floats:
    """Return a low quantile (bins, lags) of an attribute over flat tiles."""
    bins, coarse, values = (
        np.concatenate([getattr(tiles, attribute) for tiles in photos])
        for attribute in ("bins", "coarse_variance", name)
    )
    is_known = np.isfinite(values).all(axis=1)
    quantiles = np.full((len(LEVEL_BINS) - 1, values.shape[1]), np.nan)
    for bin_index in range(len(quantiles)):
        indices = np.flatnonzero(is_known & (bins == bin_index))
        if len(indices) >= 2 * _MIN_TILES:
            flat = indices[_select_flat(coarse[indices])]
            quantiles[bin_index] = np.quantile(values[flat], _NOISE_QUANTILE, axis=0)
    return quantiles


def _select_flat(coarse_variance: Singles) -> NDArray[np.bool_]:
    """Return which tiles (n,) of one bin are flat, by their coarse variance (n,)."""
    if not len(coarse_variance):
        return np.zeros(0, bool)
    return np.asarray(
        coarse_variance + _VARIANCE_OFFSET
        <= _MAX_VARIANCE_RATIO
        * (np.quantile(coarse_variance, _FLATTEST_QUANTILE) + _VARIANCE_OFFSET)
    )


def _subsample_evenly(tiles: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return at most ``_MAX_TILES_PER_BIN`` tiles, evenly spaced."""
    return tiles[
        np.linspace(0, len(tiles) - 1, min(len(tiles), _MAX_TILES_PER_BIN)).round().astype(np.intp)
    ]


def split_tiles(image: NDArray[Scalar], side: int) -> NDArray[Scalar]:
    """Return the full square tiles (n, side, side, ...) of an image (h, w, ...) in row order."""
    rows, columns = (n // side for n in image.shape[:2])
    cropped = image[: rows * side, : columns * side]
    tiles = cropped.reshape(rows, side, columns, side, *image.shape[2:]).swapaxes(1, 2)
    return tiles.reshape(-1, side, side, *image.shape[2:])


def _compute_coarse_variance(tiles: Singles) -> Singles:
    """Return the variance (n,) of the means of 4 x 4 parts of each tile."""
    part = _TILE_PX // 4
    means = tiles.reshape(-1, 4, part, 4, part).mean(axis=(2, 4))
    return np.asarray(means.var(axis=(1, 2)))


def _compute_color_semivariance(colors: NDArray[np.uint8]) -> Singles:
    """Return ``FlatTiles.color_semivariance`` of tiles (n, side, side, 3)."""
    levels = colors.astype(np.float32)
    planes = [levels[..., first] - levels[..., second] for first, second in _COLOR_PAIRS]
    semivariances = [_compute_semivariance(plane, *lag) for plane in planes for lag in COLOR_LAGS]
    is_grey = np.all(
        [np.abs(plane.mean(axis=(1, 2))) < _MAX_GREY_DIFFERENCE for plane in planes], axis=0
    )
    return np.where(is_grey[:, None], np.stack(semivariances, axis=1), np.float32(np.nan))


def _compute_semivariance(tiles: Singles, a: int, b: int) -> Singles:
    """Return half the mean squared difference (n,) at a lag, in both orientations."""
    lags = {(a, b), (b, a)}
    semivariances = []
    for down, across in lags:
        height, width = _TILE_PX - down, _TILE_PX - across
        change = tiles[:, down:, across:] - tiles[:, :height, :width]
        semivariances.append((change**2).mean(axis=(1, 2)) / 2)
    return np.asarray(np.mean(semivariances, axis=0))
