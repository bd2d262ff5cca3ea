"""Vignetting, lateral colour, white balance, exposure and tone statistics of a photo."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from sim2cam.adapt.calibration.board_corners import BoardDetection
from sim2cam.adapt.calibration.linearization import MIDDLE_GREY, decode_levels
from sim2cam.adapt.calibration.noise import split_tiles
from sim2cam.render.sensor.auto_exposure import choose_settings
from sim2cam.scene.sensor import Automatics

Floats = NDArray[np.float64]
Rgb = NDArray[np.uint8]

_TILES_PER_SIDE = 40  # across the longer side
_MIN_LEVEL, _MAX_LEVEL = 20, 240  # valid levels for estimates
_EDGE_THRESHOLDS = np.geomspace(0.2, 0.03, 12)  # of log light between tiles, by iteration
_MIN_PAIRS = 60
_FRINGE_TILE_PX = 32  # tile side for fringes
_FRINGE_SIGMA_PX = 1.2
_MIN_TILES = 6
_MIN_CONTRAST = 12  # levels, standard deviation
_MIN_WHITE_SQUARES = 4
_MIN_UNCLIPPED_SHARE = 0.01  # minimum share of valid pixels for the colour
_BLACK_EV = -8.0  # stops below auto exposure at which a photo counts as black
_PROBE_CONTRAST = 1.2  # contrast for the finite difference of the exposure
_TONE_TILE_PX = 4  # tile side for tone statistics
_SHADOW_QUANTILE = 0.01  # share of tiles that count as shadows
_CONTRAST_QUANTILES = (0.1, 0.9)  # of light, for the contrast
_MIN_LIGHT = 1e-3  # light that counts as black


@dataclass(frozen=True)
class ToneStatistics:
    """Distribution of light and colour in a photo.

    Attributes:
        shadow_level: light of the shadows over the mean.
        log_contrast: logarithm of the stops between dark and bright parts; NaN if they are equal.
        log_colorfulness: logarithm of the mean distance from grey over the mean light; NaN without
            colour.
    """

    shadow_level: float
    log_contrast: float
    log_colorfulness: float


def estimate_vignetting(rgb: Rgb) -> float:
    """Return the share of light lost in the corners, as in ``Sensor``; NaN without smooth areas.

    The light of scenes changes between tiles outwards as often as inwards, so the median radial
    change is that of the lens (after Zheng et al. 2008, "Single-image vignetting correction using
    radial gradient symmetry").

    Args:
        rgb: (h, w, 3) levels.
    """
    height, width = rgb.shape[:2]
    side = max(8, max(height, width) // _TILES_PER_SIDE)
    rows, columns = height // side, width // side
    if min(rows, columns) < 2:
        return float("nan")
    cropped = rgb[: rows * side, : columns * side]
    # float means, because vignetting between tiles is less than one level
    means = cv2.resize(cropped.astype(np.float32), (columns, rows), interpolation=cv2.INTER_AREA)
    peaks = cropped.reshape(rows, side, columns, side, 3).max(axis=(1, 3, 4))
    is_valid = (means.min(axis=-1) > _MIN_LEVEL) & (peaks < _MAX_LEVEL)
    light = np.log(np.maximum(decode_levels(means.mean(axis=-1)), 1e-4))
    y, x = ((np.arange(n) + 0.5) * side for n in (rows, columns))
    outward = ((2 * x / width - 1) ** 2 + (2 * y[:, None] / height - 1) ** 2) / 2
    changes, steps, radii = (
        np.concatenate([part.ravel() for part in parts])
        for parts in zip(
            *(_compute_neighbor_differences(light, outward, is_valid, axis) for axis in (0, 1)),
            strict=True,
        )
    )
    vignetting = 0.0
    for threshold in _EDGE_THRESHOLDS:
        transmission = 1 - vignetting * radii
        is_smooth = np.abs(changes + vignetting * steps / transmission) < threshold
        if is_smooth.sum() < _MIN_PAIRS:
            return float("nan")
        slopes = (-changes * transmission / steps)[is_smooth]
        vignetting = float(
            np.clip(_compute_weighted_median(slopes, np.abs(steps[is_smooth])), -0.5, 0.95)
        )
    return vignetting


def _compute_neighbor_differences(
    log_light: Floats, squared_radius: Floats, is_valid: NDArray[np.bool_], axis: int
) -> tuple[Floats, Floats, Floats]:
    """Return differences of light and radius between neighbours, and their mean radius."""
    first, second = (np.s_[:-1], np.s_[1:]) if axis == 0 else (np.s_[:, :-1], np.s_[:, 1:])
    is_pair = is_valid[first] & is_valid[second] & (squared_radius[second] != squared_radius[first])
    mean_radius = (squared_radius[first] + squared_radius[second]) / 2
    return (
        (log_light[second] - log_light[first])[is_pair],
        (squared_radius[second] - squared_radius[first])[is_pair],
        mean_radius[is_pair],
    )


def estimate_lateral_color(rgb: Rgb) -> Floats:
    """Return the relative scale of red and blue (2,) minus 1; NaN without clear edges.

    In each tile, a colour is a linear function of green and of its radial derivative.

    Args:
        rgb: (h, w, 3) levels.
    """
    # chroma is subsampled by two as well
    half = cv2.resize(rgb, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    smooth = np.asarray(cv2.GaussianBlur(half.astype(np.float64), (0, 0), _FRINGE_SIGMA_PX))
    height, width = smooth.shape[:2]
    y, x = np.mgrid[:height, :width]
    dy, dx = (
        gaussian_filter(half[..., 1].astype(np.float64), _FRINGE_SIGMA_PX, order)
        for order in ((1, 0), (0, 1))
    )
    radial = dx * (x - (width - 1) / 2) + dy * (y - (height - 1) / 2)
    if min(height, width) < _FRINGE_TILE_PX:
        return np.full(2, np.nan)
    red, green, blue, radial_tiles = (
        tiles - tiles.mean(axis=1, keepdims=True)
        for plane in (*smooth.transpose(2, 0, 1), radial)
        for tiles in (split_tiles(plane, _FRINGE_TILE_PX).reshape(-1, _FRINGE_TILE_PX**2),)
    )
    is_clear = (green.std(axis=1) > _MIN_CONTRAST) & (radial_tiles.std(axis=1) > 1e-6)
    if is_clear.sum() < _MIN_TILES:
        return np.full(2, np.nan)
    design = np.stack([green[is_clear], radial_tiles[is_clear]], axis=-1)
    normal_matrix = design.transpose(0, 2, 1) @ design + 1e-6 * np.eye(2)
    shifts = []
    for color in (red[is_clear], blue[is_clear]):
        slope, change = np.linalg.solve(
            normal_matrix, design.transpose(0, 2, 1) @ color[..., None]
        )[..., 0].T
        is_luminance_edge = slope > 0.3  # not a colour edge
        if is_luminance_edge.sum() < _MIN_TILES:
            return np.full(2, np.nan)
        weight = np.sqrt(np.linalg.det(normal_matrix) / normal_matrix[:, 0, 0])[is_luminance_edge]
        shifts.append(_compute_weighted_median(-(change / slope)[is_luminance_edge], weight))
    return np.array(shifts)


def measure_board_white(rgb: Rgb, detection: BoardDetection) -> Floats:
    """Return light of red and blue over green (2,) on a chessboard's light squares.

    NaN if the squares are too bright, too dark or too few.

    Args:
        rgb: (h, w, 3) levels.
    """
    columns, rows = (int(n) + 1 for n in detection.points_m[:, :2].max(axis=0))
    corners = detection.corners_px.reshape(rows, columns, 2)
    centers = (corners[:-1, :-1] + corners[:-1, 1:] + corners[1:, :-1] + corners[1:, 1:]) / 4
    x, y = np.rint(centers).astype(int).reshape(-1, 2).T
    inside = (x >= 0) & (y >= 0) & (x < rgb.shape[1]) & (y < rgb.shape[0])
    parities = (np.indices((rows - 1, columns - 1)).sum(axis=0) % 2).ravel()[inside]
    levels = cv2.blur(rgb.astype(np.float32), (3, 3))[y[inside], x[inside]].astype(np.float64)
    if len(set(parities.tolist())) < 2:
        return np.full(2, np.nan)
    light_parity = max((0, 1), key=lambda parity: float(levels[parities == parity].mean()))
    whites = levels[parities == light_parity]
    whites = whites[(whites.max(axis=1) < _MAX_LEVEL) & (whites.min(axis=1) > _MIN_LEVEL)]
    if len(whites) < _MIN_WHITE_SQUARES:
        return np.full(2, np.nan)
    red, green, blue = np.median(decode_levels(whites), axis=0)
    return np.array([red / green, blue / green])


def measure_exposure(rgb: Rgb) -> tuple[float, float, Floats]:
    """Return the settings that the renderer's auto exposure and white balance choose for a photo.

    Args:
        rgb: (h, w, 3) levels.

    Returns:
        Exposure in stops over that of auto exposure; metered light in stops over middle grey; light
        of red and blue over green (2,) of the estimated white, from unclipped pixels. NaN if the
        photo is too dark or clipped.
    """
    light = decode_levels(np.arange(256))
    contrasted = MIDDLE_GREY * (light / MIDDLE_GREY) ** (1 / _PROBE_CONTRAST)
    exposure, contrasted_exposure = (
        -float(np.log2(choose_settings(c.astype(np.float32)[rgb], None).gain))
        for c in (light, contrasted)
    )
    if exposure < _BLACK_EV:
        return np.nan, np.nan, np.full(2, np.nan)
    grey = (exposure - contrasted_exposure) / (1 - 1 / _PROBE_CONTRAST)
    subsampled = rgb[::2, ::2]
    brightest = subsampled.max(axis=-1)
    is_valid = (brightest < _MAX_LEVEL) & (brightest > _MIN_LEVEL)
    if is_valid.mean() < _MIN_UNCLIPPED_SHARE:
        return exposure, grey, np.full(2, np.nan)
    settings = choose_settings(
        light.astype(np.float32)[subsampled[is_valid]][:, None], Automatics(white_balance=1.0)
    )
    return exposure, grey, np.array([1 / settings.red_gain, 1 / settings.blue_gain])


def measure_tones(rgb: Rgb) -> ToneStatistics:
    """Return the tone statistics of a photo (h, w, 3)."""
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
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, cumulative[-1] / 2)])
