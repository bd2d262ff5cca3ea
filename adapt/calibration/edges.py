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

from sim2cam.adapt.calibration.linearization import decoded, encoded

Floats = NDArray[np.float64]

_RADIUS = 8  # of the window around an edge, pixels
MOST_EDGES = 40
"""Of a photo, the steepest first, that tell how sharp it is."""
_LEAST_STEP = 40  # levels between both sides
_BIN_PX = 0.25
_FLAT = 0.08  # of the step, by which a side may vary
_STRAIGHT = 0.06  # of the step, by which pixels may be off their profile
_CLIPPED = 250
_SHARPENING_SIGMA_PX = 1.0  # of render.camera.sensor
_PIXEL_VARIANCE = 1 / 12  # of the square that a pixel averages over
_MARGIN = 24  # quarters of a pixel beyond the profile
_FINE = (
    np.arange(-(_RADIUS - 1) / _BIN_PX - _MARGIN, (_RADIUS - 1) / _BIN_PX + _MARGIN + 1) * _BIN_PX
)
_SOFT = gaussian_filter1d(np.eye(len(_FINE)), _SHARPENING_SIGMA_PX / _BIN_PX, mode="nearest")
_DELTAS = np.array([0.1, 0.1, 1e-3, 1e-3, 1e-3])  # of derivatives
_STEPS = 15
_LEAST_SLOPE = 8  # levels a pixel
_MOST_TRIED = 400


@dataclass(frozen=True, eq=False)
class Edge:
    """A straight step of brightness.

    Attributes:
        profile: (57,) levels of the encoded picture across it, from dark to bright, every quarter of
            a pixel.
        across_rad: the way across it, from the picture's x to its y.
    """

    profile: Floats
    across_rad: float


def find_edges(grey: NDArray[np.uint8], most: int = MOST_EDGES) -> list[Edge]:
    """Returns the clearest straight steps of a photo, the steepest first.

    Args:
        grey: (h, w).
        most: steps that are looked for.
    """
    level = grey.astype(np.float32)
    dx, dy = (cv2.Scharr(level, cv2.CV_32F, *way) / 32 for way in ((1, 0), (0, 1)))
    steep = np.hypot(dx, dy)
    peaks = (steep == cv2.dilate(steep, np.ones((2 * _RADIUS + 1,) * 2))) & (steep > _LEAST_SLOPE)
    inside = np.zeros_like(peaks)
    inside[_RADIUS:-_RADIUS, _RADIUS:-_RADIUS] = True
    rows, columns = np.nonzero(peaks & inside)
    order = np.argsort(-steep[rows, columns], kind="stable")[:_MOST_TRIED]
    found: list[Edge] = []
    for y, x in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        window = np.s_[y - _RADIUS : y + _RADIUS + 1, x - _RADIUS : x + _RADIUS + 1]
        edge = _edge(level[window], dx[window], dy[window])
        if edge is not None:
            found.append(edge)
        if len(found) == most:
            break
    return found


def fit_edges(edges: Sequence[Edge]) -> Floats:
    """Returns blur (pixels), sharpening and the way across (radians) of steps (n, 3).

    Those that no step explains are left out.
    """
    if not edges:
        return np.zeros((0, 3))
    levels = np.array([edge.profile for edge in edges])
    ends = np.quantile(levels, (0.1, 0.9), axis=1)
    numbers = np.column_stack([*ends, np.zeros(len(edges)), *np.tile([[0.8], [0.2]], len(edges))])
    low, high = np.array([0, 0, -2, 0.05, -0.9]), np.array([255, 255, 2, 6.0, 4.0])
    damping = np.full(len(edges), 1e-2)
    off = _profiles(numbers) - levels
    cost = (off**2).sum(axis=1)
    for _ in range(_STEPS):
        steps = zip(_DELTAS, np.eye(5), strict=True)
        moved = [_profiles(numbers + d * unit) - levels for d, unit in steps]
        slopes = np.stack([(m - off) / d for m, d in zip(moved, _DELTAS, strict=True)], axis=-1)
        square = np.einsum("enp,enq->epq", slopes, slopes)
        square += damping[:, None, None] * square * np.eye(5) + 1e-9 * np.eye(5)
        way = np.linalg.solve(square, np.einsum("enp,en->ep", slopes, off)[..., None])[..., 0]
        tried = np.clip(numbers - way, low, high)
        tried_off = _profiles(tried) - levels
        tried_cost = (tried_off**2).sum(axis=1)
        better = tried_cost < cost
        numbers = np.where(better[:, None], tried, numbers)
        off = np.where(better[:, None], tried_off, off)
        cost, damping = np.minimum(cost, tried_cost), damping * np.where(better, 0.2, 8)
    rms = np.sqrt(cost / levels.shape[1])
    explained = rms < _STRAIGHT * (numbers[:, 1] - numbers[:, 0])
    ways = np.array([edge.across_rad for edge in edges])
    return np.asarray(np.column_stack([numbers[:, 3:], ways])[explained])


def smear(fitted: Floats) -> Floats:
    """Returns by how much steps one way are wider than those at right angles, and how unsure it is.

    Those are half the difference of their variances, and the variance of that (2,); NaN where too few
    steps stand both ways. Motion of (x, y) pixels along those ways adds x^2 / 12 to the one and y^2 / 12 to
    the other, so that the first number is (x^2 - y^2) / 24.

    Args:
        fitted: (n, 3) of ``fit_edges``.
    """
    blur, sharpening, ways = fitted.T
    squares = blur**2 - _NARROWED * sharpening  # variance of what both do together
    usual = np.angle(np.exp(4j * ways).sum()) / 4 if len(ways) else 0.0
    along = np.cos(2 * (ways - usual))
    sides = [np.flatnonzero(sign * along > _ALIGNED) for sign in (1, -1)]
    if min(map(len, sides)) < _LEAST_ALIGNED:
        return np.full(2, np.nan)
    middles = [float(np.median(squares[side])) for side in sides]
    apart = float(along[sides[0]].mean() - along[sides[1]].mean())
    variances = [
        max(float(np.median(np.abs(squares[side] - middle))) * _OF_MEDIAN, _SURE) ** 2 / len(side)
        for side, middle in zip(sides, middles, strict=True)
    ]
    return np.array([(middles[0] - middles[1]) / apart, sum(variances) / apart**2])


_NARROWED = (
    0.75  # square pixels by which sharpening of 1 narrows steps that moved 2 to 6 px, measured
)
_ALIGNED = 0.7  # cosine of twice the angle up to which a step stands the usual way
_LEAST_ALIGNED = 4
_OF_MEDIAN = 1.4826 * 1.2533  # standard error of a median, over the median distance from it
_SURE = 0.03  # square pixels, standard deviation of a step's squared blur at best


def _profiles(numbers: Floats) -> Floats:
    """Returns the levels (n, 57) of steps: of both sides, where, blur, sharpening (n, 5)."""
    dark, bright = decoded(numbers[:, :1]), decoded(numbers[:, 1:2])
    middle, blur, sharpening = numbers[:, 2:3], numbers[:, 3:4], numbers[:, 4:]
    width = np.sqrt(blur**2 + _PIXEL_VARIANCE)
    picture = encoded(dark + (bright - dark) * ndtr((_FINE - middle) / width))
    sharp = picture + sharpening * (picture - picture @ _SOFT.T)
    return np.asarray(sharp[:, _MARGIN:-_MARGIN])


def _edge(level: NDArray[Any], dx: NDArray[Any], dy: NDArray[Any]) -> Edge | None:
    """Returns the step on which the middle of a window (n, n) lies; None unless it is clear."""
    tensor = [float((a * b).sum()) for a, b in ((dx, dx), (dx, dy), (dy, dy))]
    turn = 0.5 * np.arctan2(2 * tensor[1], tensor[0] - tensor[2])
    if float(dx[_RADIUS, _RADIUS] * np.cos(turn) + dy[_RADIUS, _RADIUS] * np.sin(turn)) < 0:
        turn += np.pi
    y, x = np.mgrid[-_RADIUS : _RADIUS + 1, -_RADIUS : _RADIUS + 1]
    offset, along = x * np.cos(turn) + y * np.sin(turn), y * np.cos(turn) - x * np.sin(turn)
    near = (np.abs(offset) <= _RADIUS - 1) & (np.abs(along) <= _RADIUS / 2)
    dark, bright = (level[near & side] for side in (offset < -4, offset > 4))
    step = float(bright.mean() - dark.mean())
    if step < _LEAST_STEP or bright.max() > _CLIPPED:
        return None
    if max(float(dark.std()), float(bright.std())) > _FLAT * step:
        return None
    values = level[near]
    bins = np.round((offset[near] + _RADIUS - 1) / _BIN_PX).astype(int)
    counts = np.maximum(np.bincount(bins), 1)
    places, means = (np.bincount(bins, w) / counts for w in (offset[near], values))
    if np.sqrt(((values - means[bins]) ** 2).mean()) > _STRAIGHT * step:
        return None
    filled = np.bincount(bins) > 0
    grid = _FINE[_MARGIN:-_MARGIN]
    return Edge(np.interp(grid, places[filled], means[filled]), float(turn))
