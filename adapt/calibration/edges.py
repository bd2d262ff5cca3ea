"""Edges: how wide straight steps of brightness are in a photo, and how far they overshoot.

A step is taken as blurred in linear light by a normal law, spread over square pixels, encoded by the
curve of sRGB, and sharpened there by an unsharp mask: the steps of ``render.camera.sensor``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.special import ndtr

from sim2cam.adapt.calibration.linearization import decode_levels, encode_levels

Floats = NDArray[np.float64]

_WINDOW_RADIUS_PX = 8  # of the window around an edge, pixels
MAX_EDGES = 40
"""Of a photo, the steepest first, that tell how sharp it is."""
_MIN_STEP = 40  # levels between both sides
_BIN_PX = 0.25
_MAX_SIDE_STD_SHARE = 0.08  # of the step, by which a side may vary
_MAX_PROFILE_ERROR_SHARE = 0.06  # of the step, by which pixels may be off their profile
_CLIPPED_LEVEL = 250
_SHARPENING_SIGMA_PX = 1.0  # of render.camera.sensor
_PIXEL_VARIANCE = 1 / 12  # of the square that a pixel averages over
_PROFILE_PADDING = 24  # quarters of a pixel beyond the profile
_PROFILE_POSITIONS_PX = (
    np.arange(
        -(_WINDOW_RADIUS_PX - 1) / _BIN_PX - _PROFILE_PADDING,
        (_WINDOW_RADIUS_PX - 1) / _BIN_PX + _PROFILE_PADDING + 1,
    )
    * _BIN_PX
)
_UNSHARP_KERNEL = gaussian_filter1d(
    np.eye(len(_PROFILE_POSITIONS_PX)), _SHARPENING_SIGMA_PX / _BIN_PX, mode="nearest"
)
_DERIVATIVE_STEPS = np.array([0.1, 0.1, 1e-3, 1e-3, 1e-3])  # of derivatives
_ITERATIONS = 15
_MIN_SLOPE = 8  # levels a pixel
_MAX_CANDIDATES = 400


@dataclass(frozen=True, eq=False)
class EdgeProfile:
    """A straight step of brightness.

    Attributes:
        levels: (57,) levels of the encoded picture across it, from dark to bright, every quarter of
            a pixel.
        normal_angle_rad: the way across it, from the picture's x to its y.
    """

    levels: Floats
    normal_angle_rad: float


def find_edges(grey: NDArray[np.uint8], max_edges: int = MAX_EDGES) -> list[EdgeProfile]:
    """Return the clearest straight steps of a photo, the steepest first.

    Args:
        grey: (h, w).
        max_edges: steps that are looked for.
    """
    level = grey.astype(np.float32)
    dx, dy = (cv2.Scharr(level, cv2.CV_32F, *way) / 32 for way in ((1, 0), (0, 1)))
    steep = np.hypot(dx, dy)
    peaks = (steep == cv2.dilate(steep, np.ones((2 * _WINDOW_RADIUS_PX + 1,) * 2))) & (
        steep > _MIN_SLOPE
    )
    inside = np.zeros_like(peaks)
    inside[_WINDOW_RADIUS_PX:-_WINDOW_RADIUS_PX, _WINDOW_RADIUS_PX:-_WINDOW_RADIUS_PX] = True
    rows, columns = np.nonzero(peaks & inside)
    order = np.argsort(-steep[rows, columns], kind="stable")[:_MAX_CANDIDATES]
    found: list[EdgeProfile] = []
    for y, x in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        window = np.s_[
            y - _WINDOW_RADIUS_PX : y + _WINDOW_RADIUS_PX + 1,
            x - _WINDOW_RADIUS_PX : x + _WINDOW_RADIUS_PX + 1,
        ]
        edge = _extract_edge(level[window], dx[window], dy[window])
        if edge is not None:
            found.append(edge)
        if len(found) == max_edges:
            break
    return found


def fit_edges(edges: Sequence[EdgeProfile]) -> Floats:
    """Return blur (pixels), sharpening and the way across (radians) of steps (n, 3).

    Those that no step explains are left out.
    """
    if not edges:
        return np.zeros((0, 3))
    levels = np.array([edge.levels for edge in edges])
    ends = np.quantile(levels, (0.1, 0.9), axis=1)
    numbers = np.column_stack([*ends, np.zeros(len(edges)), *np.tile([[0.8], [0.2]], len(edges))])
    low, high = np.array([0, 0, -2, 0.05, -0.9]), np.array([255, 255, 2, 6.0, 4.0])
    damping = np.full(len(edges), 1e-2)
    off = _render_profiles(numbers) - levels
    cost = (off**2).sum(axis=1)
    for _ in range(_ITERATIONS):
        steps = zip(_DERIVATIVE_STEPS, np.eye(5), strict=True)
        moved = [_render_profiles(numbers + d * unit) - levels for d, unit in steps]
        slopes = np.stack(
            [(m - off) / d for m, d in zip(moved, _DERIVATIVE_STEPS, strict=True)], axis=-1
        )
        square = np.einsum("enp,enq->epq", slopes, slopes)
        square += damping[:, None, None] * square * np.eye(5) + 1e-9 * np.eye(5)
        way = np.linalg.solve(square, np.einsum("enp,en->ep", slopes, off)[..., None])[..., 0]
        tried = np.clip(numbers - way, low, high)
        tried_off = _render_profiles(tried) - levels
        tried_cost = (tried_off**2).sum(axis=1)
        better = tried_cost < cost
        numbers = np.where(better[:, None], tried, numbers)
        off = np.where(better[:, None], tried_off, off)
        cost, damping = np.minimum(cost, tried_cost), damping * np.where(better, 0.2, 8)
    rms = np.sqrt(cost / levels.shape[1])
    explained = rms < _MAX_PROFILE_ERROR_SHARE * (numbers[:, 1] - numbers[:, 0])
    ways = np.array([edge.normal_angle_rad for edge in edges])
    return np.asarray(np.column_stack([numbers[:, 3:], ways])[explained])


def estimate_blur_anisotropy(edge_fits: Floats) -> Floats:
    """Return by how much steps one way are wider than those at right angles, and how unsure it is.

    Those are half the difference of their variances, and the variance of that (2,); NaN where too few
    steps stand both ways. Motion of (x, y) pixels along those ways adds x^2 / 12 to the one and y^2 / 12 to
    the other, so that the first number is (x^2 - y^2) / 24.

    Args:
        edge_fits: (n, 3) of ``fit_edges``.
    """
    blur, sharpening, ways = edge_fits.T
    squares = blur**2 - _SHARPENING_VARIANCE_PX2 * sharpening  # variance of what both do together
    usual = np.angle(np.exp(4j * ways).sum()) / 4 if len(ways) else 0.0
    along = np.cos(2 * (ways - usual))
    sides = [np.flatnonzero(sign * along > _MIN_ALIGNMENT) for sign in (1, -1)]
    if min(map(len, sides)) < _MIN_ALIGNED_EDGES:
        return np.full(2, np.nan)
    middles = [float(np.median(squares[side])) for side in sides]
    apart = float(along[sides[0]].mean() - along[sides[1]].mean())
    variances = [
        max(float(np.median(np.abs(squares[side] - middle))) * _MEDIAN_STANDARD_ERROR, _MIN_STD_PX2)
        ** 2
        / len(side)
        for side, middle in zip(sides, middles, strict=True)
    ]
    return np.array([(middles[0] - middles[1]) / apart, sum(variances) / apart**2])


_SHARPENING_VARIANCE_PX2 = (
    0.75  # square pixels by which sharpening of 1 narrows steps that moved 2 to 6 px, measured
)
_MIN_ALIGNMENT = 0.7  # cosine of twice the angle up to which a step stands the usual way
_MIN_ALIGNED_EDGES = 4
_MEDIAN_STANDARD_ERROR = (
    1.4826 * 1.2533
)  # standard error of a median, over the median distance from it
_MIN_STD_PX2 = 0.03  # square pixels, standard deviation of a step's squared blur at best


def _render_profiles(parameters: Floats) -> Floats:
    """Return the levels (n, 57) of steps: of both sides, where, blur, sharpening (n, 5)."""
    dark, bright = decode_levels(parameters[:, :1]), decode_levels(parameters[:, 1:2])
    middle, blur, sharpening = parameters[:, 2:3], parameters[:, 3:4], parameters[:, 4:]
    width = np.sqrt(blur**2 + _PIXEL_VARIANCE)
    picture = encode_levels(dark + (bright - dark) * ndtr((_PROFILE_POSITIONS_PX - middle) / width))
    sharp = picture + sharpening * (picture - picture @ _UNSHARP_KERNEL.T)
    return np.asarray(sharp[:, _PROFILE_PADDING:-_PROFILE_PADDING])


def _extract_edge(levels: NDArray[Any], dx: NDArray[Any], dy: NDArray[Any]) -> EdgeProfile | None:
    """Return the step on which the middle of a window (n, n) lies; None unless it is clear."""
    tensor = [float((a * b).sum()) for a, b in ((dx, dx), (dx, dy), (dy, dy))]
    turn = 0.5 * np.arctan2(2 * tensor[1], tensor[0] - tensor[2])
    if (
        float(
            dx[_WINDOW_RADIUS_PX, _WINDOW_RADIUS_PX] * np.cos(turn)
            + dy[_WINDOW_RADIUS_PX, _WINDOW_RADIUS_PX] * np.sin(turn)
        )
        < 0
    ):
        turn += np.pi
    y, x = np.mgrid[
        -_WINDOW_RADIUS_PX : _WINDOW_RADIUS_PX + 1, -_WINDOW_RADIUS_PX : _WINDOW_RADIUS_PX + 1
    ]
    offset, along = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    near = (np.abs(offset) <= _WINDOW_RADIUS_PX - 1) & (np.abs(along) <= _WINDOW_RADIUS_PX / 2)
    dark, bright = (levels[near & side] for side in (offset < -4, offset > 4))
    step = float(bright.mean() - dark.mean())
    if step < _MIN_STEP or bright.max() > _CLIPPED_LEVEL:
        return None
    if max(float(dark.std()), float(bright.std())) > _MAX_SIDE_STD_SHARE * step:
        return None
    values = levels[near]
    bins = np.round((offset[near] + _WINDOW_RADIUS_PX - 1) / _BIN_PX).astype(int)
    counts = np.maximum(np.bincount(bins), 1)
    places, means = (np.bincount(bins, w) / counts for w in (offset[near], values))
    if np.sqrt(((values - means[bins]) ** 2).mean()) > _MAX_PROFILE_ERROR_SHARE * step:
        return None
    filled = np.bincount(bins) > 0
    grid = _PROFILE_POSITIONS_PX[_PROFILE_PADDING:-_PROFILE_PADDING]
    return EdgeProfile(np.interp(grid, places[filled], means[filled]), float(turn))
