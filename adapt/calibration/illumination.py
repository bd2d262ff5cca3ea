"""Light in a photo: how it falls off towards the corners, what is white, how it is exposed, fringes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.adapt.calibration.linearization import MIDDLE_GREY, decode_levels
from sim2cam.render.sensor.auto_exposure import choose_settings
from sim2cam.scene.sensor import Automatics

Floats = NDArray[np.float64]
Rgb = NDArray[np.uint8]

_TILES_PER_SIDE = 40  # across the longer side
_MIN_LEVEL, _MAX_LEVEL = 20, 240  # levels that light is told from
_EDGE_THRESHOLDS = np.geomspace(
    0.2, 0.03, 12
)  # change of log light between tiles that is an edge, by round
_MIN_PAIRS = 60
_FRINGE_TILE_PX = 32  # side of a tile in which fringes are looked for
_FRINGE_SIGMA_PX = 1.2
_MIN_TILES = 6
_MIN_CONTRAST = 12  # levels, standard deviation
_MIN_WHITE_SQUARES = 4
_MIN_UNCLIPPED_SHARE = 0.01  # share of the pixels that colour is told from
_BLACK_EV = -8.0  # stops under the meter's exposure at which a photo is black
_PROBE_CONTRAST = 1.2  # contrast by which it is seen how far contrast matters
_TONE_TILE_PX = 4  # side of the tiles whose tones are compared
_SHADOW_QUANTILE = 0.01  # share of the tiles that are taken for the darkest parts
_CONTRAST_QUANTILES = (0.1, 0.9)  # quantiles of light between which contrast is measured
_MIN_LIGHT = 1e-3  # light below which nothing is told from black


@dataclass(frozen=True)
class ToneStatistics:
    """How light and colour of a photo are spread.

    Attributes:
        shadow_level: light of the darkest parts, over the mean.
        log_contrast: logarithm of the stops between dark and bright parts; NaN where all are alike.
        log_colorfulness: logarithm of the mean distance from grey, over the mean light; NaN without colour.
    """

    shadow_level: float
    log_contrast: float
    log_colorfulness: float


def estimate_vignetting(rgb: Rgb) -> float:
    """Return the share of light that corners lose, as a ``Sensor`` has it; NaN where nothing is even.

    Light of scenes changes from tile to tile as often outwards as inwards, so what it changes outwards
    in the median is the lens's (after Zheng et al. 2008, "Single-image vignetting correction using
    radial gradient symmetry").

    Args:
        rgb: (h, w, 3).
    """
    height, width = rgb.shape[:2]
    side = max(8, max(height, width) // _TILES_PER_SIDE)
    rows, columns = height // side, width // side
    if min(rows, columns) < 2:
        return float("nan")
    cut = rgb[: rows * side, : columns * side]
    # not rounded to levels: from tile to tile a lens takes less than one
    means = cv2.resize(cut.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    peaks = cut.reshape(rows, side, columns, side, 3).max(axis=(1, 3, 4))
    known = (means.min(axis=-1) > _MIN_LEVEL) & (peaks < _MAX_LEVEL)
    light = np.log(np.maximum(decode_levels(means.mean(axis=-1)), 1e-4))
    y, x = ((np.arange(n) + 0.5) * side for n in (rows, columns))
    outward = ((2 * x / width - 1) ** 2 + (2 * y[:, None] / height - 1) ** 2) / 2
    changes, steps, middles = (
        np.concatenate([part.ravel() for part in parts])
        for parts in zip(
            *(_compute_neighbor_differences(light, outward, known, axis) for axis in (0, 1)),
            strict=True,
        )
    )
    lost = 0.0
    for steepest in _EDGE_THRESHOLDS:
        kept = 1 - lost * middles
        even = np.abs(changes + lost * steps / kept) < steepest
        if even.sum() < _MIN_PAIRS:
            return float("nan")
        slopes = (-changes * kept / steps)[even]
        lost = float(np.clip(_compute_weighted_median(slopes, np.abs(steps[even])), -0.5, 0.95))
    return lost


def _compute_neighbor_differences(
    log_light: Floats, squared_radius: Floats, is_valid: NDArray[np.bool_], axis: int
) -> tuple[Floats, Floats, Floats]:
    """Return of neighbours how much light and place change, and their middle place."""
    first, second = (np.s_[:-1], np.s_[1:]) if axis == 0 else (np.s_[:, :-1], np.s_[:, 1:])
    both = is_valid[first] & is_valid[second] & (squared_radius[second] != squared_radius[first])
    middle = (squared_radius[first] + squared_radius[second]) / 2
    return (
        (log_light[second] - log_light[first])[both],
        (squared_radius[second] - squared_radius[first])[both],
        middle[both],
    )


def estimate_lateral_color(rgb: Rgb) -> Floats:
    """Return by which share red and blue (2,) are larger than green; NaN where no edges tell.

    In each tile the colour is a straight line of green and of its change away from the middle.

    Args:
        rgb: (h, w, 3).
    """
    half = cv2.resize(
        rgb, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA
    )  # chroma is as coarse
    soft = np.asarray(cv2.GaussianBlur(half.astype(np.float64), (0, 0), _FRINGE_SIGMA_PX))
    height, width = soft.shape[:2]
    y, x = np.mgrid[:height, :width]
    down, across = (
        gaussian_filter(half[..., 1].astype(np.float64), _FRINGE_SIGMA_PX, order)
        for order in ((1, 0), (0, 1))
    )
    away = across * (x - (width - 1) / 2) + down * (y - (height - 1) / 2)
    rows, columns = height // _FRINGE_TILE_PX, width // _FRINGE_TILE_PX
    if not rows * columns:
        return np.full(2, np.nan)

    def split_tiles(plane: NDArray[Any]) -> Floats:
        cut = plane[: rows * _FRINGE_TILE_PX, : columns * _FRINGE_TILE_PX]
        tiles = cut.reshape(rows, _FRINGE_TILE_PX, columns, _FRINGE_TILE_PX).swapaxes(1, 2)
        flat = tiles.reshape(rows * columns, -1)
        return np.asarray(flat - flat.mean(axis=1, keepdims=True))

    red, green, blue = (split_tiles(soft[..., i]) for i in range(3))
    moved = split_tiles(away)
    clear = (green.std(axis=1) > _MIN_CONTRAST) & (moved.std(axis=1) > 1e-6)
    if clear.sum() < _MIN_TILES:
        return np.full(2, np.nan)
    design = np.stack([green[clear], moved[clear]], axis=-1)
    square = design.transpose(0, 2, 1) @ design + 1e-6 * np.eye(2)
    found = []
    for color in (red[clear], blue[clear]):
        slope, change = np.linalg.solve(square, design.transpose(0, 2, 1) @ color[..., None])[
            ..., 0
        ].T
        alike = slope > 0.3  # the edge is of brightness, not of colour
        if alike.sum() < _MIN_TILES:
            return np.full(2, np.nan)
        weight = np.sqrt(np.linalg.det(square) / square[:, 0, 0])[alike]
        found.append(_compute_weighted_median(-(change / slope)[alike], weight))
    return np.array(found)


def measure_board_white(rgb: Rgb, detection: BoardDetection) -> Floats:
    """Return the light of red and of blue over that of green (2,) on a chessboard's light squares.

    NaN where they are too bright or too few.

    Args:
        rgb: (h, w, 3).
        detection: of the chessboard in it.
    """
    columns, rows = (int(n) + 1 for n in detection.points_m[:, :2].max(axis=0))
    corners = detection.corners_px.reshape(rows, columns, 2)
    middles = (corners[:-1, :-1] + corners[:-1, 1:] + corners[1:, :-1] + corners[1:, 1:]) / 4
    x, y = np.rint(middles).astype(int).reshape(-1, 2).T
    inside = (x >= 0) & (y >= 0) & (x < rgb.shape[1]) & (y < rgb.shape[0])
    odd = (np.indices((rows - 1, columns - 1)).sum(axis=0) % 2).ravel()[inside]
    levels = cv2.blur(rgb.astype(np.float32), (3, 3))[y[inside], x[inside]].astype(np.float64)
    if len(set(odd.tolist())) < 2:
        return np.full(2, np.nan)
    light = max((0, 1), key=lambda parity: float(levels[odd == parity].mean()))
    whites = levels[odd == light]
    whites = whites[(whites.max(axis=1) < _MAX_LEVEL) & (whites.min(axis=1) > _MIN_LEVEL)]
    if len(whites) < _MIN_WHITE_SQUARES:
        return np.full(2, np.nan)
    red, green, blue = np.median(decode_levels(whites), axis=0)
    return np.array([red / green, blue / green])


def measure_exposure(rgb: Rgb) -> tuple[float, float, Floats]:
    """Return what the renderer's meter says of a photo (h, w, 3).

    Stops over the exposure that it would choose; stops over middle grey of what it goes by there; and the
    light of red and blue over that of green (2,) in what it would take for white, of what is not clipped. NaN
    where the photo is too dark, or all of it clipped.
    """
    light = decode_levels(np.arange(256))
    curved = MIDDLE_GREY * (light / MIDDLE_GREY) ** (1 / _PROBE_CONTRAST)
    plain, steep = (
        -float(np.log2(choose_settings(c.astype(np.float32)[rgb], None).gain))
        for c in (light, curved)
    )
    if plain < _BLACK_EV:
        return np.nan, np.nan, np.full(2, np.nan)
    grey = (plain - steep) / (1 - 1 / _PROBE_CONTRAST)
    coarse = rgb[::2, ::2]
    brightest = coarse.max(axis=-1)
    clear = (brightest < _MAX_LEVEL) & (brightest > _MIN_LEVEL)
    if clear.mean() < _MIN_UNCLIPPED_SHARE:
        return plain, grey, np.full(2, np.nan)
    white = choose_settings(
        light.astype(np.float32)[coarse[clear]][:, None], Automatics(white_balance=1.0)
    )
    return plain, grey, np.array([1 / white.red_gain, 1 / white.blue_gain])


def measure_tones(rgb: Rgb) -> ToneStatistics:
    """Return how light and colour of a photo (h, w, 3) are spread."""
    size = (max(1, rgb.shape[1] // _TONE_TILE_PX), max(1, rgb.shape[0] // _TONE_TILE_PX))
    light = decode_levels(cv2.resize(rgb, size, interpolation=cv2.INTER_AREA))
    grey = light.mean(axis=-1)
    low, high = np.log2(np.maximum(np.quantile(grey, _CONTRAST_QUANTILES), _MIN_LIGHT)).tolist()
    mean = max(float(grey.mean()), _MIN_LIGHT)
    color = float(np.abs(light - grey[..., None]).mean()) / mean
    return ToneStatistics(
        float(np.quantile(grey, _SHADOW_QUANTILE)) / mean,
        float(np.log(high - low)) if high > low else float("nan"),
        float(np.log(color)) if color > 0 else float("nan"),
    )


def _compute_weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2)])
