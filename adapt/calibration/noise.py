"""Grain: how much and how finely brightness and colour vary in flat parts of a photo, by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

LEVEL_BINS = np.linspace(24, 216, 9)
"""Ends of the bins of levels; beyond them noise is cut off."""
LAGS = ((1, 0), (2, 0), (1, 1))
"""Distances across and down (or down and across), pixels, at which levels are compared."""
COLOR_LAGS = ((1, 0), (2, 0), (4, 0))
"""The same of colours, which cameras and their files make coarser."""

_TILE_PX = 16
_MAX_TILES = 6000
_MAX_TILES_PER_BIN = 24  # flat tiles of a bin that a photo gives at most
_FLATTEST_QUANTILE, _MAX_VARIANCE_RATIO, _VARIANCE_OFFSET = 0.1, 3.0, 0.05
"""Tiles are flat whose coarse variance, and by so many square levels more, is at most so many times that of the
flattest share. A bound as wide keeps nearly all that vary by noise alone: the flattest of many would be
those with little of it."""
_MIN_TILES = 8
_NOISE_QUANTILE = 0.3  # quantile over flat tiles: texture that looks flat only adds
_MAX_GREY_DIFFERENCE = 20.0  # levels between colours up to which their noise is that of a grey wall
_COLOR_PAIRS = ((0, 1), (2, 1), (0, 2))  # colours whose differences are looked at


@dataclass(frozen=True, eq=False)
class FlatTiles:
    """Flat parts of a photo at each level.

    Attributes:
        bins: (n,) number of the bin of levels.
        coarse_variance: (n,) variance of what is coarse in them, square levels.
        semivariance: (n, lags) half the mean squared difference of levels.
        color_semivariance: (n, 3 x lags) the same of the levels of red less green, blue less green and red less blue;
            NaN where a tile is not grey.
    """

    bins: NDArray[np.intp]
    coarse_variance: Singles
    semivariance: Singles
    color_semivariance: Singles


def extract_flat_tiles(rgb: NDArray[np.uint8], *, is_color: bool = True) -> FlatTiles:
    """Return flat tiles of a photo by the mean of its colours' levels, from all over it.

    That is what no change of saturation moves.

    Args:
        rgb: (h, w, 3).
        is_color: whether its file holds colours.
    """
    colors = _split_tiles(rgb)
    tiles = colors.mean(axis=-1, dtype=np.float32)
    level = tiles.mean(axis=(1, 2))
    whole = np.flatnonzero(
        (colors.min(axis=(1, 2, 3)) > 0) & (colors.max(axis=(1, 2, 3)) < _CLIPPED_LEVEL)
    )
    tiles, bins = tiles[whole], np.digitize(level[whole], LEVEL_BINS) - 1
    coarse = _compute_coarse_variance(tiles)
    mine = [np.flatnonzero(bins == number) for number in range(len(LEVEL_BINS) - 1)]
    chosen = np.concatenate([_subsample_evenly(one[_select_flat(coarse[one])]) for one in mine])
    fine = np.stack([_compute_semivariance(tiles[chosen], *lag) for lag in LAGS], axis=1)
    color = _compute_color_semivariance(colors[whole[chosen]])
    return FlatTiles(bins[chosen], coarse[chosen], fine, color if is_color else color * np.nan)


_CLIPPED_LEVEL = 252


def estimate_noise(photos: Sequence[FlatTiles]) -> Floats:
    """Return half the mean squared difference of levels (bins, lags); NaN where nothing is flat.

    Tiles are taken for flat by what is coarse in them, and looked at by what is fine, so that those with
    little noise are hardly favoured.
    """
    return _compute_low_quantile(photos, "semivariance")


def estimate_color_noise(photos: Sequence[FlatTiles]) -> Floats:
    """Return the same of differences of colours (bins, 3 x lags), by tiles that are grey."""
    return _compute_low_quantile(photos, "color_semivariance")


def _compute_low_quantile(photos: Sequence[FlatTiles], name: str) -> Floats:
    """Return a low quantile (bins, lags) of what flat tiles that know it show."""
    bins, coarse, values = (
        np.concatenate([getattr(tiles, part) for tiles in photos])
        for part in ("bins", "coarse_variance", name)
    )
    known = np.isfinite(values).all(axis=1)
    found = np.full((len(LEVEL_BINS) - 1, values.shape[1]), np.nan)
    for number in range(len(found)):
        mine = np.flatnonzero(known & (bins == number))
        if len(mine) >= 2 * _MIN_TILES:
            flat = mine[_select_flat(coarse[mine])]
            found[number] = np.quantile(values[flat], _NOISE_QUANTILE, axis=0)
    return found


def _select_flat(coarse_variance: Singles) -> NDArray[np.bool_]:
    """Return which tiles of one bin (n,) are flat, by their coarse variances (n,)."""
    if not len(coarse_variance):
        return np.zeros(0, bool)
    return np.asarray(
        coarse_variance + _VARIANCE_OFFSET
        <= _MAX_VARIANCE_RATIO
        * (np.quantile(coarse_variance, _FLATTEST_QUANTILE) + _VARIANCE_OFFSET)
    )


def _subsample_evenly(tiles: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return so many of tiles as are kept, evenly."""
    return tiles[
        np.linspace(0, len(tiles) - 1, min(len(tiles), _MAX_TILES_PER_BIN)).round().astype(np.intp)
    ]


def _split_tiles(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return square tiles (n, side, side, 3), evenly from all over the photo."""
    rows, columns = (n // _TILE_PX for n in rgb.shape[:2])
    cut = rgb[: rows * _TILE_PX, : columns * _TILE_PX].reshape(rows, _TILE_PX, columns, _TILE_PX, 3)
    tiles = cut.swapaxes(1, 2).reshape(-1, _TILE_PX, _TILE_PX, 3)
    return tiles[:: max(1, -(-len(tiles) // _MAX_TILES))]


def _compute_coarse_variance(tiles: Singles) -> Singles:
    """Return the variance (n,) of the means of a tile's sixteen parts."""
    part = _TILE_PX // 4
    means = tiles.reshape(-1, 4, part, 4, part).mean(axis=(2, 4))
    return np.asarray(means.var(axis=(1, 2)))


def _compute_color_semivariance(colors: NDArray[np.uint8]) -> Singles:
    """Return what ``FlatTiles.color`` is of tiles (n, side, side, 3)."""
    levels = colors.astype(np.float32)
    planes = [levels[..., first] - levels[..., second] for first, second in _COLOR_PAIRS]
    found = [_compute_semivariance(plane, *lag) for plane in planes for lag in COLOR_LAGS]
    is_grey = np.all(
        [np.abs(plane.mean(axis=(1, 2))) < _MAX_GREY_DIFFERENCE for plane in planes], axis=0
    )
    return np.where(is_grey[:, None], np.stack(found, axis=1), np.float32(np.nan))


def _compute_semivariance(tiles: Singles, a: int, b: int) -> Singles:
    """Return half the mean squared difference (n,) at a distance, both ways round."""
    ways = {(a, b), (b, a)}
    found = []
    for down, across in ways:
        height, width = _TILE_PX - down, _TILE_PX - across
        change = tiles[:, down:, across:] - tiles[:, :height, :width]
        found.append((change**2).mean(axis=(1, 2)) / 2)
    return np.asarray(np.mean(found, axis=0))
