"""Width and overshoot of straight edges in a photo.

Edge model, as in ``render.sensor``: a step with Gaussian blur in linear light, integrated over
square pixels, encoded by the sRGB curve, and sharpened by an unsharp mask.
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

_WINDOW_RADIUS_PX = 8  # of the window around an edge
MAX_EDGES = 40
"""Maximum number of edges that determine the sharpness of a photo, steepest first."""
_MIN_STEP = 40  # levels
_BIN_PX = 0.25
_MAX_SIDE_STD_SHARE = 0.08  # standard deviation of one side over the step
_MAX_PROFILE_ERROR_SHARE = 0.06  # RMS error of the profile over the step
_CLIPPED_LEVEL = 250
_SHARPENING_SIGMA_PX = 1.0  # as in render.sensor
_PIXEL_VARIANCE = 1 / 12  # of a square pixel, squared pixels
_PROFILE_PADDING = 24  # bins beyond the profile
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
_DERIVATIVE_STEPS = np.array([0.1, 0.1, 1e-3, 1e-3, 1e-3])  # of finite differences
_ITERATIONS = 15
_MIN_SLOPE = 8  # levels per pixel
_MAX_CANDIDATES = 400


@dataclass(frozen=True, eq=False)
class EdgeProfile:
    """Profile of a straight edge.

    Attributes:
        levels: (57,) encoded levels across the edge, from dark to bright, every 0.25 px.
        normal_angle_rad: direction across the edge, from x to y.
    """

    levels: Floats
    normal_angle_rad: float


def find_edges(grey: NDArray[np.uint8], max_edges: int = MAX_EDGES) -> list[EdgeProfile]:
    """Return the clearest straight edges of a photo, steepest first.

    Args:
        grey: (h, w) levels.
    """
    levels = grey.astype(np.float32)
    dx, dy = (cv2.Scharr(levels, cv2.CV_32F, *order) / 32 for order in ((1, 0), (0, 1)))
    slope = np.hypot(dx, dy)
    is_peak = (slope == cv2.dilate(slope, np.ones((2 * _WINDOW_RADIUS_PX + 1,) * 2))) & (
        slope > _MIN_SLOPE
    )
    is_inside = np.zeros_like(is_peak)
    is_inside[_WINDOW_RADIUS_PX:-_WINDOW_RADIUS_PX, _WINDOW_RADIUS_PX:-_WINDOW_RADIUS_PX] = True
    rows, columns = np.nonzero(is_peak & is_inside)
    order = np.argsort(-slope[rows, columns], kind="stable")[:_MAX_CANDIDATES]
    edges: list[EdgeProfile] = []
    for y, x in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        window = np.s_[
            y - _WINDOW_RADIUS_PX : y + _WINDOW_RADIUS_PX + 1,
            x - _WINDOW_RADIUS_PX : x + _WINDOW_RADIUS_PX + 1,
        ]
        edge = _extract_edge(levels[window], dx[window], dy[window])
        if edge is not None:
            edges.append(edge)
        if len(edges) == max_edges:
            break
    return edges


def fit_edges(edges: Sequence[EdgeProfile]) -> Floats:
    """Fit the edge model to profiles; return blur (pixels), sharpening and normal angle (radians).

    Returns:
        (n, 3) parameters; without edges that the model does not fit.
    """
    if not edges:
        return np.zeros((0, 3))
    levels = np.array([edge.levels for edge in edges])
    ends = np.quantile(levels, (0.1, 0.9), axis=1)
    initial = np.tile([[0.8], [0.2]], len(edges))
    parameters = np.column_stack([*ends, np.zeros(len(edges)), *initial])
    low, high = np.array([0, 0, -2, 0.05, -0.9]), np.array([255, 255, 2, 6.0, 4.0])
    damping = np.full(len(edges), 1e-2)
    residuals = _render_profiles(parameters) - levels
    cost = (residuals**2).sum(axis=1)
    for _ in range(_ITERATIONS):
        steps = zip(_DERIVATIVE_STEPS, np.eye(5), strict=True)
        shifted = [_render_profiles(parameters + d * unit) - levels for d, unit in steps]
        jacobian = np.stack(
            [(m - residuals) / d for m, d in zip(shifted, _DERIVATIVE_STEPS, strict=True)], axis=-1
        )
        normal_matrix = np.einsum("enp,enq->epq", jacobian, jacobian)
        normal_matrix += damping[:, None, None] * normal_matrix * np.eye(5) + 1e-9 * np.eye(5)
        step = np.linalg.solve(
            normal_matrix, np.einsum("enp,en->ep", jacobian, residuals)[..., None]
        )[..., 0]
        candidates = np.clip(parameters - step, low, high)
        candidate_residuals = _render_profiles(candidates) - levels
        candidate_cost = (candidate_residuals**2).sum(axis=1)
        is_better = candidate_cost < cost
        parameters = np.where(is_better[:, None], candidates, parameters)
        residuals = np.where(is_better[:, None], candidate_residuals, residuals)
        cost, damping = np.minimum(cost, candidate_cost), damping * np.where(is_better, 0.2, 8)
    rms = np.sqrt(cost / levels.shape[1])
    is_explained = rms < _MAX_PROFILE_ERROR_SHARE * (parameters[:, 1] - parameters[:, 0])
    angles = np.array([edge.normal_angle_rad for edge in edges])
    return np.asarray(np.column_stack([parameters[:, 3:], angles])[is_explained])


def estimate_blur_anisotropy(edge_fits: Floats) -> Floats:
    """Return the anisotropy of blur in two perpendicular directions, and its variance (2,).

    The anisotropy is half the difference of the blur variances; NaN with too few edges in either
    direction. Motion of (x, y) pixels along these directions adds x^2 / 12 and y^2 / 12 to the
    variances, so the expected anisotropy is (x^2 - y^2) / 24.

    Args:
        edge_fits: (n, 3) result of ``fit_edges``.
    """
    blur, sharpening, angles = edge_fits.T
    blur_variances = blur**2 - _SHARPENING_VARIANCE_PX2 * sharpening  # effective variance of both
    main_angle = np.angle(np.exp(4j * angles).sum()) / 4 if len(angles) else 0.0
    alignment = np.cos(2 * (angles - main_angle))
    groups = [np.flatnonzero(sign * alignment > _MIN_ALIGNMENT) for sign in (1, -1)]
    if min(map(len, groups)) < _MIN_ALIGNED_EDGES:
        return np.full(2, np.nan)
    medians = [float(np.median(blur_variances[group])) for group in groups]
    contrast = float(alignment[groups[0]].mean() - alignment[groups[1]].mean())
    variances = [
        max(
            float(np.median(np.abs(blur_variances[group] - median))) * _MEDIAN_STANDARD_ERROR,
            _MIN_STD_PX2,
        )
        ** 2
        / len(group)
        for group, median in zip(groups, medians, strict=True)
    ]
    return np.array([(medians[0] - medians[1]) / contrast, sum(variances) / contrast**2])


_SHARPENING_VARIANCE_PX2 = 0.75  # decrease for sharpening 1 and motion of 2 to 6 px, measured
_MIN_ALIGNMENT = 0.7  # cosine of twice the angle to the main direction
_MIN_ALIGNED_EDGES = 4
_MEDIAN_STANDARD_ERROR = 1.4826 * 1.2533  # of a median, over the median absolute deviation
_MIN_STD_PX2 = 0.03  # minimum standard deviation of the squared blur of an edge


def _render_profiles(parameters: Floats) -> Floats:
    """Return the levels (n, 57) of edge profiles.

    Args:
        parameters: (n, 5) dark level, bright level, position, blur and sharpening.
    """
    dark, bright = decode_levels(parameters[:, :1]), decode_levels(parameters[:, 1:2])
    position, blur, sharpening = parameters[:, 2:3], parameters[:, 3:4], parameters[:, 4:]
    width = np.sqrt(blur**2 + _PIXEL_VARIANCE)
    encoded = encode_levels(
        dark + (bright - dark) * ndtr((_PROFILE_POSITIONS_PX - position) / width)
    )
    sharpened = encoded + sharpening * (encoded - encoded @ _UNSHARP_KERNEL.T)
    return np.asarray(sharpened[:, _PROFILE_PADDING:-_PROFILE_PADDING])


def _extract_edge(levels: NDArray[Any], dx: NDArray[Any], dy: NDArray[Any]) -> EdgeProfile | None:
    """Return the edge through the centre of a window (n, n); None unless it is clear."""
    tensor = [float((a * b).sum()) for a, b in ((dx, dx), (dx, dy), (dy, dy))]
    angle = 0.5 * np.arctan2(2 * tensor[1], tensor[0] - tensor[2])
    center = (_WINDOW_RADIUS_PX, _WINDOW_RADIUS_PX)
    if float(dx[center] * np.cos(angle) + dy[center] * np.sin(angle)) < 0:
        angle += np.pi
    y, x = np.mgrid[
        -_WINDOW_RADIUS_PX : _WINDOW_RADIUS_PX + 1, -_WINDOW_RADIUS_PX : _WINDOW_RADIUS_PX + 1
    ]
    offset, along = x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)
    is_near = (np.abs(offset) <= _WINDOW_RADIUS_PX - 1) & (np.abs(along) <= _WINDOW_RADIUS_PX / 2)
    dark, bright = (levels[is_near & side] for side in (offset < -4, offset > 4))
    step = float(bright.mean() - dark.mean())
    if step < _MIN_STEP or bright.max() > _CLIPPED_LEVEL:
        return None
    if max(float(dark.std()), float(bright.std())) > _MAX_SIDE_STD_SHARE * step:
        return None
    values = levels[is_near]
    bins = np.round((offset[is_near] + _WINDOW_RADIUS_PX - 1) / _BIN_PX).astype(int)
    counts = np.maximum(np.bincount(bins), 1)
    positions, means = (np.bincount(bins, w) / counts for w in (offset[is_near], values))
    if np.sqrt(((values - means[bins]) ** 2).mean()) > _MAX_PROFILE_ERROR_SHARE * step:
        return None
    is_filled = np.bincount(bins) > 0
    grid = _PROFILE_POSITIONS_PX[_PROFILE_PADDING:-_PROFILE_PADDING]
    return EdgeProfile(np.interp(grid, positions[is_filled], means[is_filled]), float(angle))
