"""Structured-light depth camera: a projected pattern, matched window by window.

Windows match surfaces that the projector reaches and whose light is neither too weak nor too
strong. In a window with two surfaces, the one that returns more of the pattern wins, so that near
surfaces grow over far ones.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from sim2cam.render.depth.infrared import DepthCameraInput, compute_incidence_cosines
from sim2cam.render.gbuffer import PinholeView
from sim2cam.render.labels.disparity import convert_depth_disparity, find_occluded_pixels
from sim2cam.scene.depth_camera import StructuredLight

Floats = NDArray[np.float32]
BoolArray = NDArray[np.bool_]

_DISPARITY_EDGE_PX = 1.0  # neighbours that differ by more are different surfaces
_MIN_LIT_FRACTION = 0.5  # of a window, for a reading
_UNREACHABLE_DISPARITY = np.float32(1e9)


def measure_structured_light(
    view: PinholeView, inputs: DepthCameraInput, camera: StructuredLight
) -> Floats:
    """Return the measured depth (h, w), 0 without a reading. Deterministic."""
    rng = np.random.default_rng(camera.noise_seed)
    disparity = convert_depth_disparity(inputs.depth_m, view.focal_px, camera.baseline_m)
    incidence = np.arccos(compute_incidence_cosines(view, inputs))
    lit = _find_lit_pixels(inputs, disparity, incidence, camera, rng)
    matched = _match_windows(disparity, lit, inputs.returned_light, camera.window_px)

    # windows read past a rim, where the slant noise would diverge
    grazing = np.minimum(incidence, camera.max_incidence_rad)
    slant = np.asarray(grazing / (np.pi / 2 - grazing), dtype=np.float32)
    displaced = _add_lateral_noise(matched, slant, camera, rng)
    noise_px = _compute_axial_noise_px(displaced, slant, view, camera)
    noisy = displaced + noise_px * _sample_smooth_noise(displaced.shape, camera.window_px, rng)

    step = np.float32(camera.disparity_step_px)
    depth = convert_depth_disparity(np.rint(noisy / step) * step, view.focal_px, camera.baseline_m)
    is_valid = (displaced > 0) & (inputs.depth_m > 0)
    is_valid &= (depth >= camera.min_range_m) & (depth <= camera.max_range_m)
    return np.where(is_valid, depth, np.float32(0))


def _find_lit_pixels(
    inputs: DepthCameraInput,
    disparity: Floats,
    incidence: Floats,
    camera: StructuredLight,
    rng: np.random.Generator,
) -> BoolArray:
    """Return the mask (h, w) of pixels where the pattern is visible."""
    speckle = 1 + camera.speckle_contrast * rng.standard_normal(disparity.shape, dtype=np.float32)
    light = inputs.returned_light * speckle
    is_lit = (light >= camera.min_return) & (light <= camera.max_return)
    is_lit &= (incidence <= camera.max_incidence_rad) & (disparity > 0)
    return np.asarray(is_lit & ~find_occluded_pixels(disparity))


def _match_windows(disparity: Floats, lit: BoolArray, light: Floats, window_px: int) -> Floats:
    """Return the disparity (h, w) of each window, 0 without a match."""
    size = (window_px, window_px)
    lit_disparity = np.where(lit, disparity, np.float32(0))
    lit_fraction = cv2.blur(lit.astype(np.float32), size, borderType=cv2.BORDER_REPLICATE)
    total = cv2.blur(lit_disparity, size, borderType=cv2.BORDER_REPLICATE)
    matched = np.divide(
        total, lit_fraction, out=np.zeros_like(total), where=lit_fraction >= _MIN_LIT_FRACTION
    )
    contested = _find_edge_windows(disparity, window_px) & (lit_fraction >= _MIN_LIT_FRACTION)
    if contested.any():
        matched[contested] = _resolve_contested_windows(contested, disparity, lit, light, window_px)
    return np.asarray(matched, dtype=np.float32)


def _find_edge_windows(disparity: Floats, window_px: int) -> BoolArray:
    """Return the mask (h, w) of windows that may contain two surfaces."""
    kernel = np.ones((3, 3), np.uint8)
    ranges = cv2.dilate(disparity, kernel) - cv2.erode(disparity, kernel)
    edge = (ranges > _DISPARITY_EDGE_PX).astype(np.uint8)
    return np.asarray(cv2.dilate(edge, np.ones((window_px, window_px), np.uint8)) > 0)


def _resolve_contested_windows(
    contested: BoolArray, disparity: Floats, lit: BoolArray, light: Floats, window_px: int
) -> Floats:
    """Return the mean disparity (n,) of the winning surface of each contested window.

    A window is split half-way between its nearest and farthest disparity. The surface with the
    larger pattern energy (squared light) wins.
    """
    square = np.ones((window_px, window_px), np.uint8)
    nearest = cv2.dilate(np.where(lit, disparity, np.float32(0)), square)[contested]
    farthest = cv2.erode(np.where(lit, disparity, _UNREACHABLE_DISPARITY), square)[contested]
    middle = (nearest + farthest) / 2
    margin = window_px // 2
    counts, energies, totals, values = (
        cv2.copyMakeBorder(
            array.astype(np.float32), margin, margin, margin, margin, cv2.BORDER_REPLICATE
        )
        for array in (lit, lit * light * light, lit * disparity, disparity)
    )
    rows, columns = np.nonzero(contested)
    corner = rows * values.shape[1] + columns
    near, both = np.zeros((2, 3, len(corner)), np.float32)
    for down in range(window_px):
        for right in range(window_px):
            indices = corner + (down * values.shape[1] + right)
            is_near = values.take(indices) > middle
            texel_values = np.stack([layer.take(indices) for layer in (counts, energies, totals)])
            both += texel_values
            near += texel_values * is_near
    count, _, total = np.where(near[1] > both[1] / 2, near, both - near)
    return np.asarray(total / np.maximum(count, 1), dtype=np.float32)


def _add_lateral_noise(
    disparity: Floats, slant: Floats, camera: StructuredLight, rng: np.random.Generator
) -> Floats:
    """Displace the edges of surfaces in the disparity (h, w)."""
    height, width = disparity.shape
    sigma_px = camera.lateral_noise_px + camera.lateral_slant_px * slant
    down, right = (
        np.rint(sigma_px * _sample_smooth_noise(disparity.shape, camera.window_px, rng)).astype(
            np.intp
        )
        for _ in range(2)
    )
    rows = np.clip(np.arange(height)[:, None] + down, 0, height - 1)
    columns = np.clip(np.arange(width) + right, 0, width - 1)
    displaced = disparity[rows, columns]
    # within a surface, axial noise measured on slanted surfaces includes the displacement
    is_other = np.abs(displaced - disparity) > _DISPARITY_EDGE_PX
    return np.where(is_other, displaced, disparity)


def _compute_axial_noise_px(
    disparity: Floats, slant: Floats, view: PinholeView, camera: StructuredLight
) -> Floats:
    """Return the standard deviation (h, w) of axial noise, without quantization noise."""
    depth = convert_depth_disparity(disparity, view.focal_px, camera.baseline_m)
    excess_m = depth - camera.axial_nearest_m
    sigma = camera.axial_noise_m + camera.axial_growth_per_m * excess_m * excess_m
    sigma += camera.axial_slant_m * slant * slant / np.sqrt(np.maximum(depth, camera.min_range_m))
    sigma_px = sigma * np.divide(disparity, depth, out=np.zeros_like(depth), where=depth > 0)
    variance = np.maximum(sigma_px**2 - camera.disparity_step_px**2 / 12, 0)
    return np.asarray(np.sqrt(variance), dtype=np.float32)


def _sample_smooth_noise(
    shape: tuple[int, ...], window_px: int, rng: np.random.Generator
) -> Floats:
    """Return standard normal noise (h, w), correlated between overlapping windows."""
    padded = (shape[0] + window_px - 1, shape[1] + window_px - 1)
    white = rng.standard_normal(padded, dtype=np.float32)
    mixed = cv2.blur(white, (window_px, window_px)) * window_px
    half = window_px // 2
    return np.asarray(mixed[half : half + shape[0], half : half + shape[1]], dtype=np.float32)
